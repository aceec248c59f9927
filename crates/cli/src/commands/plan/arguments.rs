//! The selectors of `plan` and `litmus`: platforms, operations and updates.
//!
//! ```text
//!   nothing               the 72 published scenarios
//!   some axes             those of the 72 that agree; one that none of them has widens the choice to the extended axis
//!   --profile             the platform of the profile, with axes on top; operations and updates as selected
//! ```

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::{
    FlushKind, Operation, Platform, PlatformProfile, Scenario, Transport, Update,
    published_platforms,
};

use crate::failure::Failure;

/// The selectors.
#[derive(Debug, Default, PartialEq, Args)]
pub struct Selectors {
    /// Platform profile: the name of a shipped one, or a file (TOML). Other axis flags override the profile.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// With --profile: the port whose DDIO counts, if the profile distinguishes ports.
    #[arg(long, value_name = "NAME", requires = "profile")]
    pub port: Option<String>,
    /// Part of the machine in which bytes survive a power cut: page-file, dmp, mhp, wsp or volatile.
    #[arg(long, value_name = "DOMAIN", value_parser = word::<PersistenceDomain>)]
    pub persistence: Option<PersistenceDomain>,
    /// Target of inbound writes: on (the last-level cache) or off (memory).
    #[arg(long, value_name = "on|off", value_parser = word::<Ddio>)]
    pub ddio: Option<Ddio>,
    /// Memory of receive buffers: dram or pm.
    #[arg(long, value_name = "dram|pm", value_parser = word::<ReceiveBuffers>)]
    pub receive_buffers: Option<ReceiveBuffers>,
    /// Transport, which decides when posted operations complete: infiniband (also for RoCE) or iwarp.
    #[arg(long, value_name = "infiniband|iwarp", value_parser = word::<Transport>)]
    pub transport: Option<Transport>,
    /// Kind of flush: read, native-global or native-persistent.
    #[arg(long, value_name = "KIND", value_parser = word::<FlushKind>)]
    pub flush: Option<FlushKind>,
    /// Whether the NIC has ATOMIC_WRITE.
    #[arg(long, value_name = "true|false")]
    pub atomic_write: Option<bool>,
    /// Whether PCIe may reorder inbound writes.
    #[arg(long, value_name = "true|false")]
    pub relaxed_ordering: Option<bool>,
    /// Whether bytes that a NIC has accepted survive a power cut.
    #[arg(long, value_name = "true|false")]
    pub trusted_nic_buffers: Option<bool>,
    /// Operation that carries the update: write, write-imm, send or append.
    #[arg(long, value_name = "OPERATION", value_parser = word::<Operation>)]
    pub operation: Option<Operation>,
    /// Kind of update: single, or compound (b never survives without a).
    #[arg(long, value_name = "single|compound", value_parser = update)]
    pub update: Option<Update>,
    /// With a compound update: b is longer than 8 bytes, too long for ATOMIC_WRITE.
    #[arg(long)]
    pub large: bool,
}

fn word<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn update(text: &str) -> Result<Update, String> {
    match text {
        "single" => Ok(Update::Single),
        "compound" => Ok(Update::Compound { large: false }),
        _ => Err(format!("unknown update {text:?}; use single or compound")),
    }
}

/// The selection that the selectors make.
pub struct Selection {
    /// The selected scenarios; never empty.
    pub scenarios: Vec<Scenario>,
    /// The profile from which the platform comes, if there is one.
    pub profile: Option<PlatformProfile>,
}

impl Selectors {
    /// Returns whether nothing was selected, which stands for everything that was published.
    pub fn are_absent(&self) -> bool {
        *self == Self::default()
    }

    /// The selected scenarios.
    pub fn select(&self) -> Result<Selection, Failure> {
        if self.large && self.update == Some(Update::Single) {
            return Err(Failure::usage(
                "--large is about b of a compound update; --update single has none",
            ));
        }
        let profile = match &self.profile {
            Some(name) => Some(
                PlatformProfile::named_or_at(name)
                    .map_err(|error| Failure::usage(error.to_string()))?,
            ),
            None => None,
        };
        let platforms = match &profile {
            Some(profile) => vec![self.on_top_of(self.platform_of(profile)?)],
            None => self.of_the_published(),
        };
        if let Some(contradiction) = platforms.iter().find_map(|platform| platform.check().err()) {
            return Err(Failure::usage(contradiction.to_string()));
        }
        let mut scenarios = Vec::new();
        for update in self.updates() {
            for &platform in &platforms {
                // The taxonomy has no appends.
                let asked = match (&profile, self.operation) {
                    (None, None) => Operation::PUBLISHED,
                    _ => Operation::ALL,
                };
                let operations = asked
                    .iter()
                    .filter(|operation| self.operation.is_none_or(|only| only == **operation));
                scenarios.extend(operations.map(|&operation| Scenario {
                    platform,
                    operation,
                    update,
                }));
            }
        }
        Ok(Selection { scenarios, profile })
    }

    fn platform_of(&self, profile: &PlatformProfile) -> Result<Platform, Failure> {
        let Some(port) = &self.port else {
            return Ok(profile.platform());
        };
        let known: Vec<&str> = profile
            .declarations()
            .iter()
            .filter_map(|declaration| declaration.port.as_deref())
            .collect();
        if known.contains(&&**port) {
            return Ok(profile.platform_at(port));
        }
        let which = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Err(Failure::usage(format!(
            "profile {} declares no port {port:?}; it declares {which}",
            profile.name()
        )))
    }

    fn updates(&self) -> Vec<Update> {
        let all = [Update::Single, Update::Compound { large: self.large }];
        all.into_iter()
            .filter(|update| {
                self.update
                    .is_none_or(|only| only.is_compound() == update.is_compound())
            })
            .collect()
    }

    /// The published platforms that agree with the selectors on every axis on which published platforms differ, with
    /// the other selected axes changed.
    fn of_the_published(&self) -> Vec<Platform> {
        let agrees = |platform: &Platform| {
            self.persistence
                .is_none_or(|domain| domain == platform.persistence || !is_published(domain))
                && self.ddio.is_none_or(|ddio| ddio == platform.ddio)
                && self
                    .receive_buffers
                    .is_none_or(|buffers| buffers == platform.receive_buffers)
        };
        let mut platforms = Vec::new();
        for platform in published_platforms().into_iter().filter(agrees) {
            let mut platform = self.on_top_of(platform);
            if self.persistence.is_some_and(|domain| !is_published(domain))
                && self.receive_buffers.is_none()
            {
                // No persistent memory could hold the receive buffers.
                platform.receive_buffers = ReceiveBuffers::Dram;
            }
            if platform.transport == Transport::Iwarp && self.atomic_write.is_none() {
                platform.atomic_write = false;
            }
            if !platforms.contains(&platform) {
                platforms.push(platform);
            }
        }
        platforms
    }

    fn on_top_of(&self, base: Platform) -> Platform {
        let persistence = self.persistence.unwrap_or(base.persistence);
        let wsp = persistence == PersistenceDomain::Wsp;
        let trusted = if self.persistence.is_some() {
            wsp
        } else {
            base.trusted_nic_buffers
        };
        Platform {
            persistence,
            ddio: self.ddio.unwrap_or(base.ddio),
            receive_buffers: self.receive_buffers.unwrap_or(base.receive_buffers),
            transport: self.transport.unwrap_or(base.transport),
            flush: self.flush.unwrap_or(base.flush),
            atomic_write: self.atomic_write.unwrap_or(base.atomic_write),
            relaxed_ordering: self.relaxed_ordering.unwrap_or(base.relaxed_ordering),
            trusted_nic_buffers: self.trusted_nic_buffers.unwrap_or(trusted),
        }
    }
}

fn is_published(domain: PersistenceDomain) -> bool {
    matches!(
        domain,
        PersistenceDomain::Dmp | PersistenceDomain::Mhp | PersistenceDomain::Wsp
    )
}

/// Shows which steps make a remote write durable on a platform, the reason for each step, and the loss without the
/// step.
///
/// Without selectors, shows the 72 scenarios of the published taxonomy. Each plan is proved when it is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a platform by name, one scenario with a page to look at, all published plans for a program
  stonecast plan --profile modern --operation write --update single
  stonecast plan --persistence dmp --ddio off --receive-buffers dram --operation write --update compound --html plan.html
  stonecast plan --json")]
pub struct Plan {
    #[command(flatten)]
    pub selectors: Selectors,
    /// Prints one JSON object for each scenario.
    #[arg(long)]
    pub json: bool,
    /// Also writes an HTML page that shows the place of every byte at each step, and the bytes that a crash at that
    /// moment leaves.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use stonecast_persist::scenarios;

    use super::*;

    fn select(selectors: &Selectors) -> Vec<Scenario> {
        selectors
            .select()
            .unwrap_or_else(|failure| panic!("{failure}"))
            .scenarios
    }

    #[test]
    fn nothing_selects_the_published_scenarios_in_their_order() {
        assert_eq!(select(&Selectors::default()), scenarios());
    }

    #[test]
    fn axes_of_the_taxonomy_select_among_the_published_scenarios() {
        let dmp = Selectors {
            persistence: Some(PersistenceDomain::Dmp),
            ddio: Some(Ddio::Off),
            ..Selectors::default()
        };
        let expected: Vec<Scenario> = scenarios()
            .into_iter()
            .filter(|scenario| {
                scenario.platform.persistence == PersistenceDomain::Dmp
                    && scenario.platform.ddio == Ddio::Off
            })
            .collect();
        assert_eq!((select(&dmp), expected.len()), (expected, 12));
        let one = Selectors {
            receive_buffers: Some(ReceiveBuffers::Pm),
            operation: Some(Operation::Send),
            update: Some(Update::Single),
            ..dmp
        };
        assert_eq!(select(&one).len(), 1);
    }

    #[test]
    fn other_axes_change_the_platforms_and_double_none_of_them() {
        let iwarp = Selectors {
            transport: Some(Transport::Iwarp),
            ..Selectors::default()
        };
        assert_eq!(select(&iwarp).len(), 72);
        assert!(
            select(&iwarp)
                .iter()
                .all(|scenario| !scenario.platform.atomic_write)
        );
        let file = Selectors {
            persistence: Some(PersistenceDomain::PageFile),
            ..Selectors::default()
        };
        assert_eq!(
            select(&file).len(),
            12,
            "DDIO on and off, two updates, three operations"
        );
        let large = Selectors {
            large: true,
            update: Some(Update::Compound { large: false }),
            ..Selectors::default()
        };
        assert!(
            select(&large)
                .iter()
                .all(|scenario| scenario.update == Update::Compound { large: true })
        );
    }

    #[test]
    fn a_profile_is_one_platform_and_axes_lie_on_top_of_it() {
        for shipped in PlatformProfile::shipped() {
            let named = Selectors {
                profile: Some(shipped.name().to_owned()),
                ..Selectors::default()
            };
            let selected = select(&named);
            assert_eq!(
                selected.len(),
                8,
                "{}: four operations, two updates",
                shipped.name()
            );
            assert!(
                selected
                    .iter()
                    .all(|scenario| scenario.platform == shipped.platform())
            );
        }
        let changed = Selectors {
            profile: Some("eadr".to_owned()),
            persistence: Some(PersistenceDomain::Dmp),
            ..Selectors::default()
        };
        assert!(
            select(&changed)
                .iter()
                .all(|scenario| scenario.platform.persistence == PersistenceDomain::Dmp)
        );
    }

    #[test]
    fn contradictions_are_refused_with_what_is_allowed() {
        let refused = Selectors {
            trusted_nic_buffers: Some(true),
            persistence: Some(PersistenceDomain::Dmp),
            ..Selectors::default()
        };
        let said = refused.select().err().unwrap().to_string();
        assert!(
            said.contains("trusted_nic_buffers = true contradicts persistence = dmp"),
            "{said}"
        );
        let refused = Selectors {
            large: true,
            update: Some(Update::Single),
            ..Selectors::default()
        };
        assert!(
            refused
                .select()
                .err()
                .unwrap()
                .to_string()
                .contains("--large")
        );
        let refused = Selectors {
            profile: Some("eadr".to_owned()),
            port: Some("mlx5_9".to_owned()),
            ..Selectors::default()
        };
        assert!(
            refused
                .select()
                .err()
                .unwrap()
                .to_string()
                .contains("mlx5_9")
        );
    }
}
