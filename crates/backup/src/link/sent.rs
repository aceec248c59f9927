//! The entries of one connection, from the append to the report.
//!
//! ```text
//!   appended --flush--> posted --answer, for plans that have one--> covered --Persisted--> reported
//! ```
//!
//! A backup answers by stream and version, and an appender counts entries: this is where one becomes the other. An answer says what is
//! durable on the backup whatever connection brought it, so an answer may cover an entry that is not even posted. The number that the
//! appender hears never exceeds what was posted.
//!
//! An entry of a stream that either side has given up waits for no answer: the entry passes, and is not reported.

use std::collections::{BTreeMap, VecDeque};

use stonecast_base::mutant;
use stonecast_replication::{Entry, Kind};

use super::ears::Trouble;
use crate::stream::{Standing, StreamName, Told};

/// Most streams of one connection: many times the shards that a node leads, for all terms and joins in which it does.
const STREAMS_MAX: usize = 1 << 16;

/// An entry on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its stream.
    pub stream: StreamName,
    /// Its version.
    pub version: u64,
    /// Its kind. A horizon repeats the version before it.
    pub kind: Kind,
}

impl Posted {
    pub(super) fn new(entry: &Entry, join: u64) -> Self {
        Self {
            stream: StreamName {
                shard: entry.shard,
                term: entry.term,
                join,
            },
            version: entry.version,
            kind: entry.kind,
        }
    }
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Whether the plan has answers.
    answers: bool,
    /// Entries that were not reported, oldest first.
    entries: VecDeque<Posted>,
    /// Number of the last entry that was reported.
    reported: u64,
    /// Number of the last entry that was posted.
    posted: u64,
    /// Number up to which answers cover all entries.
    covered: u64,
    /// How each stream stands.
    streams: BTreeMap<StreamName, Standing>,
}

impl Sent {
    /// For a plan that has answers, or none.
    pub fn new(answers: bool) -> Self {
        Self {
            answers,
            ..Self::default()
        }
    }

    /// Entries that were appended and not reported.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn push(&mut self, entry: Posted) {
        self.entries.push_back(entry);
    }

    /// All that was appended is posted.
    pub fn note_posted(&mut self) {
        self.posted = self.reported + self.entries.len() as u64;
    }

    /// Takes the rows of a notice. A backup that names streams without end is no backup.
    pub fn note_all(&mut self, rows: Vec<Told>) -> Result<(), Trouble> {
        rows.into_iter().for_each(|row| self.note(row));
        match self.streams.len() <= STREAMS_MAX {
            true => Ok(()),
            false => Err(Trouble::TooManyStreams { limit: STREAMS_MAX }),
        }
    }

    /// Takes a row of an answer, or what the store says of a stream. A stream that is closed stays so.
    pub fn note(&mut self, told: Told) {
        let known = self.streams.entry(key_of(told.stream));
        let known = known.or_insert(Standing::Reached(0));
        *known = match (*known, told.standing) {
            (Standing::Reached(before), Standing::Reached(now)) => {
                Standing::Reached(now.max(before))
            }
            _ => Standing::Closed,
        };
    }

    /// Whether either side has given `stream` up.
    pub fn is_closed(&self, stream: StreamName) -> bool {
        self.streams.get(&key_of(stream)) == Some(&Standing::Closed)
    }

    /// The number up to which answers cover all entries, where it has risen.
    pub fn take_covered(&mut self) -> Option<u64> {
        let before = self.covered;
        while self.answers
            && self.covered < self.posted
            && self.waits_for_nothing(&self.next_uncovered())
        {
            self.covered += 1;
        }
        (self.covered > before).then_some(self.covered)
    }

    fn next_uncovered(&self) -> Posted {
        self.entries[(self.covered - self.reported) as usize]
    }

    fn waits_for_nothing(&self, entry: &Posted) -> bool {
        let is_there = match self.streams.get(&key_of(entry.stream)) {
            Some(Standing::Reached(version)) => *version >= entry.version,
            Some(Standing::Closed) => true,
            None => false,
        };
        is_there || entry.kind == Kind::Horizon
    }

    /// The oldest entry is persisted.
    pub fn pop(&mut self) -> Posted {
        self.reported += 1;
        // Without answers, entries are persisted that nothing covers.
        self.covered = self.covered.max(self.reported);
        self.entries.pop_front().expect("an entry was appended")
    }

    /// All entries that were not reported.
    pub fn rest(&self) -> Vec<Posted> {
        self.entries.iter().copied().collect()
    }
}

/// The whole name: a stream of the same shard says nothing of this one.
fn key_of(stream: StreamName) -> StreamName {
    match mutant!(EarlierJoinAnswers) {
        true => StreamName { join: 0, ..stream },
        false => stream,
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::Epoch;

    use super::*;

    fn stream(term: u64, join: u64) -> StreamName {
        StreamName {
            shard: 4,
            term: Epoch(term),
            join,
        }
    }

    fn reached(stream: StreamName, version: u64) -> Told {
        let standing = Standing::Reached(version);
        Told { stream, standing }
    }

    fn posted(stream: StreamName, version: u64) -> Posted {
        Posted {
            stream,
            version,
            kind: Kind::Record,
        }
    }

    /// Needs the whole name of the stream: the shard moved away and came back, and only what it got since counts.
    #[test]
    fn an_answer_about_an_earlier_join_or_another_term_covers_nothing() {
        let mut sent = Sent::new(true);
        sent.push(posted(stream(2, 5), 10));
        sent.note_posted();
        for other in [stream(2, 4), stream(1, 5), stream(3, 5)] {
            sent.note(reached(other, 99));
            assert_eq!(sent.take_covered(), None, "{other:?}");
        }
        sent.note(reached(stream(2, 5), 9));
        assert_eq!(sent.take_covered(), None, "an entry behind the answer");
        sent.note(reached(stream(2, 5), 10));
        assert_eq!(sent.take_covered(), Some(1));
        assert_eq!(sent.take_covered(), None, "each number is told once");
    }

    /// Needs the bound: an appender takes an answer beyond what it has posted for nonsense.
    #[test]
    fn an_answer_from_before_the_connection_covers_an_entry_when_it_is_posted() {
        let mut sent = Sent::new(true);
        sent.note(reached(stream(2, 0), 7));
        for version in [6, 7, 8] {
            sent.push(posted(stream(2, 0), version));
        }
        assert_eq!(sent.take_covered(), None, "nothing is posted");
        sent.note_posted();
        assert_eq!(sent.take_covered(), Some(2));
    }

    /// Needs the bound: each name that a peer makes up would cost memory.
    #[test]
    fn a_backup_that_names_streams_without_end_is_given_up() {
        let mut sent = Sent::new(true);
        let mut row = |join| sent.note_all(vec![reached(stream(2, join), 1)]);
        for join in 0..STREAMS_MAX as u64 {
            assert_eq!(row(join), Ok(()));
        }
        let limit = STREAMS_MAX;
        assert_eq!(row(7), Ok(()), "known streams cost nothing more");
        assert_eq!(row(limit as u64), Err(Trouble::TooManyStreams { limit }));
    }

    #[test]
    fn entries_are_covered_in_their_order_and_a_horizon_with_those_before_it() {
        let mut sent = Sent::new(true);
        let other = StreamName {
            shard: 5,
            ..stream(2, 0)
        };
        sent.push(posted(stream(2, 0), 6));
        sent.push(Posted {
            kind: Kind::Horizon,
            ..posted(stream(2, 0), 6)
        });
        sent.push(posted(other, 1));
        sent.note_posted();
        sent.note(reached(other, 1));
        assert_eq!(sent.take_covered(), None, "the first one is not durable");
        sent.note(reached(stream(2, 0), 6));
        assert_eq!(sent.take_covered(), Some(3));
        assert_eq!(sent.pop().version, 6);
        assert_eq!(sent.rest().len(), 2);
    }

    /// Needs the look at the standing: nobody ever answers for the entry.
    #[test]
    fn an_entry_of_a_closed_stream_waits_for_nothing_and_no_answer_opens_the_stream_again() {
        let mut sent = Sent::new(true);
        for version in [6, 7] {
            sent.push(posted(stream(2, 0), version));
        }
        sent.note_posted();
        sent.note(reached(stream(2, 0), 6));
        assert_eq!(sent.take_covered(), Some(1));
        sent.note(Told {
            stream: stream(2, 0),
            standing: Standing::Closed,
        });
        assert_eq!(sent.take_covered(), Some(2));
        sent.note(reached(stream(2, 0), 9));
        assert!(sent.is_closed(stream(2, 0)) && !sent.is_closed(stream(2, 1)));
    }
}
