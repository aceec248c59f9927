//! The answers of a peer that its streams are open.

use std::collections::BTreeMap;

use stonecast_backup::StreamName;
use stonecast_cluster::Term;
use stonecast_replication::Point;

/// The last answer of a peer about each shard. An answer counts for one term, one join and one connection: streams end
/// with each of these.
#[derive(Debug, Default)]
pub struct Answers(BTreeMap<u32, Answer>);

#[derive(Clone, Copy, Debug)]
struct Answer {
    term: Term,
    join: u64,
    /// The connection for whose entries the streams are open.
    by: u64,
    /// The end of the peer's copy then.
    has: Point,
}

impl Answer {
    fn order(&self) -> (Term, u64, u64) {
        (self.term, self.join, self.by)
    }
}

impl Answers {
    /// Notes that the peer has opened the streams of the term and the join of `stream` for the connection `by`, and has
    /// everything up to `has`. An answer that comes after one about a later connection, join or term says nothing.
    /// Returns whether the answer is the first one about the shard since the peer took that connection.
    pub fn take(&mut self, stream: StreamName, by: u64, has: Point) -> bool {
        let StreamName { shard, term, join } = stream;
        let answer = Answer {
            term,
            join,
            by,
            has,
        };
        let known = self.0.get(&shard);
        let is_first = known.is_none_or(|known| known.by < by);
        if known.is_none_or(|known| known.order() <= answer.order()) {
            self.0.insert(shard, answer);
        }
        is_first
    }

    /// The end of the peer's copy of the shard of `stream`, if its streams of that term and join are open for
    /// `connection`.
    pub fn about(&self, stream: StreamName, connection: u64) -> Option<Point> {
        let StreamName { shard, term, join } = stream;
        let answer = self.0.get(&shard)?;
        (answer.order() == (term, join, connection)).then_some(answer.has)
    }

    /// Whether streams of `shard` in `term` are open for `connection`, of whichever join.
    pub fn is_about(&self, (shard, term): (u32, Term), connection: u64) -> bool {
        let answer = self.0.get(&shard);
        answer.is_some_and(|answer| (answer.term, answer.by) == (term, connection))
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::Epoch;

    use super::*;

    const END: Point = Point {
        term: Epoch(4),
        version: 40,
    };

    fn stream(term: u64, join: u64) -> StreamName {
        StreamName {
            shard: 3,
            term: Epoch(term),
            join,
        }
    }

    /// Needs the number of the join: a joiner that joins again by the same connection has not dropped its copy for the
    /// later join.
    #[test]
    fn an_answer_about_an_earlier_join_says_nothing_about_a_later_one() {
        let mut answers = Answers::default();
        answers.take(stream(4, 5), 7, END);
        assert_eq!(answers.about(stream(4, 5), 7), Some(END));
        assert_eq!(answers.about(stream(4, 6), 7), None);
        assert!(answers.is_about((3, Epoch(4)), 7));
        answers.take(stream(4, 6), 7, END);
        answers.take(stream(4, 5), 7, END);
        assert_eq!(answers.about(stream(4, 6), 7), Some(END));
    }

    #[test]
    fn an_answer_about_an_earlier_connection_or_term_says_nothing() {
        let mut answers = Answers::default();
        assert!(answers.take(stream(4, 0), 7, END));
        assert_eq!(answers.about(stream(4, 0), 8), None);
        assert_eq!(answers.about(stream(5, 0), 7), None);
        assert!(!answers.take(stream(5, 0), 7, END));
        assert!(answers.take(stream(5, 0), 8, END));
        answers.take(stream(5, 0), 7, END);
        assert_eq!(answers.about(stream(5, 0), 8), Some(END));
    }
}
