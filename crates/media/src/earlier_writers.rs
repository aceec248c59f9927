//! Whether a process of an earlier run can still write to a log.
//!
//! ```text
//!   byte of the inode's locks    0              1        2        3 ...       4097     4098 ...
//!                                the device's   run A    run B    free        run B    free
//!                                server         server and clients            nodes that append
//! ```
//!
//! The locks lock nothing of the data. Server and clients of one run map the log through one open file description,
//! which the server made. The nodes that append to the log in that run map it through a second one. Each description
//! holds a lock (`F_OFD_SETLK`) on a byte of its own, and the kernel keeps the lock until the last mapping is gone,
//! however the processes end. So if the server of a later run finds, through its own description, no lock but its own,
//! no earlier process can be in the middle of a store. The answer stays true: a later run cannot begin before this run
//! ends.

use std::cell::Cell;
use std::fs::File;
use std::io;

use crate::description_lock::{others_hold, try_lock};

/// The most earlier runs with a process that may still be alive.
const RUNS_MAX: i64 = 1 << 12;

/// The processes that map a log through one description of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// The server and its clients.
    Clients,
    /// The nodes that append to the log.
    Nodes,
}

impl Writers {
    /// The first byte of their locks.
    fn first_byte(self) -> i64 {
        match self {
            Self::Clients => 1,
            Self::Nodes => 1 + RUNS_MAX,
        }
    }
}

/// The runs before this one, as the locks of a log's inode show them.
#[derive(Debug)]
pub(crate) struct EarlierWriters {
    /// The description of this run; `None` if earlier runs do not matter.
    description: Option<File>,
    writers: Writers,
    are_gone: Cell<bool>,
}

impl EarlierWriters {
    /// Looks for no earlier run.
    pub fn none() -> Self {
        Self {
            description: None,
            writers: Writers::Clients,
            are_gone: Cell::new(true),
        }
    }

    /// Looks for the `writers` of all runs but the one that maps the log through `mapped`, whose description gets its
    /// lock.
    pub fn of_other_runs_than(mapped: &File, writers: Writers) -> io::Result<Self> {
        let description = mapped.try_clone()?;
        let first = writers.first_byte();
        for byte in first..first + RUNS_MAX {
            if try_lock(&description, byte)? {
                return Ok(Self {
                    description: Some(description),
                    writers,
                    are_gone: Cell::new(false),
                });
            }
        }
        Err(io::Error::other(format!(
            "{RUNS_MAX} earlier runs still have processes that map the log; end them"
        )))
    }

    /// Whether all processes of earlier runs are gone. Costs a system call until they are.
    pub fn are_gone(&self) -> bool {
        if let Some(description) = self.description.as_ref().filter(|_| !self.are_gone.get()) {
            let first = self.writers.first_byte();
            let held = others_hold(description, first, RUNS_MAX);
            self.are_gone.set(held.is_ok_and(|held| !held));
        }
        self.are_gone.get()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn open(path: &std::path::Path) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .expect("the file opens")
    }

    /// Needs a byte of its own for each run: with one byte for all, the second run would not get its lock, or the third
    /// would not see the first.
    #[test]
    fn earlier_writers_are_gone_when_the_last_descriptor_of_each_earlier_run_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (first, second, third) = (open(&path), open(&path), open(&path));
        let of_first =
            EarlierWriters::of_other_runs_than(&first, Writers::Clients).expect("a lock");
        assert!(of_first.are_gone(), "no earlier run exists");
        let client_of_first = first.try_clone().expect("a descriptor");
        drop((of_first, first));

        let of_second =
            EarlierWriters::of_other_runs_than(&second, Writers::Clients).expect("a lock");
        assert!(!of_second.are_gone());
        let of_third =
            EarlierWriters::of_other_runs_than(&third, Writers::Clients).expect("a lock");
        drop((of_second, second));
        assert!(
            !of_third.are_gone(),
            "the client of the first run is still alive"
        );

        let nodes = open(&path);
        let of_nodes = EarlierWriters::of_other_runs_than(&nodes, Writers::Nodes);
        assert!(
            of_nodes.expect("a lock").are_gone(),
            "a client is no node that appends"
        );

        drop(client_of_first);
        assert!(of_third.are_gone(), "the answer is determined anew");
    }
}
