//! The opening of most stories: a backup, and a primary that is linked with it.

use std::rc::Rc;

use stonecast_backup::BackupLink;
use stonecast_fabric_sim::World;

use super::{Backup, Primary, Setup, Writer, open};

/// A backup, and the node `a`, which leads shard 1 and has a link.
pub struct Pair {
    pub world: Rc<World>,
    pub backup: Backup,
    pub primary: Primary,
    pub writer: Writer,
    pub link: BackupLink,
}

impl Pair {
    pub fn begin(seed: u64, setup: Setup) -> Self {
        let world = Rc::new(World::new(seed));
        let backup = Backup::start(&world, setup);
        let primary = Primary::start(&world, &setup, "a");
        let writer = Writer::of(1);
        open(&backup, &writer, "a");
        let link = primary.link();
        Self {
            world,
            backup,
            primary,
            writer,
            link,
        }
    }
}
