//! A platform with a name, and the source and evidence of each declaration about it.
//!
//! ```toml
//! name = "my-server"
//! summary = "One line for people."
//!
//! [persistence]                      # one table for each axis of Platform
//! value = "dmp"
//! by = "the kernel"                  # the source
//! evidence = "persistence_domain says memory_controller"
//!
//! [[port]]                           # optional: DDIO is a property of a port, not of a machine
//! name = "mlx5_0/1"
//! ddio = { value = "off", by = "the operator", evidence = "root port 3a, perfctrlsts" }
//! ```
//!
//! Nothing has a default: an axis that no one has examined is declared as such. `ddio = "unknown"` is a valid answer,
//! and means on. An error of a profile from a file names the line, the fault, and the allowed answers.

mod error;
mod file;

use std::fs;
use std::path::Path;

use serde::Serialize;
use stonecast_media::Ddio;

use crate::platform::{Axis, Platform};

pub use error::ProfileError;

/// A named platform. Serialised: everything, evidence included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlatformProfile {
    name: String,
    summary: String,
    platform: Platform,
    ports: Vec<PortDdio>,
    declarations: Vec<Declaration>,
}

/// The declaration of one axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Declaration {
    /// The axis.
    pub axis: Axis,
    /// The port, if the declaration concerns only one.
    pub port: Option<String>,
    /// The value, as declared: DDIO may be "unknown".
    pub value: String,
    /// The source.
    pub by: String,
    /// The evidence.
    pub evidence: String,
}

/// DDIO of one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct PortDdio {
    port: String,
    ddio: bool,
}

/// Name and text of the profiles that come with the program.
const SHIPPED: &[(&str, &str)] = &[
    (
        "connectx3-erda",
        include_str!("shipped/connectx3-erda.toml"),
    ),
    (
        "connectx3-asymnvm",
        include_str!("shipped/connectx3-asymnvm.toml"),
    ),
    (
        "connectx4-taxonomy",
        include_str!("shipped/connectx4-taxonomy.toml"),
    ),
    (
        "connectx5-rowan",
        include_str!("shipped/connectx5-rowan.toml"),
    ),
    ("modern", include_str!("shipped/modern.toml")),
    ("eadr", include_str!("shipped/eadr.toml")),
    (
        "battery-backed-dram",
        include_str!("shipped/battery-backed-dram.toml"),
    ),
    (
        "cxl-own-energy",
        include_str!("shipped/cxl-own-energy.toml"),
    ),
    ("nvme-file", include_str!("shipped/nvme-file.toml")),
    (
        "soft-roce-guest",
        include_str!("shipped/soft-roce-guest.toml"),
    ),
];

impl PlatformProfile {
    /// A platform that is described on the spot, without evidence.
    pub fn of_platform(name: &str, platform: Platform) -> Self {
        Self {
            name: name.to_owned(),
            summary: String::new(),
            platform,
            ports: Vec::new(),
            declarations: Vec::new(),
        }
    }

    /// The profiles that come with the program.
    pub fn shipped() -> Vec<Self> {
        let read = |(name, text): &(&str, &str)| {
            Self::parse(name, text).unwrap_or_else(|error| panic!("{error}"))
        };
        SHIPPED.iter().map(read).collect()
    }

    /// The shipped profile called `name`, or else the file at that path.
    ///
    /// # Errors
    /// [`ProfileError`] if there is neither, or the file is not a profile.
    pub fn named_or_at(name_or_path: &str) -> Result<Self, ProfileError> {
        match SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            Some((name, text)) => Self::parse(name, text),
            None => Self::read(Path::new(name_or_path)),
        }
    }

    /// The profile in a file.
    ///
    /// # Errors
    /// [`ProfileError`] if the file cannot be read or is not a profile.
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let text = fs::read_to_string(path).map_err(|source| ProfileError::Unreadable {
            path: path.to_owned(),
            shipped: Self::shipped_names(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The profile in a text. Errors call the text `origin`.
    ///
    /// # Errors
    /// [`ProfileError`] if it is not a profile.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ProfileError> {
        file::parse(origin, text)
    }

    /// The names of the shipped profiles, as a list for people.
    pub fn shipped_names() -> String {
        SHIPPED
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The meaning, for people. Empty if the profile was described on the spot.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The platform, as a port without a declaration of its own sees it.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// The platform, as `port` sees it.
    pub fn platform_at(&self, port: &str) -> Platform {
        let declared = self.ports.iter().find(|declared| declared.port == port);
        let ddio = declared.map_or(self.platform.ddio, |declared| {
            if declared.ddio { Ddio::On } else { Ddio::Off }
        });
        Platform {
            ddio,
            ..self.platform
        }
    }

    /// The declarations, axis by axis.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }
}
