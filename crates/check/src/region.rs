//! The memory of a node that has only a region of bytes and the means of its platform to persist them.

use std::rc::Rc;

use stonecast_fabric_sim::SimBacking;
use stonecast_media::{
    Backing as _, DeclaredPlatform, Durability, LogOptions, MediaError, PersistentRegion,
};
use stonecast_persist::execute::Commit;

/// Opens `capacity` bytes of the module behind `backing`.
pub(crate) fn open(
    backing: &SimBacking,
    platform: DeclaredPlatform,
    capacity: u64,
) -> Result<(Rc<dyn PersistentRegion>, Commit), MediaError> {
    let region = backing.open_log(LogOptions {
        capacity,
        platform,
        durability: Durability::Power,
    })?;
    let commit = Commit::choose(platform, Durability::Power, region.means());
    let commit = commit.expect("a platform of a setup has a plan, and its memory the means");
    Ok((region, commit))
}
