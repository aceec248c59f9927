//! Checks that a medium has the properties that a plan relies on.

use stonecast_media::{Means, PersistenceDomain};

use crate::execute::error::ExecuteError;
use crate::platform::Platform;

/// Refuses a medium that lacks the properties that the plan relies on.
pub(super) fn check_medium(platform: &Platform, means: Means) -> Result<(), ExecuteError> {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Volatile, Wsp};
    let right = match platform.persistence {
        Volatile => Means::Process,
        PageFile => Means::FileSync,
        Dmp => Means::WriteBack,
        Mhp | Wsp => Means::Fence,
    };
    if right == means {
        return Ok(());
    }
    let found = match means {
        Means::FileSync => "syncing a file",
        Means::WriteBack => "writing cache lines back",
        Means::Fence => "a fence, as its caches are saved",
        Means::Process => "nothing: it survives processes only",
    };
    let cure = "open the medium with the platform that the plan was made for";
    Err(ExecuteError::Medium {
        declared: platform.persistence,
        found,
        cure,
    })
}
