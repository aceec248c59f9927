//! Transactions: `WATCH`, and the commands between `MULTI` and `EXEC`.
//!
//! ```text
//!   WATCH a b            their versions
//!   MULTI
//!   SET c 1, INCR a      QUEUED, each; a command with an error in it breaks the transaction
//!   EXEC                 exec.rs: done as a whole, nil if a watched key has another version, EXECABORT if it is broken
//!   DISCARD, RESET       it has ended
//! ```
//!
//! In a cluster all keys of a transaction, watched ones included, are of one shard: `EXEC` refuses others, as Redis
//! Cluster does, and nothing is done.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::rc::Rc;

use stonecast_kv::limits::BATCH_SIZE_MAX;

use super::error::CommandError;
use super::operation::{Arguments, Control, Operation};
use super::permission;
use super::reply::Reply;
use super::session::Session;
use super::table::Spec;
use crate::acl::User;

/// The most commands of a transaction.
const COMMANDS_MAX: usize = 16_384;
/// The most bytes of the commands of a transaction: more than a batch of the store may have.
const SIZE_MAX: usize = 2 * BATCH_SIZE_MAX;
/// The most bytes of all transactions of a thread that wait for their `EXEC`.
const QUEUED_MAX: usize = 32 << 20;
/// Bytes of an argument beside its content.
const ARGUMENT_SIZE: usize = 16;
/// The most keys that a connection watches.
pub const WATCHED_MAX: usize = 1024;

/// The watched keys, with their versions when they were watched; `None`: absent.
pub type Watched = BTreeMap<Vec<u8>, Option<u64>>;

/// The transaction of a connection.
#[derive(Default)]
pub struct Transaction {
    open: Option<QueuedCommands>,
    pub watched: Watched,
}

/// The commands after `MULTI`.
#[derive(Default)]
pub struct QueuedCommands {
    /// Whether a command had an error in it.
    is_broken: bool,
    bytes: Vec<u8>,
    commands: Vec<(&'static Spec, Vec<Range<u32>>)>,
    share: QueueShare,
}

/// The bytes of a queue among those of all queues of the thread.
#[derive(Default)]
struct QueueShare {
    size: usize,
    of_thread: Rc<Cell<usize>>,
}

impl QueueShare {
    /// Adds `size` bytes, if there is room for them.
    fn grow(&mut self, size: usize) -> bool {
        let fits = self.size + size <= SIZE_MAX && self.of_thread.get() + size <= QUEUED_MAX;
        if fits {
            self.size += size;
            self.of_thread.set(self.of_thread.get() + size);
        }
        fits
    }
}

impl Drop for QueueShare {
    fn drop(&mut self) {
        self.of_thread.set(self.of_thread.get() - self.size);
    }
}

impl Transaction {
    /// Begins a transaction. `queued` counts the bytes of the thread's transactions.
    pub fn begin(&mut self, queued: &Rc<Cell<usize>>) {
        let of_thread = queued.clone();
        self.open = Some(QueuedCommands {
            share: QueueShare { size: 0, of_thread },
            ..QueuedCommands::default()
        });
    }

    /// Notes that a command of the transaction was refused, if there is a transaction.
    pub fn break_up(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_broken = true;
        }
    }

    /// Ends the transaction, and returns its commands with the watched keys; `None`: no transaction has begun. Nothing
    /// is watched afterwards.
    pub fn end(&mut self) -> Option<(QueuedCommands, Watched)> {
        let queue = self.open.take()?;
        Some((queue, take(&mut self.watched)))
    }
}

impl QueuedCommands {
    /// Whether the transaction cannot be done.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The table's entries of the commands.
    pub fn specs(&self) -> impl Iterator<Item = &'static Spec> + '_ {
        self.commands.iter().map(|&(spec, _)| spec)
    }

    /// The commands. Commands that `user` may no longer run are answered with that error, and do nothing.
    pub fn operations(&self, user: &User) -> Vec<Operation<'_>> {
        let commands = self.commands.iter();
        let operations = commands.map(|(spec, places)| {
            let arguments = Arguments::new(&self.bytes, places);
            match permission::denial(user, spec, arguments) {
                None => Operation::read(arguments).1,
                Some(denial) => Operation::Answer(denial.since_queued().into()),
            }
        });
        operations.collect()
    }

    fn push(&mut self, spec: &'static Spec, arguments: Arguments<'_>) -> Result<(), CommandError> {
        let size: usize = arguments.iter().map(|it| it.len() + ARGUMENT_SIZE).sum();
        if self.commands.len() == COMMANDS_MAX || !self.share.grow(size) {
            return Err(CommandError::TransactionTooLong);
        }
        let places = arguments.iter().map(|argument| {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(argument);
            start..self.bytes.len() as u32
        });
        let places = places.collect();
        self.commands.push((spec, places));
        Ok(())
    }
}

/// The reply to a command between `MULTI` and `EXEC`; `None` for a command that runs all the same, since it ends the
/// transaction or the connection.
pub fn queue<'a>(
    session: &mut Session,
    spec: Option<&'static Spec>,
    operation: &Operation<'a>,
    arguments: Arguments<'_>,
) -> Option<Reply<'a>> {
    let open = session.transaction.open.as_mut()?;
    let error = match (operation, spec) {
        (
            Operation::Control(
                Control::Exec
                | Control::MalformedExec
                | Control::Discard
                | Control::Reset
                | Control::Quit,
            ),
            _,
        ) => return None,
        // Neither breaks the transaction, as in Redis.
        (Operation::Control(Control::Multi), _) => {
            return Some(CommandError::Refused("MULTI calls can not be nested").into());
        }
        (Operation::Control(Control::Watch(_)), _) => {
            return Some(CommandError::Refused("WATCH inside MULTI is not allowed").into());
        }
        (Operation::Answer(Reply::Error(error)), _) => {
            let error = error.clone();
            open.is_broken = true;
            return Some(Reply::Error(error));
        }
        (Operation::Control(control), Some(spec))
            if !matches!(control, Control::Unwatch | Control::Wait(_)) =>
        {
            CommandError::NotInTransaction(spec.name.to_uppercase())
        }
        (_, Some(spec)) => match open.push(spec, arguments) {
            Ok(()) => return Some(Reply::Simple("QUEUED")),
            Err(error) => error,
        },
        (_, None) => unreachable!("an unknown command is answered with an error"),
    };
    open.is_broken = true;
    Some(Reply::Error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say<'a>(session: &mut Session, input: &'a [u8]) -> Option<Reply<'a>> {
        let mut places = Vec::new();
        for word in input.split(|&byte| byte == b' ') {
            let start = places.last().map_or(0, |place: &Range<u32>| place.end + 1);
            places.push(start..start + word.len() as u32);
        }
        let arguments = Arguments::new(input, places.leak());
        let (spec, operation) = Operation::read(arguments);
        queue(session, spec, &operation, arguments)
    }

    fn session() -> Session {
        let address = "127.0.0.1:1".parse().expect("an address");
        let card = crate::clients::Card::new(1, address, address, std::time::Duration::ZERO);
        let guard = crate::acl::DefaultUserBounds {
            may_be_closed: true,
            may_be_open: true,
        };
        let acl = crate::acl::Acl::of(None, None, guard).expect("no file");
        Session::new(std::sync::Arc::new(card), 0, &acl)
    }

    /// Needs the count of the thread, and its end with the queue.
    #[test]
    fn the_transactions_of_a_thread_share_its_memory() {
        let queued = Rc::new(Cell::new(0));
        let long = [b"SET a ", &vec![b'x'; SIZE_MAX - 100][..]].concat();
        let mut sessions: Vec<Session> = (0..=QUEUED_MAX / SIZE_MAX).map(|_| session()).collect();
        let replies = sessions.iter_mut().map(|session| {
            session.transaction.begin(&queued);
            say(session, &long).expect("it is queued").to_string()
        });
        let replies: Vec<String> = replies.collect();
        let (last, others) = replies.split_last().expect("there are several");
        assert!(others.iter().all(|reply| reply == "QUEUED"));
        assert!(last.starts_with("OOM"), "{last}");
        sessions.clear();
        assert_eq!(queued.get(), 0);
    }
}
