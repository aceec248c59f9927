//! The server's time, with which the expiry of keys is compared.
//!
//! ```text
//!   wall clock  --followed, no faster than 1 in 2048--> time --> min --> now: the time of every comparison
//!   clock       --continues at its pace--------------^           ^
//!                                                          mark, durable
//! ```
//!
//! The time advances with the clock of the process, which cannot be set, and follows the wall clock only slowly:
//! clients carry the time forward by their own clocks, and must not fall behind by more than the declared drift. The
//! mark lies in the pool. The server's time never exceeds the mark, and after a restart begins at the mark or above. A
//! later question thus gets the same time or a later one, also after a crash and with a wall clock that was set back.
//!
//! The mark is raised ahead, by [`STEP_MS`], and only on a request: a server that keeps no expiry writes nothing.
//!
//! On a node of a cluster each shard has a time of its own ([`ShardTime`]), whose mark is on all copies of the shard.
//! The mark in the pool is then at or above the marks of all shards, and an earlier one of a shard is not needed after
//! a restart.

mod flow;
mod shard;

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_fabric::Runtime;
use stonecast_log::Expiry;
use stonecast_media::{MediaError, Pool, TimeMark};

use flow::RunningTime;
use shard::ShardTime;

/// Time by which the mark is raised ahead. After a crash, keys expire that much too early at most, and the header of
/// the pool is written once in half that time at most.
const STEP_MS: u64 = 10_000;

/// The reason why a server does not report its time.
pub(super) enum NoTime {
    /// The mark that is needed is on its way to all copies.
    OnItsWay,
    /// The medium did not keep the mark.
    NotKept(Box<MediaError>),
}

impl From<MediaError> for NoTime {
    fn from(error: MediaError) -> Self {
        Self::NotKept(Box::new(error))
    }
}

/// A judgement about a key with an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPresence {
    Present,
    /// The moment has passed, permanently.
    Absent,
    /// The moment has come, and not all copies know that yet.
    OnItsWay,
}

/// The time of a server.
pub(super) struct ServerTime {
    runtime: Rc<dyn Runtime>,
    mark: TimeMark,
    /// The time of a server that is alone.
    flow: RunningTime,
    /// The times of the shards of a node; none: the server is alone.
    of_shards: Vec<ShardTime>,
}

impl ServerTime {
    /// The time of the server of `pool`.
    pub fn new(pool: &Pool, runtime: Rc<dyn Runtime>) -> Self {
        let mark = pool.time_mark();
        let least_ms = match mutant!(TimeMarkForgotten) {
            true => 0,
            false => mark.load().unwrap_or(0),
        };
        Self {
            flow: RunningTime::from(least_ms, &*runtime),
            of_shards: Vec::new(),
            mark,
            runtime,
        }
    }

    /// Gives each of the `shards` of a node a time of its own. A predecessor may have told each of them up to the mark
    /// of the pool.
    pub fn of_node(&mut self, shards: u32) {
        let least_ms = match mutant!(TimeMarkForgotten) {
            true => 0,
            false => self.mark.load().unwrap_or(0),
        };
        let times = (0..shards).map(|_| ShardTime::after(least_ms));
        self.of_shards = times.collect();
    }

    /// Whether records of the pool may have an expiry.
    pub fn is_used(&self) -> bool {
        self.mark.load().is_some()
    }

    /// Lets records of the pool have an expiry, durably.
    ///
    /// # Errors
    /// The medium failed.
    pub fn let_expire(&self) -> Result<(), MediaError> {
        self.mark.raise(1)
    }

    /// The time of a shard in milliseconds since 1970: a key that has expired by then is permanently absent. Without a
    /// mark, no key has an expiry.
    pub fn now_ms(&self, shard: u32) -> u64 {
        let Some(mark) = self.mark.load() else {
            return 0;
        };
        if let Some(time) = self.of_shards.get(shard as usize) {
            return time.now_ms(&*self.runtime);
        }
        let time = self.flow.advance(&*self.runtime);
        match mutant!(TimeBeyondMark) {
            true => time,
            false => time.min(mark),
        }
    }

    /// The time of a shard in milliseconds without regard to the mark. Nothing is absent because of this time alone.
    pub fn running_ms(&self, shard: u32) -> u64 {
        match self.of_shards.get(shard as usize) {
            _ if !self.is_used() => 0,
            Some(time) => time.running_ms(&*self.runtime),
            None => self.flow.advance(&*self.runtime),
        }
    }

    /// Whether a key of `shard` that expires at that moment is present. Raises the mark if only the mark prevents the
    /// answer.
    pub fn judge(&self, shard: u32, expires: Expiry) -> KeyPresence {
        if expires.has_come(self.now_ms(shard)) {
            return KeyPresence::Absent;
        }
        if !expires.has_come(self.running_ms(shard)) {
            return KeyPresence::Present;
        }
        match self.ask(shard) {
            Ok((now_ms, _)) if expires.has_come(now_ms) => KeyPresence::Absent,
            Err(NoTime::OnItsWay) => KeyPresence::OnItsWay,
            Ok(_) | Err(NoTime::NotKept(_)) => KeyPresence::Present,
        }
    }

    /// The time of a shard, and the mark that it does not exceed before the mark is raised again. Raises the mark,
    /// durably, if the time comes near.
    pub fn ask(&self, shard: u32) -> Result<(u64, u64), NoTime> {
        if let Some(time) = self.of_shards.get(shard as usize) {
            return time.ask(&*self.runtime).ok_or(NoTime::OnItsWay);
        }
        let time = self.flow.advance(&*self.runtime);
        let is_near = |mark: u64| mark < time + STEP_MS / 2;
        if self.mark.load().is_none_or(is_near) && !(mutant!(TimeBeyondMark) && self.is_used()) {
            let raised = self.mark.raise(time + STEP_MS);
            raised.map_err(NoTime::from)?;
        }
        Ok((self.now_ms(shard), self.mark.load().unwrap_or(0)))
    }

    /// The time that has permanently passed in a shard. On a node that leads the shard, raises the mark if the time
    /// comes near.
    pub fn now_of(&self, shard: u32) -> Result<u64, NoTime> {
        let is_copy = |time: &ShardTime| !time.is_led();
        if self.of_shards.get(shard as usize).is_some_and(is_copy) {
            return Ok(self.now_ms(shard));
        }
        self.ask(shard).map(|(now_ms, _)| now_ms)
    }

    /// Begins to lead a shard as a node.
    pub fn lead(&mut self, shard: u32) {
        let Self {
            runtime, of_shards, ..
        } = self;
        of_shards[shard as usize].lead(&**runtime);
    }

    /// Notes that this node no longer leads the shard.
    pub fn resign(&mut self, shard: u32) {
        let Self {
            runtime, of_shards, ..
        } = self;
        of_shards[shard as usize].resign(&**runtime);
    }

    /// The marks that are to be stamped now, each with its shard. The pool of this node keeps them already.
    ///
    /// # Errors
    /// The medium did not keep a mark, which is due again at the next request.
    pub fn take_due(&self) -> Result<Vec<(u32, Expiry)>, MediaError> {
        let mut due = Vec::new();
        for (shard, time) in (0..).zip(&self.of_shards) {
            let mark = time.take_due(&*self.runtime).and_then(Expiry::at_ms);
            due.extend(mark.map(|mark| (shard, mark)));
        }
        if let Some(highest) = due.iter().map(|&(_, mark)| mark.ms()).max() {
            self.mark.raise(highest)?;
        }
        Ok(due)
    }

    /// Notes that the record of a mark of `shard` was stamped here.
    pub fn note_stamped(&self, shard: u32, mark: Expiry) {
        self.of_shards[shard as usize].note_stamped(mark.ms());
    }

    /// Notes a mark of `shard` whose record is on all copies. The pool keeps the mark from now on.
    ///
    /// # Errors
    /// The medium did not keep the mark.
    pub fn note_settled(&self, shard: u32, mark: Expiry) -> Result<(), MediaError> {
        if !mutant!(MarkOfCopyForgotten) {
            self.mark.raise(mark.ms())?;
        }
        self.of_shards[shard as usize].note_settled(mark.ms());
        Ok(())
    }

    /// Notes the highest mark that the primary of `shard` may have told, as a page says. The pool keeps it from now on.
    ///
    /// # Errors
    /// The medium did not keep the mark.
    pub fn note_of_page(&self, shard: u32, mark_ms: u64) -> Result<(), MediaError> {
        self.mark.raise(mark_ms)?;
        self.of_shards[shard as usize].raise_least(mark_ms);
        Ok(())
    }

    /// The highest mark that may have been told for `shard`; 0: none.
    pub fn told_ms(&self, shard: u32) -> u64 {
        let time = self.of_shards.get(shard as usize);
        time.map_or(0, ShardTime::least_ms)
    }

    /// Notes that a key of `shard` that expired at `moment_ms` was removed: the copies learn that the moment has
    /// passed.
    pub fn note_removed(&self, shard: u32, moment_ms: u64) {
        if let Some(time) = self.of_shards.get(shard as usize) {
            time.note_removed(moment_ms);
        }
    }

    /// Whether nothing that has expired can be removed from `shard` before a mark is on all copies.
    pub fn awaits_copies(&self, shard: u32) -> bool {
        let time = self.of_shards.get(shard as usize);
        time.is_some_and(|time| time.awaits_copies(&*self.runtime))
    }
}
