//! Does a batch of commands step by step, and writes the replies in the order of the commands.

use std::ops::Range;

use smallvec::SmallVec;
use stonecast_base::Nanoseconds;
use stonecast_kv::limits;

use super::context::Context;
use super::control;
use super::error::CommandError;
use super::operation::{Control, Operation};
use super::reply::Reply;
use super::session::Session;
use super::step::{Keys, Step, next_step, values_returned, write_unit};
use super::table::Spec;
use super::transaction::refusal;
use super::write::{self, Overwritten};
use crate::connection::{End, Outlet};
use crate::counters::{Counters, Kind};
use crate::join::in_order;
use crate::resp::ReplyWriter;

/// Replies that are written without a reservation, bytes: numbers, errors, short answers.
pub(super) const SMALL_REPLIES: usize = 16 << 10;

/// A batch under way.
pub struct Run<'r, 'a> {
    /// What all connections of this thread share.
    pub context: &'r Context,
    /// The connection's state.
    pub session: &'r mut Session,
    /// Where replies go.
    pub outlet: &'r mut Outlet,
    /// The commands.
    pub operations: &'r [Operation<'a>],
    /// When they arrived.
    pub arrived_at: Nanoseconds,
}

/// Does a batch. `specs` has the table's entry of each operation, none for unknown commands.
pub async fn run_batch<'a>(
    run: &mut Run<'_, 'a>,
    specs: &[Option<&'static Spec>],
    keys: &mut Keys,
) -> Result<(), End> {
    let counters = run.context.counters.clone();
    counters.batches.add(1);
    let mut start = 0;
    while start < run.operations.len() {
        if !run.session.is_authenticated && !may_come_before_the_password(specs[start]) {
            run.reply(&Reply::Error(CommandError::PasswordMissing));
            start += 1;
            continue;
        }
        if run.session.is_in_refused_transaction
            && let Some(refusal) = refusal(run.session, specs[start], &run.operations[start])
        {
            run.reply(&refusal);
            start += 1;
            continue;
        }
        let step = next_step(run.operations, start, keys);
        let (kind, end) = match &step {
            Step::Reads(range) => (Kind::Read, range.end),
            Step::Writes(range) => (Kind::Write, range.end),
            Step::Alone(index) => (Kind::Other, index + 1),
        };
        count_commands(&counters, &specs[start..end]);
        match step {
            Step::Reads(range) => run.reads(range).await?,
            Step::Writes(range) if keys.comes_again() => run.overlapping_writes(range).await?,
            Step::Writes(range) => run.writes(range).await?,
            Step::Alone(index) => {
                let Operation::Control(control) = &run.operations[index] else {
                    unreachable!("only these stand alone")
                };
                run.control(control).await?;
            }
        }
        let took = run.context.runtime.now().saturating_sub(run.arrived_at);
        counters.latencies[kind as usize].note(took, (end - start) as u64);
        start = end;
        if run.context.store.is_lost() {
            return Err(End::Store);
        }
    }
    Ok(())
}

/// Cuts a step of writes into units.
fn units<'o, 'a>(operations: &'o [Operation<'a>]) -> SmallVec<[&'o [Operation<'a>]; 4]> {
    let mut units = SmallVec::new();
    let mut start = 0;
    while start < operations.len() {
        let end = write_unit(operations, start).map_or(start + 1, |(_, end)| end);
        units.push(&operations[start..end]);
        start = end;
    }
    units
}

fn count_commands(counters: &Counters, specs: &[Option<&'static Spec>]) {
    for spec in specs.iter().flatten() {
        counters.commands[spec.id as usize].add(1);
    }
}

fn may_come_before_the_password(spec: Option<&Spec>) -> bool {
    spec.is_some_and(|spec| spec.has("no_auth"))
}

impl<'a> Run<'_, 'a> {
    /// Where replies are written.
    pub(super) fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter {
            output: self.outlet.output(),
            protocol: self.session.protocol,
        }
    }

    /// Writes a reply.
    pub(super) fn reply(&mut self, reply: &Reply<'_>) {
        self.context
            .counters
            .failures
            .add(u64::from(matches!(reply, Reply::Error(_))));
        reply.write(&mut self.writer());
    }

    /// Reserves memory for the replies of a step of writes. False: there is none, and each was answered so.
    async fn has_room(&mut self, range: &Range<usize>) -> Result<bool, End> {
        let operations = &self.operations[range.clone()];
        let answers: usize = operations.iter().map(Operation::answer_size).sum();
        let values = values_returned(operations) * limits::VALUE_SIZE_MAX;
        if answers + values <= SMALL_REPLIES || self.outlet.room(answers + values).await? {
            return Ok(true);
        }
        for _ in operations {
            self.reply(&Reply::Error(CommandError::NoRoomForReplies));
        }
        Ok(false)
    }

    /// Does the operations of a step of writes, all under way together.
    async fn writes(&mut self, range: Range<usize>) -> Result<(), End> {
        if !self.has_room(&range).await? {
            return Ok(());
        }
        let store = &self.context.store;
        let units = units(&self.operations[range]);
        let futures = units.iter().map(|&unit| async move {
            match unit {
                [Operation::Answer(_)] => (unit, None),
                _ => (unit, Some(write::write_unit(store, unit).await)),
            }
        });
        in_order(futures, |outcome| match outcome {
            (_, Some(replies)) => replies.iter().for_each(|reply| self.reply(reply)),
            ([Operation::Answer(reply)], None) => self.reply(reply),
            _ => unreachable!("each unit answers"),
        })
        .await;
        self.outlet.relieve().await
    }

    /// As `writes`, where a key comes more than once, each time to be overwritten.
    async fn overlapping_writes(&mut self, range: Range<usize>) -> Result<(), End> {
        if !self.has_room(&range).await? {
            return Ok(());
        }
        let store = &self.context.store;
        let units = units(&self.operations[range]);
        let next = write::next_of_same_key(&units);
        let futures = units.iter().zip(&next).map(|(&unit, next)| async move {
            match unit {
                [Operation::Answer(_)] => Overwritten::default(),
                _ if next.is_some() => write::overwrite(store, unit).await,
                _ => Overwritten {
                    replies: write::write_unit(store, unit).await,
                    is_left_to_next: false,
                },
            }
        });
        let mut outcomes = Vec::with_capacity(units.len());
        in_order(futures, |outcome| outcomes.push(outcome)).await;
        write::settle(&units, &next, &mut outcomes);
        for (unit, outcome) in units.iter().zip(&outcomes) {
            match unit {
                [Operation::Answer(reply)] => self.reply(reply),
                _ => outcome.replies.iter().for_each(|reply| self.reply(reply)),
            }
        }
        self.outlet.relieve().await
    }

    async fn control(&mut self, control: &Control<'a>) -> Result<(), End> {
        if let Err(error) = control::run(self, control).await? {
            self.reply(&Reply::Error(error));
        }
        self.outlet.relieve().await
    }
}
