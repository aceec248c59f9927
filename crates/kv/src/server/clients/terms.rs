//! The terms in which a client treats this node as the primary of its shards.
//!
//! ```text
//!   access, term 3        put    put            access, term 5        put
//!   ----------------------|------|--------------|---------------------|-----> the order of arrival
//!                         of term 3                                   of term 5
//! ```
//!
//! The requests of a connection arrive in order, so a request is of the term that the client named last before it. No
//! request has to name its term in its own bytes, and a request that was sent in an earlier term cannot pass for a
//! later one.

use std::collections::BTreeMap;

use stonecast_lineage::Term;

/// A client that has named no term for a shard is in term 0, in which a server without a cluster
/// serves all of its shards.
#[derive(Default)]
pub(in crate::server) struct Terms {
    of_shards: BTreeMap<u32, Term>,
}

impl Terms {
    /// The term that the client named last for `shard`.
    #[inline]
    pub fn of(&self, shard: u32) -> Term {
        self.of_shards.get(&shard).copied().unwrap_or_default()
    }

    /// The shards that the client has entered, with their terms.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Term)> {
        self.of_shards.iter().map(|(&shard, &term)| (shard, term))
    }

    /// Notes that the client has left `shard`.
    pub fn leave(&mut self, shard: u32) {
        self.of_shards.remove(&shard);
    }

    /// Notes that the client names `term` for `shard`, a shard that the node leads.
    pub fn name(&mut self, shard: u32, term: Term) {
        if term != self.of(shard) {
            self.of_shards.insert(shard, term);
        }
    }
}
