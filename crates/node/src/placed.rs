//! The answers of a configuration for which every turn asks, found once.

use std::rc::Rc;

use stonecast_cluster::{Configuration, Group, NodeName};

use crate::state::number_of;

/// The places of the shards in one configuration, as one node sees them.
pub struct Placed {
    /// By number of the shard.
    shards: Vec<OfShard>,
    lacks_copy: bool,
}

#[derive(Clone)]
struct OfShard {
    /// The index of the group in the configuration.
    group: Option<usize>,
    /// The copies on other nodes.
    others: Rc<[NodeName]>,
}

impl Placed {
    /// The places in `configuration`, seen by `me`.
    pub fn new(configuration: &Configuration, me: &NodeName) -> Self {
        let nowhere = OfShard {
            group: None,
            others: Rc::default(),
        };
        let mut shards = vec![nowhere; configuration.policy.shards as usize];
        for (index, group) in configuration.groups.iter().enumerate() {
            let number = number_of(configuration, &group.subject);
            let shard = number.and_then(|number| shards.get_mut(number as usize));
            if let Some(shard) = shard {
                let others = group.copies().filter(|&name| name != me);
                *shard = OfShard {
                    group: Some(index),
                    others: others.cloned().collect(),
                };
            }
        }
        Self {
            shards,
            lacks_copy: configuration.lacks_copy_of(me),
        }
    }

    /// The group of shard `number` in `configuration`, which has to be the searched configuration.
    pub fn group<'a>(&self, configuration: &'a Configuration, number: u32) -> Option<&'a Group> {
        let index = self.shards.get(number as usize)?.group?;
        configuration.groups.get(index)
    }

    /// The nodes that have copies of shard `number`, without this one.
    pub fn others(&self, number: u32) -> Rc<[NodeName]> {
        let shard = self.shards.get(number as usize);
        shard.map_or_else(Rc::default, |shard| shard.others.clone())
    }

    /// Whether copies are missing that this node may take.
    pub fn lacks_copy(&self) -> bool {
        self.lacks_copy
    }
}
