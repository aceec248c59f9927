//! The entries of one connection, from the append to the report.
//!
//! ```text
//!   appended --flush--> posted --answer, for plans that have one--> covered --Persisted--> reported
//! ```
//!
//! A backup answers by stream and version, and an appender counts entries: this module translates. An answer covers
//! everything durable on the backup, by whichever connection it came, so an answer may cover an entry that is not even
//! posted. The number that the appender hears never exceeds the number of posted entries.
//!
//! An entry of a stream that either side has given up waits for no answer: the entry passes, and is not reported.

use std::collections::{BTreeMap, VecDeque};

use stonecast_base::mutant;
use stonecast_replication::{Entry, Kind};

use super::ears::Trouble;
use crate::stream::{Standing, StreamName, Told};

/// The most streams of one connection: many times the shards that a node leads, in all terms and joins.
const STREAMS_MAX: usize = 1 << 16;

/// An entry on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The stream of the entry.
    pub stream: StreamName,
    /// The version of the entry.
    pub version: u64,
    /// The kind of the entry. A horizon repeats the version before it.
    pub kind: Kind,
    /// Whether the record is whole with this entry: false for all pieces but the last.
    pub is_whole: bool,
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
            is_whole: true,
        }
    }
}

/// The entries of one connection that are not reported, and the state of their streams.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Whether the plan has answers.
    answers: bool,
    /// Entries that are not reported yet, oldest first.
    entries: VecDeque<Posted>,
    /// Number of the last entry that was reported.
    reported: u64,
    /// Number of the last entry that was posted.
    posted: u64,
    /// Number up to which answers cover all entries.
    covered: u64,
    /// The standing of each stream.
    streams: BTreeMap<StreamName, Standing>,
}

impl Sent {
    /// The start of a connection, whose plan has `answers` or none.
    pub fn new(answers: bool) -> Self {
        Self {
            answers,
            ..Self::default()
        }
    }

    /// The number of entries that were appended and not reported.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn push(&mut self, entry: Posted) {
        self.entries.push_back(entry);
    }

    /// Notes that all appended entries are posted.
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

    /// Takes a row of an answer, or the store's word about a stream. A closed stream stays closed.
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

    /// The number up to which answers cover all entries, if it has risen.
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

    /// Takes the oldest entry, which is persisted.
    pub fn pop(&mut self) -> Posted {
        self.reported += 1;
        // Without answers, entries become persisted that no answer covers.
        self.covered = self.covered.max(self.reported);
        self.entries.pop_front().expect("an entry was appended")
    }

    /// All entries that are not reported yet, pieces included.
    pub fn rest(&self) -> Vec<Posted> {
        self.entries.iter().copied().collect()
    }
}

/// The whole name, because another stream of the same shard says nothing of this one.
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
            is_whole: true,
        }
    }

    /// Needs the whole name of the stream: the shard moved away and came back, and only entries since then count.
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

    /// Needs the bound: an appender rejects an answer beyond the posted entries.
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

    /// Needs the check of the standing: no answer ever covers the entry.
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
