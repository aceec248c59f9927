//! The progress of a node to which a primary sends entries.

use std::collections::VecDeque;

use stonecast_base::mutant;
use stonecast_cluster::{NodeName, Term};

use crate::entry::{Entry, Kind};

/// Names a connection for appends among all connections that a primary ever has to one node. A later connection has a
/// higher number.
///
/// Reports of a connection that has ended may still arrive, and the node may have dropped its copy since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub u64);

impl Connection {
    /// The connection from a primary to its own log, which is never replaced.
    pub const OWN: Self = Self(0);
}

/// Says that a node has an entry durably, by the plan for its platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The connection by which the entry was sent.
    pub connection: Connection,
    /// The term of the entry.
    pub term: Term,
    /// The version of the entry.
    pub version: u64,
    /// The kind of the entry.
    pub kind: Kind,
}

impl Report {
    /// The report that `entry`, which was sent by `connection`, is durable.
    pub fn of(connection: Connection, entry: &Entry) -> Self {
        Self {
            connection,
            term: entry.term,
            version: entry.version,
            kind: entry.kind,
        }
    }
}

/// A copy reports an entry that was not sent to it, or leaves an entry out. The caller ends the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{copy} reports {found:?}, where {expected:?} comes next")]
pub struct ReportedOutOfOrder {
    /// The copy.
    pub copy: NodeName,
    /// Version and kind of the entry that it reports.
    pub found: (u64, Kind),
    /// The next entry that was sent to the copy; `None`: all entries that were sent are persisted.
    pub expected: Option<(u64, Kind)>,
}

/// The versions up to which a node was sent everything, and has everything durably.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The last connection that brought entries, perhaps before the node dropped its copy.
    connection: Connection,
    /// The last connection before that drop. It brings nothing and its reports have no effect, since they may be of
    /// entries that were dropped.
    dropped: Option<Connection>,
    sent: u64,
    persisted: u64,
    /// The highest horizon that was sent.
    told: u64,
    /// For each horizon on its way, the version after which it was sent.
    horizons: VecDeque<u64>,
}

impl Progress {
    /// The progress of a node that has everything up to `version`.
    pub fn up_to(version: u64) -> Self {
        Self {
            connection: Connection::OWN,
            dropped: None,
            sent: version,
            persisted: version,
            told: 0,
            horizons: VecDeque::new(),
        }
    }

    /// The progress of a node that has everything up to `version`, and has dropped all that came by `dropped` and
    /// earlier connections.
    pub fn behind(dropped: Option<Connection>, version: u64) -> Self {
        Self {
            connection: dropped.unwrap_or_default(),
            dropped,
            ..Self::up_to(version)
        }
    }

    /// The last connection that brought entries.
    pub fn connection(&self) -> Connection {
        self.connection
    }

    fn is_dropped(&self, connection: Connection) -> bool {
        self.dropped.is_some_and(|dropped| connection <= dropped)
    }

    /// The version up to which the node has everything durably.
    pub fn persisted(&self) -> u64 {
        self.persisted
    }

    /// The entries of `chain` that were not sent by `connection`.
    pub fn take_unsent(&mut self, chain: &VecDeque<Entry>, connection: Connection) -> Vec<Entry> {
        if connection > self.connection {
            self.begin(connection);
        }
        if connection < self.connection || self.is_dropped(connection) {
            return Vec::new();
        }
        let first = chain.partition_point(|entry| entry.version <= self.sent);
        if let Some(last) = chain.back() {
            self.sent = self.sent.max(last.version);
            self.told = self.told.max(last.horizon);
        }
        chain.range(first..).copied().collect()
    }

    /// Begins to send all entries that are not persisted again, by `connection`.
    fn begin(&mut self, connection: Connection) {
        self.connection = connection;
        self.told = 0;
        self.horizons.clear();
        if !mutant!(ResentFromLastSent) {
            self.sent = self.persisted;
        }
    }

    /// Whether `horizon` is to be sent in an entry of its own, after everything up to `last`.
    pub fn takes_horizon(&mut self, last: u64, horizon: u64, connection: Connection) -> bool {
        let is_open = connection == self.connection && !self.is_dropped(connection);
        let is_due = is_open && self.sent >= last && self.told < horizon;
        if is_due {
            self.told = horizon;
            self.horizons.push_back(last);
        }
        is_due
    }

    /// Takes a report of `copy`. `chain` has all entries that are not persisted there.
    pub fn report(
        &mut self,
        chain: &VecDeque<Entry>,
        copy: &NodeName,
        report: Report,
    ) -> Result<(), ReportedOutOfOrder> {
        if report.connection != self.connection && !mutant!(ReportOfAnyConnection) {
            return Ok(());
        }
        if self.is_dropped(report.connection) {
            return Ok(());
        }
        let (expected, found) = (self.expected(chain), (report.version, report.kind));
        if expected != Some(found) && !mutant!(PersistedOutOfOrder) {
            return Err(ReportedOutOfOrder {
                copy: copy.clone(),
                found,
                expected,
            });
        }
        match report.kind {
            Kind::Record => self.persisted = report.version,
            Kind::Horizon => _ = self.horizons.pop_front(),
        }
        Ok(())
    }

    /// The entry whose report comes next. The primary sends a horizon after the record whose version the horizon
    /// repeats.
    fn expected(&self, chain: &VecDeque<Entry>) -> Option<(u64, Kind)> {
        if self.horizons.front() == Some(&self.persisted) {
            return Some((self.persisted, Kind::Horizon));
        }
        let next = chain.partition_point(|entry| entry.version <= self.persisted);
        let next = chain.get(next).map(|entry| entry.version);
        let next = next.filter(|&next| next <= self.sent);
        next.map(|version| (version, Kind::Record))
    }
}
