//! Streams of entries, and which of them are known without a gap.
//!
//! ```text
//!   reached 7      8 follows 7     9 follows 8    found: handed on in this order
//!                                 12 follows 11   found: waits for 10 and 11
//!   durable 5      answers say this
//! ```
//!
//! Entries are found in any order. They are handed on in the order of their chain, each once: an entry that was sent again after a
//! reconnect is found twice. An answer speaks for all entries of a stream up to a version, so only the chain without a gap is answered
//! for.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::{Span, mutant};
use stonecast_cluster::{NodeName, Term};
use stonecast_replication::{Entry, Kind};

use crate::notice::ROWS_MAX;
use crate::stream::{Reached, StreamName};

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The facts in its header.
    pub entry: Entry,
    /// Its place in the log, header and body.
    pub place: Span,
    /// The peer whose stream it belongs to, and its connection at the time. `None`: no stream of its shard and term is open, or
    /// an earlier run left the entry.
    pub sender: Option<(NodeName, u64)>,
}

/// The fate of an entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// It is of no stream here.
    Stray,
    /// It was known.
    Again,
    /// It is handed on, or waits for those before it.
    New,
}

struct Stream {
    peer: NodeName,
    join: u64,
    /// Everything up to here was found without a gap.
    reached: u64,
    /// Everything up to here is durable.
    durable: u64,
    /// Entries behind a gap, by the version that each follows.
    waiting: BTreeMap<u64, Found>,
}

/// See the module documentation.
#[derive(Default)]
pub(super) struct Streams {
    open: BTreeMap<(u32, Term), Stream>,
    /// Streams of which there is something to tell.
    news: BTreeSet<(u32, Term)>,
}

impl Streams {
    pub fn open(&mut self, stream: StreamName, peer: NodeName, after: u64) {
        let StreamName { shard, term, join } = stream;
        let begun = Stream {
            peer,
            join,
            reached: after,
            durable: after,
            waiting: BTreeMap::new(),
        };
        self.open.insert((shard, term), begun);
        // Entries that came before were strays, of which nobody was told.
        self.news.insert((shard, term));
    }

    pub fn close(&mut self, shard: u32, term: Term) {
        self.open.remove(&(shard, term));
        self.news.remove(&(shard, term));
    }

    /// The peer whose stream an entry belongs to.
    pub fn peer_of(&self, entry: &Entry) -> Option<&NodeName> {
        let stream = self.open.get(&(entry.shard, entry.term));
        stream.map(|stream| &stream.peer)
    }

    /// Takes an entry that was found, and adds what may be handed on to `next`, in order.
    pub fn note(&mut self, found: Found, next: &mut Vec<Found>) -> Noted {
        let name = (found.entry.shard, found.entry.term);
        let Some(stream) = self.open.get_mut(&name) else {
            next.push(found);
            return Noted::Stray;
        };
        if found.entry.kind == Kind::Horizon {
            // A horizon belongs to no chain: what it says is true whenever it is read.
            next.push(found);
            return Noted::New;
        }
        let is_known = found.entry.version <= stream.reached
            || stream.waiting.contains_key(&found.entry.previous);
        if is_known {
            // Its sender does not know what is durable here.
            self.news.insert(name);
            return Noted::Again;
        }
        stream.waiting.insert(found.entry.previous, found);
        while let Some(following) = stream.next() {
            stream.reached = following.entry.version;
            next.push(following);
        }
        Noted::New
    }

    /// All that was handed on is durable.
    pub fn note_durable(&mut self) {
        for (&name, stream) in &mut self.open {
            if stream.durable < stream.reached {
                stream.durable = stream.reached;
                self.news.insert(name);
            }
        }
    }

    /// Rows that `peer` was not told, up to a notice of them.
    pub fn take_news(&mut self, peer: &NodeName) -> Vec<Reached> {
        let told = self
            .news
            .iter()
            .filter(|&name| self.open[name].peer == *peer);
        let told: Vec<_> = told.take(ROWS_MAX).copied().collect();
        let row = |name: (u32, Term)| {
            self.news.remove(&name);
            let (shard, term) = name;
            let Stream { join, durable, .. } = self.open[&name];
            Reached {
                stream: StreamName { shard, term, join },
                version: durable,
            }
        };
        told.into_iter().map(row).collect()
    }

    /// A new session of `peer`: it does not know what is durable here.
    pub fn tell_again(&mut self, peer: &NodeName) {
        let streams = self.open.iter().filter(|(_, stream)| stream.peer == *peer);
        self.news.extend(streams.map(|(&name, _)| name));
    }

    /// Bytes of each entry that `connection` brought and that waits behind a gap.
    pub fn waiting(&self, connection: u64) -> impl Iterator<Item = u64> {
        let all = self
            .open
            .values()
            .flat_map(|stream| stream.waiting.values());
        let brought = move |found: &&Found| {
            let sender = found.sender.as_ref();
            sender.is_some_and(|&(_, by)| by == connection)
        };
        all.filter(brought).map(|found| found.place.size)
    }
}

impl Stream {
    /// The entry that follows the chain, if it was found.
    fn next(&mut self) -> Option<Found> {
        if mutant!(GapAnswered) {
            return self.waiting.pop_first().map(|(_, found)| found);
        }
        self.waiting.remove(&self.reached)
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::Epoch;

    use super::*;

    const TERM: Term = Epoch(3);

    fn found(version: u64, previous: u64) -> Found {
        Found {
            entry: Entry {
                shard: 1,
                term: TERM,
                version,
                previous,
                horizon: 0,
                kind: Kind::Record,
            },
            place: Span::new(version * 64, 64),
            sender: None,
        }
    }

    fn peer() -> NodeName {
        "a".parse().unwrap()
    }

    fn streams() -> Streams {
        let mut streams = Streams::default();
        let stream = StreamName {
            shard: 1,
            term: TERM,
            join: 0,
        };
        streams.open(stream, peer(), 5);
        streams
    }

    fn versions(found: &[Found]) -> Vec<u64> {
        found.iter().map(|found| found.entry.version).collect()
    }

    /// Needs the chain: an answer for 9 would speak for 8, which never came.
    #[test]
    fn entries_are_handed_on_in_their_order_each_once_and_nothing_behind_a_gap() {
        let (mut streams, mut next) = (streams(), Vec::new());
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::New);
        assert_eq!(streams.note(found(7, 5), &mut next), Noted::New);
        assert_eq!(versions(&next), [7]);
        streams.note_durable();
        assert_eq!(streams.take_news(&peer())[0].version, 7);
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::Again);
        assert_eq!(streams.note(found(7, 5), &mut next), Noted::Again);
        assert_eq!(streams.note(found(8, 7), &mut next), Noted::New);
        assert_eq!(versions(&next), [7, 8, 9]);
    }

    #[test]
    fn an_entry_of_a_shard_or_term_that_nobody_opened_is_a_stray() {
        let (mut streams, mut next) = (streams(), Vec::new());
        let mut other = found(6, 5);
        other.entry.term = Epoch(4);
        assert_eq!(streams.note(other, &mut next), Noted::Stray);
        let told = streams.take_news(&peer());
        assert_eq!((told.len(), told[0].version), (1, 5), "nobody is answered");
        streams.close(1, TERM);
        assert_eq!(streams.note(found(6, 5), &mut next), Noted::Stray);
        assert_eq!(versions(&next), [6, 6], "the store judges strays");
    }
}
