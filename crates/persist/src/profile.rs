//! A platform with a name, and who says so.

use crate::platform::Platform;

/// A named platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: String,
    platform: Platform,
}

impl Profile {
    /// A platform that somebody describes on the spot.
    pub fn of_platform(name: &str, platform: Platform) -> Self {
        Self { name: name.to_owned(), platform }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The platform, where ports are not told apart.
    pub fn platform(&self) -> Platform {
        self.platform
    }
}
