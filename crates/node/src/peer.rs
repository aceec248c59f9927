//! The path to another node.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_backup::{BackupLink, LinkEnded, NotSent, Report, StreamName};
use stonecast_base::Nanoseconds;
use stonecast_cluster::Term;
use stonecast_replication::{Entry, Point};

use crate::answers::Answers;

/// An entry that is to be appended.
pub struct Unsent {
    pub join: u64,
    pub entry: Entry,
    pub body: Rc<[u8]>,
}

/// The state of the path to a peer, for the operator of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Whether entries can be appended there.
    pub is_linked: bool,
    /// The reason why entries cannot be appended, or could not be before, in words for people.
    pub link_trouble: Option<String>,
    /// The reason why the last letter did not arrive, in words for people.
    pub letter_trouble: Option<String>,
    /// Letters that wait until the ones before have arrived.
    pub letters_waiting: usize,
}

/// The path to a node that has copies of shards that this node leads.
#[derive(Default)]
pub struct Peer {
    pub link: Option<BackupLink>,
    /// Whether a task connects.
    pub is_linking: bool,
    /// The reason why the peer has no link.
    pub trouble: Option<String>,
    answers: Answers,
    /// For each shard, the term, the connection and the time of the last history that was sent.
    pub told: BTreeMap<u32, (Term, u64, Nanoseconds)>,
    /// Entries that wait for credit on the present link.
    unsent: VecDeque<Unsent>,
    /// Whether the link has taken entries that it has not sent.
    is_unflushed: bool,
    /// The time at which the last entries were sent.
    sent_at: Nanoseconds,
}

impl Peer {
    /// The number of the present connection.
    pub fn connection(&self) -> Option<u64> {
        self.link.as_ref().map(BackupLink::connection)
    }

    /// Takes a new connection.
    pub fn linked(&mut self, link: BackupLink) {
        self.unsent.clear();
        self.is_unflushed = false;
        self.trouble = None;
        self.link = Some(link);
    }

    /// Ends the connection, for a reason in words for people. The next connection sends the entries
    /// again that were not reported.
    pub fn end(&mut self, trouble: String) {
        self.trouble = Some(trouble);
        self.link = None;
        self.unsent.clear();
        self.is_unflushed = false;
    }

    /// Takes the peer's answer that its streams are open; see [`Answers::take`].
    pub fn followed(&mut self, stream: StreamName, by: u64, has: Point) -> bool {
        self.answers.take(stream, by, has)
    }

    /// The end of the peer's copy of the shard of `stream`, if its streams of that term and join are open for the
    /// present connection.
    pub fn follows(&self, stream: StreamName) -> Option<Point> {
        self.answers.about(stream, self.connection()?)
    }

    /// Whether the peer has opened streams of `shard` in `term` for the present connection, of whichever join.
    pub fn has_followed(&self, shard: u32, term: Term) -> bool {
        let connection = self.connection();
        connection.is_some_and(|connection| self.answers.is_about((shard, term), connection))
    }

    /// Returns whether the history of `shard` in `term` is to be told at `now`. If so, notes that
    /// it is told.
    pub fn is_to_be_told(
        &mut self,
        (shard, term): (u32, Term),
        now: Nanoseconds,
        repeat_ns: Nanoseconds,
    ) -> Option<u64> {
        let connection = self.connection()?;
        let last = self.told.get(&shard);
        let is_told = last
            .is_some_and(|&(of, by, at)| (of, by) == (term, connection) && now < at + repeat_ns);
        if is_told {
            return None;
        }
        self.told.insert(shard, (term, connection, now));
        Some(connection)
    }

    pub fn push(&mut self, unsent: Unsent) {
        self.unsent.push_back(unsent);
    }

    /// Sends as many entries as there is credit for at `now`, with one doorbell. An entry that the link never takes
    /// ends the link. Returns whether the peer is to be woken: its device reports no entries, and the last ones were
    /// sent `quiet_ns` ago or earlier.
    pub fn send(&mut self, now: Nanoseconds, quiet_ns: Nanoseconds) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let before = link.unreported();
        while let Some(Unsent { join, entry, body }) = self.unsent.front() {
            // The link may take some pieces of an entry.
            self.is_unflushed = true;
            match link.append(*join, entry, body) {
                Ok(()) => _ = self.unsent.pop_front(),
                Err(refused @ NotSent::Closed(_)) => {
                    self.end(refused.to_string());
                    return false;
                }
                // Credits and reports make room, and the end of the link is reported.
                Err(_) => break,
            }
        }
        // A device that refuses a batch takes it with the next one.
        if !self.is_unflushed || link.flush().is_err() {
            return false;
        }
        self.is_unflushed = false;
        if link.unreported() == before {
            return false;
        }
        let was_quiet = now >= self.sent_at + quiet_ns;
        self.sent_at = now;
        was_quiet && link.is_unreported()
    }

    /// Whether the present link has news; if not, the next one wakes `context`.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let link = self.link.as_mut();
        link.map_or(Poll::Pending, |link| link.poll_news(context))
    }

    /// Whether entries are left that the link does not take at this moment.
    pub fn is_behind(&self) -> bool {
        self.is_unflushed || !self.unsent.is_empty()
    }

    /// The next report of the present link, or its end.
    pub fn take_report(&mut self) -> Option<Result<Report, LinkEnded>> {
        let link = self.link.as_mut()?;
        link.take_report().transpose()
    }
}
