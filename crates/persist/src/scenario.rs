//! Questions to the planner: a platform, an operation and an update.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::platform::Platform;
use crate::words::words;

/// The operation that carries the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// WRITE, or ATOMIC_WRITE if eight bytes suffice.
    Write,
    /// WRITE_WITH_IMM: writes, and tells the responder by 32 bits, which a crash may lose.
    WriteImmediate,
    /// SEND of the value and its place; the responder, or recovery from persistent receive buffers, copies it there.
    Send,
    /// SEND into the responder's own memory, at a place that the responder's device chooses: an entry, which proves
    /// itself. The receive buffer is the place, so nothing is copied, and the axis of receive buffers does not matter.
    Append,
}

impl Operation {
    /// The operations of the taxonomy.
    pub const PUBLISHED: &[Self] = &[Self::Write, Self::WriteImmediate, Self::Send];
}

words! { Operation, "operation", "write, write-imm, send or append",
    Write = "write";
    WriteImmediate = "write-imm";
    Send = "send";
    Append = "append";
}

/// The update to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// One contiguous update `a` of any size.
    Single,
    /// `a` of any size, then `b`: `b` never survives without `a`.
    Compound {
        /// Whether `b` may be longer than 8 bytes, too long for ATOMIC_WRITE.
        large: bool,
    },
}

impl Update {
    /// The three kinds.
    pub const ALL: &[Self] = &[
        Self::Single,
        Self::Compound { large: false },
        Self::Compound { large: true },
    ];

    /// Whether there is a `b`.
    pub fn is_compound(self) -> bool {
        self != Self::Single
    }

    /// The word of the command line and of JSON: both compound updates are "compound".
    pub fn word(self) -> &'static str {
        if self.is_compound() {
            "compound"
        } else {
            "single"
        }
    }
}

/// One question to the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scenario {
    /// The responder's platform.
    pub platform: Platform,
    /// The operation that carries the update.
    pub operation: Operation,
    /// The kind of update.
    pub update: Update,
}

/// The selectors of the taxonomy: `persistence, ddio, receive_buffers, operation, update`.
impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Scenario", 5)?;
        object.serialize_field("persistence", &self.platform.persistence.to_string())?;
        object.serialize_field("ddio", &(self.platform.ddio == Ddio::On))?;
        object.serialize_field(
            "receive_buffers",
            &self.platform.receive_buffers.to_string(),
        )?;
        object.serialize_field("operation", &self.operation)?;
        object.serialize_field("update", self.update.word())?;
        object.end()
    }
}

/// The 72 scenarios of the taxonomy in the order of its tables: single before compound, by row (DDIO, receive buffers),
/// then by column (persistence domain, operation). `b` is at most 8 bytes.
pub fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::with_capacity(72);
    for update in [Update::Single, Update::Compound { large: false }] {
        for platform in published_platforms() {
            for operation in Operation::PUBLISHED {
                scenarios.push(Scenario {
                    platform,
                    operation: *operation,
                    update,
                });
            }
        }
    }
    scenarios
}

/// The twelve server configurations of the taxonomy (its table 1), by row, then by persistence domain.
pub fn published_platforms() -> Vec<Platform> {
    let mut platforms = Vec::with_capacity(12);
    for ddio in [Ddio::On, Ddio::Off] {
        for receive_buffers in [ReceiveBuffers::Dram, ReceiveBuffers::Pm] {
            for persistence_domain in [
                PersistenceDomain::Dmp,
                PersistenceDomain::Mhp,
                PersistenceDomain::Wsp,
            ] {
                platforms.push(Platform::of(DeclaredPlatform {
                    persistence_domain,
                    ddio,
                    receive_buffers,
                }));
            }
        }
    }
    platforms
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_taxonomy_has_seventy_two_different_scenarios() {
        let all = scenarios();
        assert_eq!(
            (all.len(), all.iter().collect::<HashSet<_>>().len()),
            (72, 72)
        );
        assert!(all.iter().all(|scenario| scenario.platform.check().is_ok()));
    }

    #[test]
    fn a_scenario_shows_its_selectors() {
        assert_eq!(
            serde_json::to_string(&scenarios()[0]).unwrap(),
            r#"{"persistence":"dmp","ddio":true,"receive_buffers":"dram","operation":"write","update":"single"}"#
        );
    }
}
