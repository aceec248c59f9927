//! A shard on this node: the role of the node, and the entries that the node knows.

use std::collections::{BTreeMap, VecDeque};

use stonecast_backup::StreamName;
use stonecast_base::Nanoseconds;
use stonecast_cluster::{NodeName, Subject, Term};
use stonecast_replication::{
    Entry, LaterTerm, Lineage, Piece, Point, Primary, ShardCopy, Taken, Takeover,
};

use crate::bodies::Bodies;
use crate::consent::Consents;
use crate::join::Join;
use crate::leaving::Handover;
use crate::standstill::Standstill;
use crate::store::Ended;

/// The part that a node plays for a shard: one value.
///
/// ```text
///   absent ──▶ joins ──▶ copies ──(heir of a new term)──▶ takes over ──(served)──▶ leads
///                 ^───────────(another term, lease over)──'───────────────'
/// ```
pub enum Role<C> {
    Absent,
    Joins(Box<Joins>),
    Copies(Box<Copies>),
    TakesOver(Box<TakesOver>),
    Leads(Box<Leads<C>>),
}

/// A copy, and the heir whose history it follows.
pub struct Copies {
    pub copy: ShardCopy,
    pub following: Option<Following>,
    /// Entries that were digested since the floor rose.
    pub digested: u64,
}

impl Copies {
    /// A copy that follows no node.
    pub fn new(copy: ShardCopy) -> Self {
        Self {
            copy,
            following: None,
            digested: 0,
        }
    }
}

/// The history that an heir, or a primary, has told this copy.
pub struct Following {
    pub from: NodeName,
    pub history: Lineage,
    pub join: u64,
    /// The connection whose letter waits for an answer.
    pub asked_by: Option<u64>,
    pub progress: Followed,
}

/// The progress of a copy that follows a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// The copy first keeps earlier senders out.
    Told,
    /// The history judges the entries that are found, and streams are open.
    Adopted,
    /// The history is durable, and so are all of its entries.
    Kept,
}

/// A node that is being filled.
pub struct Joins {
    /// The number of the join.
    pub join: u64,
    /// The primary that fills the node.
    pub filling: Option<Joined>,
}

impl Joins {
    fn copies(&mut self) -> Option<&mut Copies> {
        self.filling.as_mut()?.copies.as_mut()
    }
}

/// The state that a joiner has received from a primary.
pub struct Joined {
    pub from: NodeName,
    /// The history with which the joiner begins.
    pub begun: Lineage,
    /// The connection whose letter waits for an answer.
    pub asked_by: Option<u64>,
    /// The copy that entries are appended to, when the earlier one was dropped, durably.
    pub copies: Option<Copies>,
    pub pull: Pull,
    /// Bytes of the present page that are here when the answer to the last ask has come.
    pub asked_to: usize,
    /// The time at which the last letter that waits for an answer was sent.
    pub said_at: Option<Nanoseconds>,
}

/// The progress of a joiner that pulls the published records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// All earlier pages are here, and these bytes of this page.
    Page(u64, Vec<u8>),
    /// Everything is here, and not yet durable.
    Ended,
    /// Everything is durable here.
    Durable,
}

/// An heir on its way.
pub struct TakesOver {
    pub takeover: Takeover,
    /// Copies to which all entries of the history were sent, each with the connection.
    pub sent: BTreeMap<NodeName, u64>,
}

/// A primary.
pub struct Leads<C> {
    pub primary: Primary<C>,
    /// The history that all copies have confirmed: a copy that connects again hears it again.
    pub history: Lineage,
    /// Nodes that are being filled, or were filled in this term, with the joins that name their streams.
    pub joins: BTreeMap<NodeName, Join>,
    /// The node hands the shard over.
    pub handover: Option<Handover>,
    /// The time before which the node begins no further handover.
    pub goes_on_until: Nanoseconds,
    /// The end of the last lease of a reader, on the clock of this node.
    pub read_until: Nanoseconds,
    pub written_at: Nanoseconds,
    /// Writes that were stamped and are not on all copies.
    pub unsettled: VecDeque<Unsettled>,
    /// Writes that were published since the floor rose.
    pub digested: u64,
}

/// A write that was stamped and is not on all copies.
#[derive(Clone, Copy)]
pub struct Unsettled {
    pub version: u64,
    /// Bytes that the entry of the write takes.
    pub room: u64,
    pub stamped_at: Nanoseconds,
}

/// A shard on this node.
pub struct Shard<C> {
    pub number: u32,
    pub subject: Subject,
    pub role: Role<C>,
    pub bodies: Bodies,
    /// Streams that are open in the intake: the peer and its join, by term.
    pub streams: BTreeMap<Term, (NodeName, u64)>,
    pub consents: Consents,
    /// The floor that the node last told the intake, and the time.
    pub floor: Point,
    pub floor_at: Nanoseconds,
    /// The wait of this node, as the primary or the heir, for its copies.
    pub standstill: Standstill,
}

impl<C> Shard<C> {
    pub fn new(number: u32, subject: Subject) -> Self {
        Self {
            number,
            subject,
            role: Role::Absent,
            bodies: Bodies::default(),
            streams: BTreeMap::new(),
            consents: Consents::default(),
            floor: Point::default(),
            floor_at: 0,
            standstill: Standstill::default(),
        }
    }

    /// Becomes a copy that follows no other node.
    pub fn copies(&mut self, copy: ShardCopy) {
        self.role = Role::Copies(Box::new(Copies::new(copy)));
    }

    /// Turns a joiner that was named into a copy.
    pub fn joined(&mut self) {
        if let Role::Joins(joins) = &mut self.role
            && let Some(filling) = &mut joins.filling
            && let Some(copies) = filling.copies.take()
        {
            self.role = Role::Copies(Box::new(copies));
        }
    }

    /// The copy that others append to and that digests: as a copy, or as a joiner.
    pub fn copies_mut(&mut self) -> Option<&mut Copies> {
        match &mut self.role {
            Role::Copies(copies) => Some(copies),
            Role::Joins(joins) => joins.copies(),
            Role::Absent | Role::TakesOver(_) | Role::Leads(_) => None,
        }
    }

    /// The copy, in the roles that take entries of other nodes.
    pub fn copy(&mut self) -> Option<&mut ShardCopy> {
        match &mut self.role {
            Role::Copies(copies) => Some(&mut copies.copy),
            Role::Joins(joins) => Some(&mut joins.copies()?.copy),
            Role::TakesOver(heir) => Some(heir.takeover.copy()),
            Role::Absent | Role::Leads(_) => None,
        }
    }

    /// The entries that were digested, or published, since the floor rose.
    pub fn digested(&self) -> u64 {
        match &self.role {
            Role::Copies(copies) => copies.digested,
            Role::Joins(joins) => {
                let filling = joins.filling.as_ref();
                let copies = filling.and_then(|filling| filling.copies.as_ref());
                copies.map_or(0, |copies| copies.digested)
            }
            Role::Leads(leads) => leads.digested,
            Role::Absent | Role::TakesOver(_) => 0,
        }
    }

    /// Takes an entry that was found, and keeps its body if the entry counts. The copy hears of a record when all of
    /// its pieces are there.
    pub fn take(&mut self, entry: Entry, piece: Piece, bytes: Vec<u8>) -> Result<(), LaterTerm> {
        if self.copy().is_none() {
            return Ok(());
        }
        let Some(body) = self.bodies.gather(entry.point(), piece, bytes) else {
            return Ok(());
        };
        let copy = self.copy().expect("it was there");
        match copy.take(entry)? {
            Taken::Contiguous(_) | Taken::Ahead => self.bodies.insert(entry.point(), body.into()),
            Taken::Known | Taken::Void => {}
        }
        Ok(())
    }

    /// The term in which the node takes over or leads.
    pub fn term(&self) -> Option<Term> {
        match &self.role {
            Role::TakesOver(heir) => Some(heir.takeover.term()),
            Role::Leads(leads) => Some(leads.primary.term()),
            Role::Absent | Role::Joins(_) | Role::Copies(_) => None,
        }
    }

    pub fn leads(&mut self) -> Option<&mut Leads<C>> {
        match &mut self.role {
            Role::Leads(leads) => Some(leads),
            _ => None,
        }
    }

    /// The join of `peer` in the present term, under whose number its stream is.
    pub fn join_of(&self, peer: &NodeName) -> Option<&Join> {
        match &self.role {
            Role::Leads(leads) => leads.joins.get(peer),
            _ => None,
        }
    }

    /// The stream of entries to `peer` in `term`.
    pub fn stream_to(&self, peer: &NodeName, term: Term) -> StreamName {
        StreamName {
            shard: self.number,
            term,
            join: self.join_of(peer).map_or(0, |join| join.number),
        }
    }

    /// Ends the lead, or the takeover, and stays a copy. Returns the calls that waited.
    pub fn step_down(&mut self) -> Option<Ended<C>> {
        match std::mem::replace(&mut self.role, Role::Absent) {
            Role::Leads(leads) => {
                let (copy, ended) = Ended::of(leads.primary.resign());
                self.copies(copy);
                Some(ended)
            }
            Role::TakesOver(heir) => {
                self.copies(heir.takeover.abandon());
                None
            }
            other => {
                self.role = other;
                None
            }
        }
    }
}
