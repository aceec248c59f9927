//! The properties that decide how a remote write becomes durable, as axes with a few choices each.
//!
//! The first three axes are those of [`DeclaredPlatform`], which a pool keeps in its header. The others concern the
//! network and the NIC, and differ between the ports of one machine. Sources: remote persistence taxonomy, section 3.1;
//! for FLUSH and ATOMIC_WRITE, InfiniBand specification volume 1, release 1.6, annex A19.

use serde::{Serialize, Serializer};
use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};

use crate::words::{as_word, words};

/// The moment at which a requester's NIC completes a posted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// InfiniBand and RoCE: when the responder's NIC has it.
    InfiniBand,
    /// iWARP: when the reliable transport of the requester's own machine has it, perhaps before any byte was sent.
    Iwarp,
}

words! { Transport, "transport", "infiniband (also for RoCE) or iwarp",
    InfiniBand = "infiniband";
    Iwarp = "iwarp";
}

/// The operation that stands for `rq.flush`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushKind {
    /// An RDMA READ: its answer pushes earlier writes out of the NIC and the I/O controller, unless PCIe may reorder
    /// them.
    Read,
    /// FLUSH with global visibility. Covers WRITE, WRITE_WITH_IMM and ATOMIC_WRITE; the standard does not name SEND.
    NativeGlobal,
    /// FLUSH with persistence: the responder has placed the covered data in the persistence domain. Does not cover SEND
    /// either.
    NativePersistent,
}

words! { FlushKind, "flush kind", "read, native-global or native-persistent",
    Read = "read";
    NativeGlobal = "native-global";
    NativePersistent = "native-persistent";
}

/// The platform of a responder, as one of its ports sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Platform {
    /// The part of the machine in which stored bytes survive a power cut.
    #[serde(serialize_with = "as_word")]
    pub persistence: PersistenceDomain,
    /// The place where inbound writes of this port land first. JSON shows `true` for on.
    #[serde(serialize_with = "as_switch")]
    pub ddio: Ddio,
    /// The memory that holds receive buffers.
    #[serde(serialize_with = "as_word")]
    pub receive_buffers: ReceiveBuffers,
    /// The transport, which decides when posted operations complete.
    pub transport: Transport,
    /// The kind of flush.
    pub flush: FlushKind,
    /// Whether ATOMIC_WRITE exists.
    pub atomic_write: bool,
    /// Whether PCIe may reorder inbound writes (`IBV_ACCESS_RELAXED_ORDERING`).
    pub relaxed_ordering: bool,
    /// Whether the NIC delivers everything that it has accepted, even across its own reset. Whole-system persistence
    /// covers power cuts and no resets, and a plan may rely on NIC buffers only if neither does harm.
    pub trusted_nic_buffers: bool,
}

/// Two answers that cannot both be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{axis} = {value} contradicts {other_axis} = {other_value}: {reason}; use {allowed}")]
pub struct Contradiction {
    /// The axis to change.
    pub axis: Axis,
    /// The value.
    pub value: String,
    /// The axis that it contradicts.
    pub other_axis: Axis,
    /// The value of the other axis.
    pub other_value: String,
    /// The reason, as a sentence.
    pub reason: &'static str,
    /// The values that `axis` may have instead.
    pub allowed: &'static str,
}

/// The axes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// [`Platform::persistence`].
    Persistence,
    /// [`Platform::ddio`].
    Ddio,
    /// [`Platform::receive_buffers`].
    ReceiveBuffers,
    /// [`Platform::transport`].
    Transport,
    /// [`Platform::flush`].
    Flush,
    /// [`Platform::atomic_write`].
    AtomicWrite,
    /// [`Platform::relaxed_ordering`].
    RelaxedOrdering,
    /// [`Platform::trusted_nic_buffers`].
    TrustedNicBuffers,
}

words! { Axis, "axis",
    "persistence, ddio, receive_buffers, transport, flush, atomic_write, relaxed_ordering or trusted_nic_buffers",
    Persistence = "persistence";
    Ddio = "ddio";
    ReceiveBuffers = "receive_buffers";
    Transport = "transport";
    Flush = "flush";
    AtomicWrite = "atomic_write";
    RelaxedOrdering = "relaxed_ordering";
    TrustedNicBuffers = "trusted_nic_buffers";
}

impl Platform {
    /// A platform of the taxonomy: InfiniBand, a READ as flush, ATOMIC_WRITE, no relaxed ordering, and NIC buffers that
    /// survive if the whole system does.
    pub fn of(declared: DeclaredPlatform) -> Self {
        Self {
            persistence: declared.persistence_domain,
            ddio: declared.ddio,
            receive_buffers: declared.receive_buffers,
            transport: Transport::InfiniBand,
            flush: FlushKind::Read,
            atomic_write: true,
            relaxed_ordering: false,
            trusted_nic_buffers: declared.persistence_domain == PersistenceDomain::Wsp,
        }
    }

    /// The axes that a pool keeps in its header.
    pub fn declared(&self) -> DeclaredPlatform {
        DeclaredPlatform {
            persistence_domain: self.persistence,
            ddio: self.ddio,
            receive_buffers: self.receive_buffers,
        }
    }

    /// The platform that a plan for `durability` relies on. With [`Durability::Process`] the crash is the death of
    /// processes, which takes no visible store: as if caches survived, whatever the memory.
    pub(crate) fn under(self, durability: Durability) -> Self {
        match durability {
            Durability::Power => self,
            Durability::Process => Self {
                persistence: PersistenceDomain::Mhp,
                trusted_nic_buffers: false,
                ..self
            },
        }
    }

    /// Refuses answers that cannot both be true.
    pub fn check(&self) -> Result<(), Contradiction> {
        use PersistenceDomain::{PageFile, Volatile, Wsp};
        let contradiction = |axis, other_axis, reason, allowed| {
            let (value, other_value) = (self.word(axis), self.word(other_axis));
            Err(Contradiction {
                axis,
                value,
                other_axis,
                other_value,
                reason,
                allowed,
            })
        };
        if self.trusted_nic_buffers && self.persistence != Wsp {
            let reason = "NIC buffers survive only where the whole system does";
            return contradiction(
                Axis::TrustedNicBuffers,
                Axis::Persistence,
                reason,
                "trusted_nic_buffers = false",
            );
        }
        if self.receive_buffers == ReceiveBuffers::Pm
            && matches!(self.persistence, Volatile | PageFile)
        {
            let reason = "there is no persistent memory that could hold them";
            return contradiction(
                Axis::ReceiveBuffers,
                Axis::Persistence,
                reason,
                "receive_buffers = dram",
            );
        }
        if self.flush == FlushKind::NativePersistent
            && matches!(self.persistence, Volatile | PageFile)
        {
            let reason = "FLUSH with persistence is registered only for persistent memory";
            return contradiction(
                Axis::Flush,
                Axis::Persistence,
                reason,
                "flush = read or native-global",
            );
        }
        if self.flush != FlushKind::Read && self.transport == Transport::Iwarp {
            return contradiction(
                Axis::Flush,
                Axis::Transport,
                "iWARP has no FLUSH",
                "flush = read",
            );
        }
        if self.atomic_write && self.transport == Transport::Iwarp {
            return contradiction(
                Axis::AtomicWrite,
                Axis::Transport,
                "iWARP has no ATOMIC_WRITE",
                "atomic_write = false",
            );
        }
        Ok(())
    }

    /// The value of an axis, as a word.
    pub fn word(&self, axis: Axis) -> String {
        match axis {
            Axis::Persistence => self.persistence.to_string(),
            Axis::Ddio => self.ddio.to_string(),
            Axis::ReceiveBuffers => self.receive_buffers.to_string(),
            Axis::Transport => self.transport.to_string(),
            Axis::Flush => self.flush.to_string(),
            Axis::AtomicWrite => self.atomic_write.to_string(),
            Axis::RelaxedOrdering => self.relaxed_ordering.to_string(),
            Axis::TrustedNicBuffers => self.trusted_nic_buffers.to_string(),
        }
    }
}

fn as_switch<S: Serializer>(ddio: &Ddio, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*ddio == Ddio::On)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(persistence_domain: PersistenceDomain) -> Platform {
        Platform::of(DeclaredPlatform {
            persistence_domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        })
    }

    #[test]
    fn the_platforms_of_the_taxonomy_contradict_nothing() {
        for domain in PersistenceDomain::ALL {
            assert_eq!(of(*domain).check(), Ok(()));
            assert_eq!(of(*domain).declared().persistence_domain, *domain);
        }
    }

    #[test]
    fn each_contradiction_names_both_axes_and_the_allowed_values() {
        use PersistenceDomain::{Dmp, PageFile, Volatile, Wsp};
        let iwarp = Platform {
            transport: Transport::Iwarp,
            atomic_write: false,
            ..of(Dmp)
        };
        for (platform, expected) in [
            (
                Platform {
                    trusted_nic_buffers: true,
                    ..of(Dmp)
                },
                "trusted_nic_buffers = true contradicts persistence = dmp",
            ),
            (
                Platform {
                    receive_buffers: ReceiveBuffers::Pm,
                    ..of(PageFile)
                },
                "receive_buffers = pm contradicts persistence = page-file",
            ),
            (
                Platform {
                    receive_buffers: ReceiveBuffers::Pm,
                    ..of(Volatile)
                },
                "receive_buffers = pm contradicts persistence = volatile",
            ),
            (
                Platform {
                    flush: FlushKind::NativePersistent,
                    ..of(PageFile)
                },
                "flush = native-persistent contradicts persistence = page-file",
            ),
            (
                Platform {
                    flush: FlushKind::NativeGlobal,
                    ..iwarp
                },
                "flush = native-global contradicts transport = iwarp",
            ),
            (
                Platform {
                    atomic_write: true,
                    ..iwarp
                },
                "atomic_write = true contradicts transport = iwarp",
            ),
        ] {
            let said = platform.check().unwrap_err().to_string();
            assert!(
                said.starts_with(expected) && said.contains("; use "),
                "{said}"
            );
        }
        assert_eq!(iwarp.check(), Ok(()));
        assert_eq!(
            Platform {
                trusted_nic_buffers: false,
                ..of(Wsp)
            }
            .check(),
            Ok(())
        );
    }

    #[test]
    fn every_choice_has_a_word_that_is_read_back() {
        assert!(
            Transport::ALL
                .iter()
                .all(|choice| choice.to_string().parse() == Ok(*choice))
        );
        assert!(
            FlushKind::ALL
                .iter()
                .all(|choice| choice.to_string().parse() == Ok(*choice))
        );
        assert!(
            Axis::ALL
                .iter()
                .all(|choice| choice.to_string().parse() == Ok(*choice))
        );
        let refused = "roce".parse::<Transport>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "unknown transport \"roce\"; use infiniband (also for RoCE) or iwarp"
        );
    }
}
