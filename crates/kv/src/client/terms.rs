//! The terms in which this client treats the server as the primary of its shards.
//!
//! A client of a server without a cluster is in term 0 of every shard, and never looks here to read or to write. A
//! client of a cluster enters the term of a shard with one request before the first of its requests for that shard.

use std::cell::Cell;

use stonecast_lineage::Term;

pub(super) struct EnteredTerms {
    of_shards: Box<[Cell<Option<Entered>>]>,
}

/// A term that the server has confirmed.
#[derive(Clone, Copy)]
struct Entered {
    term: Term,
    /// The latest version of the node's writes that this client knew in this term.
    latest: u64,
}

impl EnteredTerms {
    /// The terms of this many shards, none entered.
    pub fn new(shards: u32) -> Self {
        let of_shards = (0..shards).map(|_| Cell::new(None)).collect();
        Self { of_shards }
    }

    /// The term of `shard` that this client is in.
    #[inline]
    pub fn of(&self, shard: u32) -> Option<Term> {
        self.of_shards[shard as usize]
            .get()
            .map(|entered| entered.term)
    }

    /// The latest version that this client knew of the writes to `shard`, in its present term.
    pub fn latest(&self, shard: u32) -> Option<u64> {
        self.of_shards[shard as usize]
            .get()
            .map(|entered| entered.latest)
    }

    /// Enters `term` of `shard`, in which the server has given versions up to `latest`.
    pub fn enter(&self, shard: u32, term: Term, latest: u64) {
        self.of_shards[shard as usize].set(Some(Entered { term, latest }));
    }

    /// Leaves `shard`, whose term is over at the server.
    pub fn leave(&self, shard: u32) {
        if let Some(place) = self.of_shards.get(shard as usize) {
            place.set(None);
        }
    }

    /// Notes that a write to `shard` was given `version`.
    pub fn note(&self, shard: u32, version: u64) {
        let place = &self.of_shards[shard as usize];
        if let Some(entered) = place.get() {
            let latest = entered.latest.max(version);
            place.set(Some(Entered { latest, ..entered }));
        }
    }
}
