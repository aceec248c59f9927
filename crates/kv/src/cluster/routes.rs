//! For each shard, the session that the last call for it went to: a call that needs no map finds its node with one
//! load.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_cluster::NodeName;

use super::nodes::Node;

/// The session of each shard, at most as old as the last call for the shard.
#[derive(Default)]
pub(super) struct Routes(RefCell<Vec<Option<Rc<Node>>>>);

impl Routes {
    /// Calls `call` with the session of `shard`, if there is one.
    #[inline(always)]
    pub fn with<T>(&self, shard: u32, call: impl FnOnce(&Node) -> Option<T>) -> Option<T> {
        let of_shards = self.0.borrow();
        call(of_shards.get(shard as usize)?.as_deref()?)
    }

    /// Notes that a call for `shard` goes to `node`.
    pub fn note(&self, shard: u32, node: &Rc<Node>) {
        let of_shards = &mut *self.0.borrow_mut();
        let shard = shard as usize;
        if of_shards.len() <= shard {
            of_shards.resize_with(shard + 1, || None);
        }
        let place = &mut of_shards[shard];
        if !place.as_ref().is_some_and(|known| Rc::ptr_eq(known, node)) {
            *place = Some(node.clone());
        }
    }

    /// Forgets the session with `node`, which ends with the last call that uses it.
    pub fn forget(&self, node: &NodeName) {
        let mut of_shards = self.0.borrow_mut();
        for place in of_shards.iter_mut() {
            place.take_if(|known| known.name == *node);
        }
    }

    /// Forgets all sessions.
    pub fn clear(&self) {
        self.0.take();
    }
}
