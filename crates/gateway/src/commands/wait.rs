//! `WAIT` and `WAITAOF`: the copies of a connection's writes, and the copies that survive power loss.
//!
//! A write that was acknowledged is on all copies that are in sync, and a copy comes into sync only with all of them.
//! The configuration of the cluster, read after the command has come, therefore says how many copies the writes of the
//! connection have. The commands wait until it names enough, or for their time limit. A server that is alone never has
//! another copy, so there they do not wait.

use stonecast_base::Nanoseconds;

use super::batch::Run;
use super::error::CommandError;
use super::operation::{Control, Operation};
use super::options::{integer, positive};
use super::store::Store;
use crate::commands::operation::Arguments;
use crate::outlet::End;

/// The pause between two looks at the configuration.
const LOOK_NS: Nanoseconds = 50_000_000;

/// The copies for which a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Whether only copies count that survive power loss, and the local one is reported, too.
    of_disks: bool,
    /// Copies beside that of the primary.
    replicas: i64,
    /// 0: without limit.
    timeout_ms: i64,
}

impl Wait {
    /// `WAIT replicas timeout`.
    pub fn of_copies(arguments: Arguments<'_>) -> Result<Self, CommandError> {
        Ok(Self {
            of_disks: false,
            // As in Redis, a negative number asks for no copies.
            replicas: integer(arguments.at(0))?,
            timeout_ms: timeout(arguments.at(1))?,
        })
    }

    /// `WAITAOF local replicas timeout`. The local copy is as durable as it will ever be, so nothing waits for it.
    pub fn of_disks(arguments: Arguments<'_>) -> Result<Self, CommandError> {
        let local = integer(arguments.at(0))?;
        if !(0..=1).contains(&local) {
            return Err(CommandError::Refused(
                "value is out of range, must be between 0 and 1",
            ));
        }
        Ok(Self {
            of_disks: true,
            replicas: positive(arguments.at(1))?,
            timeout_ms: timeout(arguments.at(2))?,
        })
    }
}

fn timeout(text: &[u8]) -> Result<i64, CommandError> {
    let timeout_ms = integer(text)
        .map_err(|_| CommandError::Refused("timeout is not an integer or out of range"))?;
    match timeout_ms {
        negative if negative < 0 => Err(CommandError::Refused("timeout is negative")),
        timeout_ms => Ok(timeout_ms),
    }
}

/// The shards to which a connection has written, as bits. Empty: none, or the store is no cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenShards(u32);

impl WrittenShards {
    /// Notes the keys that `operations` may write.
    pub fn note(&mut self, operations: &[Operation<'_>], store: &Store) {
        if store.is_alone() {
            return;
        }
        let mut bits = self.0;
        let mut note = |key: &[u8]| bits |= 1 << store.shard_of(key);
        let mut are_all = false;
        for operation in operations {
            match operation {
                Operation::Value { key, .. } => note(key),
                Operation::DeleteMany(keys) => keys.iter().for_each(&mut note),
                Operation::SetMany(pairs) | Operation::SetManyIfAbsent(pairs) => {
                    pairs.iter().step_by(2).for_each(&mut note)
                }
                Operation::Transfer(transfer) => {
                    note(transfer.from);
                    note(transfer.to);
                }
                Operation::Control(Control::Flush) => are_all = true,
                // These write nothing. `EXEC` notes the commands of its transaction.
                Operation::GetMany(_)
                | Operation::CountMany(_)
                | Operation::Answer(_)
                | Operation::Control(_) => {}
            }
        }
        self.0 = if are_all { u32::MAX } else { bits };
    }

    /// The numbers of the shards; none stand for all.
    fn numbers(self) -> Vec<u32> {
        match self.0 {
            u32::MAX => Vec::new(),
            bits => (0..u32::BITS).filter(|at| bits >> at & 1 == 1).collect(),
        }
    }
}

/// Waits for copies of the connection's writes, and answers with their number. The inner error is the reply to the
/// client.
pub async fn wait(run: &mut Run<'_, '_>, wait: Wait) -> Result<Result<(), CommandError>, End> {
    // Earlier replies must not wait for this one.
    run.outlet.send()?;
    let (store, runtime) = (&run.context.store, run.context.thread.runtime.clone());
    let shards = run.session.written.numbers();
    let limit = u64::try_from(wait.timeout_ms).unwrap_or_default();
    let deadline = match limit {
        0 => Nanoseconds::MAX,
        limit => runtime
            .now()
            .saturating_add(limit.saturating_mul(1_000_000)),
    };
    let copies = loop {
        let copies = match run.outlet.unless_cut(store.copies(&shards)).await? {
            Ok(copies) => copies,
            Err(error) => return Ok(Err(error)),
        };
        let found = match wait.of_disks {
            true => copies.backups_that_survive_power,
            false => copies.backups,
        };
        let now = runtime.now();
        if i64::from(found) >= wait.replicas || store.is_alone() || now >= deadline {
            break copies;
        }
        let pause = runtime.sleep_until(deadline.min(now.saturating_add(LOOK_NS)));
        run.outlet.unless_cut(pause).await?;
        // A limit of 0 would otherwise keep the connection forever.
        if run
            .context
            .thread
            .shared
            .clients
            .has_left(run.session.card.id)
        {
            return Err(End::Peer);
        }
    };
    let mut writer = run.writer();
    if wait.of_disks {
        writer.array(2);
        writer.integer(copies.primary_survives_power.into());
        writer.integer(copies.backups_that_survive_power.into());
    } else {
        writer.integer(copies.backups.into());
    }
    Ok(Ok(()))
}
