//! Streams of entries, and the part of each that is known without a gap.
//!
//! ```text
//!   reached 7      8 follows 7     9 follows 8    found: handed on in this order
//!                                 12 follows 11   found: waits for 10 and 11
//!   durable 5      answers say this
//! ```
//!
//! A search finds entries in any order, and finds an entry twice that was sent again after a reconnect. The streams
//! hand entries on in the order of their chain, each once. An answer speaks for all entries of a stream up to a
//! version, so answers cover only the chain without a gap.
//!
//! The pieces of a long record are links of the chain, too. The chain has reached the record when it has passed the
//! last piece.
//!
//! A closed stream is remembered until another stream of its shard closes. Its primary may not know of the close and
//! may go on to append: the primary is told, and pays for the entries.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::{Span, mutant};
use stonecast_cluster::{NodeName, Term};
use stonecast_replication::{Entry, HEADER_SIZE, Kind, Piece};

use crate::notice::ROWS_MAX;
use crate::stream::{Standing, StreamName, Told};

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The facts in the header.
    pub entry: Entry,
    /// The part of the record that the entry carries.
    pub piece: Piece,
    /// The place of the entry in the log, header and body.
    pub place: Span,
    /// The peer whose stream the entry belongs to, and the peer's connection at that time. `None`: no stream of the
    /// shard and term is open, or an earlier run left the entry.
    pub sender: Option<(NodeName, u64)>,
}

/// The fate of an entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// The entry is of no stream here.
    Stray,
    /// The entry was known.
    Again,
    /// The entry is handed on, or waits for entries before it.
    New,
}

struct Stream {
    peer: NodeName,
    join: u64,
    /// The version up to which everything was found without a gap.
    reached: u64,
    /// The link behind which everything is missing or waits.
    end: Link,
    /// The version up to which everything is durable.
    durable: u64,
    /// The latest connection that brought an entry.
    brought_by: Option<u64>,
    /// Entries after a gap, by the link that each follows.
    waiting: BTreeMap<Link, Found>,
}

/// A place in the chain of a stream: after a whole record, or after these bytes of the next one, whose version is
/// named.
type Link = (u64, u32);

impl Found {
    /// The link that the entry follows.
    fn follows(&self) -> Link {
        match self.piece.offset {
            0 => (self.entry.previous, 0),
            offset => (self.entry.version, offset),
        }
    }

    /// The link that the entry makes.
    fn makes(&self) -> Link {
        let body_size = self.place.size - HEADER_SIZE as u64;
        match self.piece.is_last {
            true => (self.entry.version, 0),
            false => (self.entry.version, self.piece.offset + body_size as u32),
        }
    }
}

/// The entries that a stream does not hand on, although they were found.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub(super) struct GivenUp {
    /// Entries that waited for others of the stream.
    pub waiting: Vec<Found>,
    /// The connection whose next entries follow entries that were given up.
    pub interrupted: Option<u64>,
}

/// A stream that no longer takes entries.
struct Closed {
    name: StreamName,
    peer: NodeName,
    /// Whether the peer's session has heard of the close.
    is_told: bool,
}

/// The open streams, and the last closed stream of each shard.
#[derive(Default)]
pub(super) struct Streams {
    open: BTreeMap<(u32, Term), Stream>,
    /// The last closed stream of each shard.
    closed: BTreeMap<u32, Closed>,
    /// The streams whose state is to be told.
    news: BTreeSet<(u32, Term)>,
}

impl Streams {
    /// Opens a stream. Returns the entries that an earlier stream of the same shard and term gives up.
    pub fn open(&mut self, stream: StreamName, peer: NodeName, after: u64) -> GivenUp {
        let StreamName { shard, term, join } = stream;
        let name = (shard, term);
        let is_again = self.open.get(&name).is_some_and(|open| open.join == join);
        let earlier = is_again.then(|| self.open.remove(&name)).flatten();
        let given_up = match earlier {
            Some(earlier) => earlier.give_up(&peer, after),
            None => GivenUp {
                waiting: self.close(shard, term),
                interrupted: None,
            },
        };
        self.closed.retain(|_, closed| closed.name != stream);
        let begun = Stream {
            peer,
            join,
            reached: after,
            end: (after, 0),
            durable: after,
            brought_by: None,
            waiting: BTreeMap::new(),
        };
        self.open.insert(name, begun);
        // Entries that came before were strays, and no answer has covered them.
        self.news.insert(name);
        given_up
    }

    /// Closes a stream, if it is open. Returns the entries that waited for others of the stream.
    #[must_use]
    pub fn close(&mut self, shard: u32, term: Term) -> Vec<Found> {
        self.news.remove(&(shard, term));
        let Some(stream) = self.open.remove(&(shard, term)) else {
            return Vec::new();
        };
        let Stream { peer, join, .. } = stream;
        let closed = Closed {
            name: StreamName { shard, term, join },
            peer,
            is_told: mutant!(CloseNotTold),
        };
        self.closed.insert(shard, closed);
        stream.waiting.into_values().collect()
    }

    /// The peer whose open or closed stream an entry belongs to.
    pub fn peer_of(&self, entry: &Entry) -> Option<&NodeName> {
        let (shard, term) = (entry.shard, entry.term);
        let open = self.open.get(&(shard, term));
        open.map(|stream| &stream.peer).or_else(|| {
            let closed = self.closed.get(&shard);
            let closed = closed.filter(|closed| closed.name.term == term)?;
            (!mutant!(StraysNotCharged)).then_some(&closed.peer)
        })
    }

    /// Whether an entry belongs to an open stream.
    pub fn is_open(&self, entry: &Entry) -> bool {
        self.open.contains_key(&(entry.shard, entry.term))
    }

    /// Takes an entry that was found, and adds the entries that may be handed on to `next`, in order.
    pub fn note(&mut self, found: Found, next: &mut Vec<Found>) -> Noted {
        let name = (found.entry.shard, found.entry.term);
        let Some(stream) = self.open.get_mut(&name) else {
            next.push(found);
            return Noted::Stray;
        };
        if found.entry.kind == Kind::Horizon {
            // A horizon belongs to no chain: its content is true at any time.
            next.push(found);
            return Noted::New;
        }
        if let Some((_, connection)) = found.sender {
            stream.brought_by = Some(connection);
        }
        if stream.knows(&found) {
            // The sender does not know what is durable here.
            self.news.insert(name);
            return Noted::Again;
        }
        stream.waiting.insert(found.follows(), found);
        while let Some(following) = stream.next() {
            stream.end = following.makes();
            if following.piece.is_last || mutant!(AnsweredByFirstPiece) {
                stream.reached = following.entry.version;
            }
            next.push(following);
        }
        Noted::New
    }

    /// Notes that all entries that were handed on are durable.
    pub fn note_durable(&mut self) {
        for (&name, stream) in &mut self.open {
            if stream.durable < stream.reached {
                stream.durable = stream.reached;
                self.news.insert(name);
            }
        }
    }

    /// The rows that `peer` has not received, at most as many as a notice holds. If the plan has no `answers`, the rows
    /// report only closed streams.
    pub fn take_news(&mut self, peer: &NodeName, answers: bool) -> Vec<Told> {
        let closed = self.closed.values_mut();
        let untold = closed.filter(|closed| closed.peer == *peer && !closed.is_told);
        let mut rows: Vec<_> = untold
            .take(ROWS_MAX)
            .map(|closed| {
                closed.is_told = true;
                let standing = Standing::Closed;
                Told {
                    stream: closed.name,
                    standing,
                }
            })
            .collect();
        if !answers {
            return rows;
        }
        let news = self.news.iter();
        let news = news.filter(|&name| self.open[name].peer == *peer);
        let news: Vec<_> = news.take(ROWS_MAX - rows.len()).copied().collect();
        rows.extend(news.into_iter().map(|name| {
            self.news.remove(&name);
            let (shard, term) = name;
            let Stream { join, durable, .. } = self.open[&name];
            Told {
                stream: StreamName { shard, term, join },
                standing: Standing::Reached(durable),
            }
        }));
        rows
    }

    /// Tells a new session of `peer` everything again: the peer does not know what is durable here.
    pub fn tell_again(&mut self, peer: &NodeName) {
        let streams = self.open.iter().filter(|(_, stream)| stream.peer == *peer);
        self.news.extend(streams.map(|(&name, _)| name));
        let closed = self.closed.values_mut();
        for closed in closed.filter(|closed| closed.peer == *peer) {
            closed.is_told = mutant!(CloseNotTold);
        }
    }

    /// The bytes of each entry that `connection` brought and that waits after a gap.
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
    /// Whether an entry is in the chain, or waits.
    fn knows(&self, found: &Found) -> bool {
        let (version, offset) = (found.entry.version, found.piece.offset);
        let (begun, end) = self.end;
        let is_passed = version <= self.reached || (version == begun && offset < end);
        is_passed || self.waiting.contains_key(&found.follows())
    }

    /// Ends the stream, which opens again for `peer` after the version `after`. Whatever lay after that version comes
    /// again: entries that wait, the pieces of a record that is not whole, and entries above a cut.
    fn give_up(self, peer: &NodeName, after: u64) -> GivenUp {
        let goes_on = self.end == (after, 0) && self.waiting.is_empty();
        let interrupted = self.brought_by.filter(|_| !goes_on && self.peer == *peer);
        GivenUp {
            waiting: self.waiting.into_values().collect(),
            interrupted,
        }
    }

    /// The entry that follows the chain, if it was found.
    fn next(&mut self) -> Option<Found> {
        if mutant!(GapAnswered) {
            return self.waiting.pop_first().map(|(_, found)| found);
        }
        self.waiting.remove(&self.end)
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
            piece: Piece::WHOLE,
            place: Span::new(version * 64, 64),
            sender: None,
        }
    }

    /// A piece of 100 bytes.
    fn piece(version: u64, previous: u64, (offset, is_last): (u32, bool)) -> Found {
        Found {
            piece: Piece { offset, is_last },
            place: Span::new(version * 640 + u64::from(offset), 164),
            ..found(version, previous)
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
        assert_eq!(streams.open(stream, peer(), 5), GivenUp::default());
        streams
    }

    fn told(streams: &mut Streams) -> Vec<Standing> {
        let rows = streams.take_news(&peer(), true).into_iter();
        rows.map(|row| row.standing).collect()
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
        assert_eq!(told(&mut streams), [Standing::Reached(7)]);
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::Again);
        assert_eq!(streams.note(found(7, 5), &mut next), Noted::Again);
        assert_eq!(streams.note(found(8, 7), &mut next), Noted::New);
        assert_eq!(versions(&next), [7, 8, 9]);
    }

    /// Needs the last piece: an answer for 8 would speak for bytes that never came.
    #[test]
    fn a_record_in_pieces_is_reached_with_its_last_piece_in_whatever_order_they_are_found() {
        let (mut streams, mut next) = (streams(), Vec::new());
        assert_eq!(streams.note(found(7, 5), &mut next), Noted::New);
        let pieces = [(200, true), (0, false), (0, false), (100, false)];
        let pieces = pieces.map(|part| piece(8, 7, part));
        let noted = pieces.map(|piece| streams.note(piece, &mut next));
        assert_eq!(noted, [Noted::New, Noted::New, Noted::Again, Noted::New]);
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::New);
        let offsets: Vec<_> = next.iter().map(|found| found.piece.offset).collect();
        assert_eq!(
            (versions(&next), offsets),
            (vec![7, 8, 8, 8, 9], vec![0, 0, 100, 200, 0])
        );
        let (mut streams, mut next) = (super::tests::streams(), Vec::new());
        for part in [(0, false), (200, true)] {
            assert_eq!(streams.note(piece(8, 5, part), &mut next), Noted::New);
        }
        streams.note_durable();
        assert_eq!(told(&mut streams), [Standing::Reached(5)]);
    }

    #[test]
    fn an_entry_of_a_shard_or_term_that_nobody_opened_is_a_stray() {
        let (mut streams, mut next) = (streams(), Vec::new());
        let mut other = found(6, 5);
        other.entry.term = Epoch(4);
        assert_eq!(streams.note(other, &mut next), Noted::Stray);
        let told = told(&mut streams);
        assert_eq!(told, [Standing::Reached(5)], "nobody is answered");
        assert!(streams.close(1, TERM).is_empty());
        assert_eq!(streams.note(found(6, 5), &mut next), Noted::Stray);
        assert_eq!(versions(&next), [6, 6], "the store judges strays");
    }

    /// Needs the memory of the closed stream: its primary does not know of the close, and waits for an answer on each
    /// connection.
    #[test]
    fn a_stream_that_closes_is_told_to_each_session_of_its_peer_and_its_entries_have_a_sender() {
        let (mut streams, mut next) = (streams(), Vec::new());
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::New);
        let dropped = streams.close(1, TERM);
        assert_eq!(versions(&dropped), [9], "nothing waits forever");
        for _session in 0..2 {
            assert_eq!(told(&mut streams), [Standing::Closed]);
            assert_eq!(told(&mut streams), []);
            streams.tell_again(&peer());
        }
        let late = found(10, 9).entry;
        assert_eq!(streams.peer_of(&late), Some(&peer()));
        assert!(!streams.is_open(&late));
    }

    #[test]
    fn a_later_join_closes_the_one_before_it() {
        let (mut streams, mut next) = (streams(), Vec::new());
        assert_eq!(streams.note(found(9, 8), &mut next), Noted::New);
        let later = StreamName {
            shard: 1,
            term: TERM,
            join: 4,
        };
        let given_up = streams.open(later, peer(), 0);
        assert_eq!(versions(&given_up.waiting), [9]);
        assert_eq!(given_up.interrupted, None, "the peer hears of the close");
        assert_eq!(told(&mut streams), [Standing::Closed, Standing::Reached(0)]);
    }

    /// Needs the connection that brought the last entry: what it sends next follows what was given up.
    #[test]
    fn a_stream_that_opens_again_interrupts_the_connection_whose_entries_it_gives_up() {
        let stream = StreamName {
            shard: 1,
            term: TERM,
            join: 0,
        };
        let by = |connection, found| Found {
            sender: Some((peer(), connection)),
            ..found
        };
        let opened = |brought: &[Found], peer: &str, after| {
            let mut streams = streams();
            for found in brought {
                streams.note(found.clone(), &mut Vec::new());
            }
            let given_up = streams.open(stream, peer.parse().unwrap(), after);
            (versions(&given_up.waiting), given_up.interrupted)
        };
        let first = by(4, found(7, 5));
        let whole = [first.clone(), by(4, found(8, 7))];
        assert_eq!(opened(&whole, "a", 8), (vec![], None), "nothing is lost");
        assert_eq!(opened(&whole, "a", 7), (vec![], Some(4)), "8 is cut off");
        assert_eq!(opened(&whole, "b", 7), (vec![], None), "of another peer");
        let waits = [first.clone(), by(4, found(9, 8))];
        assert_eq!(opened(&waits, "a", 7), (vec![9], Some(4)));
        let begun = [first, by(4, piece(8, 7, (0, false)))];
        assert_eq!(opened(&begun, "a", 7), (vec![], Some(4)));
        let again = by(6, piece(8, 7, (0, false)));
        let begun = [&begun[..], &[again]].concat();
        assert_eq!(opened(&begun, "a", 7), (vec![], Some(6)));
    }

    /// Needs the close to be kept while another stream of the shard opens again under its name.
    #[test]
    fn a_stream_that_opens_again_hides_no_close_of_an_earlier_term() {
        let mut streams = streams();
        let name = |term| StreamName {
            shard: 1,
            term,
            join: 0,
        };
        let _ = streams.open(name(Epoch(2)), peer(), 4);
        let _ = told(&mut streams);
        assert!(streams.close(1, Epoch(2)).is_empty());
        let _ = streams.open(name(TERM), peer(), 5);
        assert_eq!(told(&mut streams), [Standing::Closed, Standing::Reached(5)]);
    }
}
