//! One node's copy of a shard: the part that is there without a gap, and the entries that may be digested.

use std::collections::{BTreeMap, VecDeque};

use stonecast_base::mutant;
use stonecast_lineage::{Judgement, Lineage, Nonce, Point, Term};

use crate::entry::{Entry, Kind};

/// The copy of a shard on a node, as a backup and as a primary.
///
/// A node finds entries in any order: entries of other shards, torn entries and empty places lie between them. Each
/// entry names the one before it in its shard, so gaps are gaps of this shard alone.
///
/// A crash may lose everything here. A node that starts makes the copy again from the lineage that the node kept, and
/// from the entries in its memory ([`ShardCopy::recover`]).
#[derive(Clone, Debug)]
pub struct ShardCopy {
    shard: u32,
    lineage: Lineage,
    /// Whether the node has the lineage durably.
    is_kept: bool,
    /// The end of the last history that the node kept, or the end of the present history if that is lower.
    kept_end: Point,
    /// The last version without a gap below it, by term; only terms above the floor have one.
    runs: BTreeMap<Term, u64>,
    /// Entries without a gap below them that are not digested yet.
    chain: VecDeque<Entry>,
    /// Entries after a gap: by term, then by the version before them.
    ahead: BTreeMap<Term, BTreeMap<u64, Entry>>,
    digested: Point,
    horizon: u64,
}

/// The fate of an entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The copy has everything up to this point.
    Contiguous(Point),
    /// The entry lies after a gap.
    Ahead,
    /// The entry is no news: known, digested, or without a record.
    Known,
    /// The entry lies above the cut of its term and never counts.
    Void,
}

/// An entry of a term that the node has not entered. A node enters the term of a connection before it accepts the
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found} was found in term {term}: the term of a connection is entered before its entries are read"
)]
pub struct LaterTerm {
    /// The entry.
    pub found: Point,
    /// The term of the copy.
    pub term: Term,
}

/// The history comes from a primary that this copy does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdopted {
    /// The history comes from another cluster, or from this cluster before its configuration was restored.
    #[error("the history is of cluster {found}, and this copy of cluster {known}")]
    OtherCluster {
        /// The cluster of the heir.
        found: Nonce,
        /// The cluster of the copy.
        known: Nonce,
    },
    /// A later heir's history has been adopted.
    #[error("the history is of term {found}, and this copy in term {known}")]
    EarlierTerm {
        /// The term of the heir.
        found: Term,
        /// The term of the copy.
        known: Term,
    },
    /// The heir has lost entries that were on all copies. The store deposes that heir: the configuration names another
    /// copy, and drops the heir.
    #[error(
        "the history ends at {found}, and everything up to version {horizon} was on all copies: another copy must take over"
    )]
    HeirLostEntries {
        /// The end of the heir's history.
        found: Point,
        /// The copy's horizon.
        horizon: u64,
    },
}

/// A copy has lost entries that it must have. The node must not lead the shard: it joins with an empty copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the copy ends at {found}, and everything up to version {needed} was on all copies: it must be filled anew"
)]
pub struct Incomplete {
    /// The last point without a gap below it.
    pub found: Point,
    /// The last version that the copy must have.
    pub needed: u64,
}

impl ShardCopy {
    /// The copy of `shard` with the history that the node kept, and nothing above its floor.
    pub fn new(shard: u32, lineage: Lineage) -> Self {
        Self {
            shard,
            digested: lineage.floor,
            horizon: lineage.floor.version,
            kept_end: lineage.end(),
            lineage,
            is_kept: true,
            runs: BTreeMap::new(),
            chain: VecDeque::new(),
            ahead: BTreeMap::new(),
        }
    }

    /// The copy after a start, made from the kept lineage and from all entries of the shard in memory.
    ///
    /// # Errors
    /// An entry has a later term than the node: the node answered in a term that the node had not made durable.
    pub fn recover(
        shard: u32,
        lineage: Lineage,
        found: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, LaterTerm> {
        let mut copy = Self::new(shard, lineage);
        for entry in found {
            copy.take(entry)?;
        }
        Ok(copy)
    }

    /// Takes an entry whose header and body are right.
    ///
    /// # Errors
    /// The entry has a later term, and nothing has changed.
    ///
    /// # Panics
    /// If the entry belongs to another shard.
    pub fn take(&mut self, entry: Entry) -> Result<Taken, LaterTerm> {
        assert_eq!(entry.shard, self.shard, "an entry of another shard");
        let point = entry.point();
        match self.lineage.judge(point) {
            Judgement::Counts => {}
            Judgement::Old if mutant!(ReplayCounts) && entry.kind == Kind::Record => {
                self.chain.push_back(entry);
                return Ok(Taken::Known);
            }
            Judgement::Old => return Ok(Taken::Known),
            Judgement::Void => return Ok(Taken::Void),
            Judgement::Later => {
                return Err(LaterTerm {
                    found: point,
                    term: self.lineage.term,
                });
            }
        }
        self.horizon = self.horizon.max(entry.horizon);
        if entry.kind == Kind::Record && mutant!(PlaceDecides) {
            let last = self.runs.entry(entry.term).or_default();
            *last = entry.version.max(*last);
            self.chain.retain(|known| known.point() != point);
            self.chain.push_back(entry);
            return Ok(Taken::Contiguous(self.end()));
        }
        if entry.kind == Kind::Horizon || point <= self.end() {
            return Ok(Taken::Known);
        }
        let before = match mutant!(CutByStream) {
            true => entry.version - 1,
            false => entry.previous,
        };
        let of_term = self.ahead.entry(entry.term).or_default();
        of_term.insert(before, entry);
        let before = self.end();
        self.advance();
        Ok(match self.end() {
            end if end == before => Taken::Ahead,
            end => Taken::Contiguous(end),
        })
    }

    /// Moves entries whose gap is filled to the chain.
    fn advance(&mut self) {
        while let Some(entry) = self.take_next() {
            self.runs.insert(entry.term, entry.version);
            self.chain.push_back(entry);
        }
        self.ahead.retain(|_, entries| !entries.is_empty());
    }

    /// The entry that follows the end, if the copy has it: an entry of the same term, or the first entry of a later
    /// term.
    fn take_next(&mut self) -> Option<Entry> {
        let end = self.end();
        let mut later = self.ahead.range_mut(end.term..);
        later.find_map(|(_, entries)| entries.remove(&end.version))
    }

    /// The last point without a gap below it.
    pub fn end(&self) -> Point {
        let last = self.runs.last_key_value();
        let end = last.map(|(&term, &version)| Point { term, version });
        end.unwrap_or_default().max(self.lineage.floor)
    }

    /// The version that the next entry of `term` follows: the last version of the term without a gap below it. A copy
    /// without such a version gives the end of the earlier terms, whose entries may still be missing.
    pub fn end_in(&self, term: Term) -> u64 {
        let before = self.lineage.cuts.range(..term).next_back();
        let before = before.map(|(&term, &version)| Point { term, version });
        let floor = self.lineage.floor;
        let begin = before.map_or(floor, |before| before.max(floor)).version;
        self.runs.get(&term).copied().unwrap_or(begin)
    }

    /// The point up to which everything was digested or published.
    pub fn digested(&self) -> Point {
        self.digested
    }

    /// The history by which entries are judged. The node keeps it durably.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Everything of the shard up to this version is persisted on all copies.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Notes that the primary of this copy knows that everything up to `horizon` is on all copies.
    pub(crate) fn raise_horizon(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Notes that the primary of this copy has published everything up to the horizon, which is how a primary digests.
    /// Another node still needs the entries above `kept`.
    pub(crate) fn published(&mut self, kept: u64) {
        let upto = self.horizon.min(kept);
        let published = self.chain.partition_point(|entry| entry.version <= upto);
        if let Some(last) = self.chain.drain(..published).next_back() {
            self.digested = last.point();
        }
    }

    /// The next entry to digest, each once and in the order of their history; `None`: the rest is not known to be on
    /// all copies.
    ///
    /// An index keeps no word for a deleted key, so an older entry must not come after a later one.
    pub fn digest(&mut self) -> Option<Entry> {
        let within = |entry: &Entry| entry.version <= self.horizon || mutant!(DigestBeyondHorizon);
        if mutant!(DigestAcrossTerms) {
            let newest = self.chain.iter().rev().find(|entry| within(entry))?.term;
            let first = self.chain.iter().position(|entry| entry.term == newest)?;
            return self.chain.remove(first);
        }
        let next = *self.chain.front().filter(|entry| within(entry))?;
        self.chain.pop_front();
        self.digested = self.digested.max(next.point());
        Some(next)
    }

    /// Entries that are not digested yet, in order. They are on this copy, and possibly nowhere else.
    pub(crate) fn undigested(&self) -> &VecDeque<Entry> {
        &self.chain
    }

    /// The lineage that the node keeps durably once everything that was digested is durable elsewhere. Entries up to
    /// the new floor may go as soon as that lineage is durable, and not before: without them, and below the old floor,
    /// a gap would hide everything that follows.
    ///
    /// `None`: the node has entered a term, and has not [kept](ShardCopy::kept) the history of that term. A floor would
    /// make that history durable before its entries.
    pub fn raised_floor(&self) -> Option<Lineage> {
        if !self.is_kept && !mutant!(FloorBeforeHistory) {
            return None;
        }
        let floor = match mutant!(FloorBeyondDigest) {
            true => self.end(),
            false => self.digested.max(self.lineage.floor),
        };
        let cuts = self.lineage.cuts.range(floor.term..);
        Some(Lineage {
            floor,
            cuts: cuts.map(|(&term, &last)| (term, last)).collect(),
            ..self.lineage
        })
    }

    /// Notes that the lineage that [`ShardCopy::raised_floor`] gave is durable. Returns whether entries up to its floor
    /// may go. `false`: the copy has entered a later term since, and the history of that term has the earlier floor.
    ///
    /// A node writes the lineages of a shard one after the other, so the lineage that was written last is the durable
    /// one.
    ///
    /// # Panics
    /// If the floor is above what was digested in the same term.
    pub fn floor_kept(&mut self, kept: Lineage) -> bool {
        if kept.term != self.lineage.term && !mutant!(FloorOfAnyTerm) {
            return false;
        }
        let digested = self.digested.max(self.lineage.floor);
        assert!(
            kept.floor <= digested || mutant!(FloorBeyondDigest),
            "a floor above what was digested"
        );
        self.runs.retain(|&term, _| term >= kept.floor.term);
        self.kept_end = kept.end();
        self.lineage = kept;
        true
    }

    /// The history that the node is to keep. The node makes the history durable after all entries that were found, and
    /// then confirms to the heir. `None`: the copy lacks entries that the heir has settled. A history that is durable
    /// before its entries would hide the loss of those entries.
    pub fn to_keep(&self) -> Option<&Lineage> {
        let is_whole = self.end() >= self.lineage.end();
        (is_whole || mutant!(LineageBeforeEntries)).then_some(&self.lineage)
    }

    /// Returns what [`ShardCopy::to_keep`] returns, for use after the last entry of an heir's letter.
    ///
    /// # Errors
    /// The copy lacks entries that the heir does not send, because they were on all copies. The copy informs the heir,
    /// which has the configuration drop the copy ([`Takeover::lacks`](crate::Takeover::lacks)).
    pub fn all_came(&self) -> Result<&Lineage, Incomplete> {
        self.to_keep().ok_or_else(|| Incomplete {
            found: self.end(),
            needed: self.lineage.end().version,
        })
    }

    /// Notes that the history that [`ShardCopy::to_keep`] gave in `term` is durable. A call for another term has no
    /// effect: the copy has entered a later term since.
    pub fn kept(&mut self, term: Term) {
        if term == self.lineage.term {
            self.is_kept = true;
            self.kept_end = self.lineage.end();
        }
    }

    /// The last version that this copy must have: everything up to there was on all copies, or in a history that this
    /// copy has kept. An heir that adopted a history and did not get its entries may lead without them: that history
    /// was not settled. A start reports this version as the horizon of the copy.
    pub fn needed(&self) -> u64 {
        let kept = match mutant!(AdoptedHistoryCounts) {
            true => self.lineage.end(),
            false => self.kept_end,
        };
        kept.version.max(self.horizon)
    }

    /// Checks that the copy has everything that was on all copies, as far as the copy knows. The caller has taken all
    /// entries in memory before.
    ///
    /// # Errors
    /// The copy has lost entries.
    pub fn is_complete(&self) -> Result<(), Incomplete> {
        let found = self.end();
        let needed = self.needed();
        if found.version < needed && !mutant!(LostCutLeads) {
            return Err(Incomplete { found, needed });
        }
        Ok(())
    }

    /// The lineage of a joiner that pulls everything up to `begin`, and to which the primary appends everything above.
    ///
    /// The floor is the point of an entry, even if `begin` was settled in an earlier term: a copy with a lower floor
    /// must find that entry in its memory.
    pub(crate) fn lineage_of_joiner(&self, begin: u64) -> Lineage {
        let appended = self.chain.partition_point(|entry| entry.version <= begin);
        let below = self.chain.range(..appended).next_back();
        Lineage {
            floor: below.map_or(self.digested, Entry::point),
            cuts: BTreeMap::new(),
            ..self.lineage
        }
    }

    /// The number of the shard.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// Closes all terms before `term`, by the node's own log: of those terms everything without a gap counts from now
    /// on, and nothing else.
    pub(crate) fn close(&mut self, term: Term) {
        self.lineage.term = term;
        self.lineage.cuts = self.runs.clone();
        self.is_kept = false;
        self.ahead.clear();
    }

    /// Enters the term of an heir with the heir's history: entries that the heir lacks are void, and entries that this
    /// copy lacks come from the heir.
    ///
    /// # Errors
    /// The history comes from another cluster or an earlier heir, or the heir lacks entries that were on all copies.
    /// Nothing has changed.
    pub fn adopt(&mut self, heir: &Lineage) -> Result<(), NotAdopted> {
        self.check_heir(heir)?;
        let adopted = self.lineage.adopted(heir);
        self.is_kept &= adopted == self.lineage;
        self.lineage = adopted;
        // An entry that the heir lacks was never on all copies.
        self.kept_end = self.kept_end.min(self.lineage.end());
        let lineage = &self.lineage;
        if !mutant!(SuffixKept) {
            self.runs.retain(|term, last| match lineage.cuts.get(term) {
                Some(&cut) => {
                    *last = cut.min(*last);
                    true
                }
                None => *term == lineage.term,
            });
        }
        let counts = |entry: &Entry| lineage.judge(entry.point()) == Judgement::Counts;
        self.chain.retain(counts);
        self.ahead
            .values_mut()
            .for_each(|entries| entries.retain(|_, entry| counts(entry)));
        self.advance();
        Ok(())
    }

    fn check_heir(&self, heir: &Lineage) -> Result<(), NotAdopted> {
        let known = &self.lineage;
        if heir.nonce != known.nonce {
            return Err(NotAdopted::OtherCluster {
                found: heir.nonce,
                known: known.nonce,
            });
        }
        if heir.term < known.term {
            return Err(NotAdopted::EarlierTerm {
                found: heir.term,
                known: known.term,
            });
        }
        let found = heir.end();
        let is_short = found.version < self.horizon || found < self.digested;
        // A history of the present term was adopted, and its primary has raised the horizon since.
        if heir.term > known.term && is_short && !mutant!(ShortHistoryAdopted) {
            return Err(NotAdopted::HeirLostEntries {
                found,
                horizon: self.horizon,
            });
        }
        Ok(())
    }
}

impl Entry {
    /// The place of the entry in the history of its shard.
    pub fn point(&self) -> Point {
        Point {
            term: self.term,
            version: self.version,
        }
    }
}
