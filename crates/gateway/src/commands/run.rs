//! Runs a batch of commands step by step, and writes the replies in the order of the commands.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use stonecast_base::Nanoseconds;

use super::batch::Run;
use super::control;
use super::error::CommandError;
use super::operation::{Arguments, Control, Operation};
use super::permission;
use super::reply::{Replies, Reply};
use super::session::Session;
use super::step::{Step, StepKeys, next_step, values_returned, write_unit};
use super::table::Spec;
use super::transaction::queue;
use super::write::{self, Outcome};
use crate::counters::{Counters, Kind};
use crate::join::in_order;
use crate::outlet::End;
use crate::sizes::{KEY_WORK, SMALL_REPLIES, VALUES_SIZE_MAX};
use crate::slow_log::{Slow, shortened};

/// Runs a batch. `specs` has the table's entry of each operation, or `None` for an unknown command.
pub async fn run_batch<'a>(
    run: &mut Run<'_, 'a>,
    specs: &[Option<&'static Spec>],
    keys: &mut StepKeys,
) -> Result<(), End> {
    let counters = run.context.thread.counters.clone();
    counters.batches.add(1);
    let (mut start, mut began_at) = (0, run.context.thread.runtime.now());
    // The user may run the earlier commands.
    let mut permitted = 0;
    while start < run.operations.len() {
        let acl = &run.context.thread.shared.secrets.acl;
        let Some(has_changed) = run.session.follow(acl) else {
            return Err(End::Answered);
        };
        if !run.session.is_authenticated && !may_come_before_the_password(specs[start]) {
            run.reply(&Reply::Error(CommandError::PasswordMissing));
            start += 1;
            continue;
        }
        if has_changed || start >= permitted {
            permitted = permitted_until(run, specs, start);
        }
        let arguments = run.arguments(start);
        let at_once = match start == permitted {
            true => Some(refuse(run.session, specs[start], arguments)),
            false => queue(run.session, specs[start], &run.operations[start], arguments),
        };
        if let Some(reply) = at_once {
            run.reply(&reply);
            start += 1;
            continue;
        }
        let step = next_step(&run.operations[..permitted], start, keys);
        let (kind, end) = match &step {
            Step::Reads(range) => (Kind::Read, range.end),
            Step::Writes(range) => (Kind::Write, range.end),
            Step::Alone(index) => (Kind::Other, index + 1),
        };
        count_commands(&counters, &specs[start..end]);
        match step {
            Step::Reads(range) => run.reads(range).await?,
            Step::Writes(range) => run.writes(range, keys).await?,
            Step::Alone(index) => {
                let alone = &run.operations[index..=index];
                run.session.written.note(alone, &run.context.store);
                let Operation::Control(control) = &run.operations[index] else {
                    unreachable!("only these stand alone")
                };
                let user = run.session.user().clone();
                run.control(control).await?;
                if !Arc::ptr_eq(&user, run.session.user()) {
                    permitted = 0;
                }
            }
        }
        let now = run.context.thread.runtime.now();
        let took = now.saturating_sub(run.arrived_at);
        counters.latencies[kind as usize].note(took, (end - start) as u64);
        note_if_slow(run, start, now.saturating_sub(began_at));
        began_at = now;
        start = end;
        if run.context.store.is_lost() {
            return Err(End::Store);
        }
    }
    Ok(())
}

/// The reply to a command that the session's user may not run. It breaks a transaction, as other errors do.
fn refuse(
    session: &mut Session,
    spec: Option<&'static Spec>,
    arguments: Arguments<'_>,
) -> Reply<'static> {
    session.transaction.break_up();
    let refused = permission::refusal(session, spec, arguments);
    refused
        .expect("the first command that is not permitted")
        .into()
}

/// The number of the first command from `start` on that the user may not run.
fn permitted_until(run: &Run<'_, '_>, specs: &[Option<&'static Spec>], start: usize) -> usize {
    let end = run.operations.len();
    if run.session.user().may_do_everything() {
        return end;
    }
    let is_refused = |&index: &usize| {
        let arguments = run.arguments(index);
        permission::refusal(run.session, specs[index], arguments).is_some()
    };
    (start..end).find(is_refused).unwrap_or(end)
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

/// Notes the step that begins with command number `start` if it took long. Passwords are not noted.
fn note_if_slow(run: &Run<'_, '_>, start: usize, took: Nanoseconds) {
    if !run.context.thread.shared.slow_log.is_slow(took) {
        return;
    }
    let is_secret = match &run.operations[start] {
        Operation::Control(Control::Auth(_) | Control::Hello(_)) => true,
        Operation::Control(Control::Acl(command)) => command.is_secret(),
        _ => false,
    };
    let arguments = run.arguments(start);
    let shown = if is_secret { 1 } else { arguments.len() };
    let thread = &run.context.thread;
    thread.shared.slow_log.note(Slow {
        at_s: thread.runtime.wall_clock() / 1_000_000_000,
        took_us: took / 1000,
        arguments: shortened(arguments.iter().take(shown)),
        peer: run.session.card.peer,
        name: run.session.name.clone(),
    });
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
    /// Reserves memory for the replies of a step of writes. Returns the most bytes of each reply that returns a value;
    /// `None`: memory was lacking, and each operation was answered with that error.
    async fn room_for_replies(
        &mut self,
        operations: &[Operation<'a>],
    ) -> Result<Option<usize>, End> {
        let answers: usize = operations.iter().map(Operation::answer_size).sum();
        if answers > SMALL_REPLIES && !self.outlet.room(answers).await? {
            for _ in operations {
                self.reply(&Reply::Error(CommandError::NoRoomForReplies));
            }
            return Ok(None);
        }
        let values = values_returned(operations);
        if values == 0 {
            return Ok(Some(0));
        }
        let room = match self.outlet.try_room(answers + VALUES_SIZE_MAX) {
            true => VALUES_SIZE_MAX,
            false => SMALL_REPLIES,
        };
        Ok(Some(room / values))
    }

    /// Runs the operations of a step of writes, all in flight together.
    async fn writes(&mut self, range: Range<usize>, keys: &StepKeys) -> Result<(), End> {
        let operations = &self.operations[range];
        let Some(room) = self.room_for_replies(operations).await? else {
            return Ok(());
        };
        self.session.written.note(operations, &self.context.store);
        let (context, units) = (self.context, units(operations));
        let mut outcomes: SmallVec<[Outcome<'a>; 1]> = SmallVec::with_capacity(units.len());
        if keys.comes_again() {
            let next = write::next_of_same_key(&units);
            let futures = units.iter().zip(&next).map(|(&unit, next)| async move {
                match next {
                    Some(_) => write::overwrite(context, unit).await,
                    None => write::write_unit(context, unit, room).await,
                }
            });
            in_order(futures, |outcome| outcomes.push(outcome)).await;
            write::settle(&units, &next, &mut outcomes);
        } else {
            let futures = units
                .iter()
                .map(|&unit| write::write_unit(context, unit, room));
            in_order(futures, |outcome| outcomes.push(outcome)).await;
        }
        for (unit, outcome) in units.iter().zip(outcomes) {
            let replies = self.finish(unit, outcome).await?;
            replies.iter().for_each(|reply| self.reply(reply));
        }
        self.outlet.note_work(units.len() * KEY_WORK);
        self.outlet.relieve().await
    }

    /// Returns the replies of a unit. If the replies were longer than there was room for, waits for room and runs the
    /// unit again.
    async fn finish(
        &mut self,
        unit: &[Operation<'a>],
        mut outcome: Outcome<'a>,
    ) -> Result<Replies<'a>, End> {
        loop {
            let needed = match outcome {
                Outcome::Answered(replies) | Outcome::LeftToNext(replies) => return Ok(replies),
                Outcome::NeedsRoom(needed) => needed,
            };
            if !self.outlet.room(needed).await? {
                return Ok(write::failed(unit, &CommandError::NoRoomForReplies));
            }
            outcome = write::write_unit(self.context, unit, needed).await;
        }
    }

    async fn control(&mut self, control: &Control<'a>) -> Result<(), End> {
        if let Err(error) = control::run(self, control).await? {
            self.reply(&Reply::Error(error));
        }
        self.outlet.relieve().await
    }
}
