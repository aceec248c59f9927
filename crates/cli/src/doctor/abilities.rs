//! The abilities of a device according to the verbs library. No file of the kernel shows these capability bits.

use serde::Serialize;

use crate::doctor::root::Root;

/// The operations that a device reports and the library can post, or why they were not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Abilities {
    /// The device was asked and answered.
    #[cfg_attr(
        not(any(feature = "verbs", test)),
        expect(dead_code, reason = "only the verbs library can be asked")
    )]
    Seen {
        /// FLUSH that makes bytes visible to all readers.
        flush_global: bool,
        /// FLUSH that makes bytes persistent.
        flush_persistent: bool,
        /// ATOMIC_WRITE of 8 bytes.
        atomic_write: bool,
        /// Memory windows of type 2B.
        memory_windows: bool,
    },
    /// The device was not asked, or did not answer, for this reason.
    NotSeen(String),
}

impl Abilities {
    /// The abilities of the device called `name`. Only the machine itself can be asked, not a folder that stands for
    /// it.
    pub fn of(root: &Root, name: &str) -> Self {
        if root.is_this_machine() {
            ask(name)
        } else {
            Self::NotSeen("a folder was examined, not this machine".into())
        }
    }

    /// The operations by name; `None` if they were not seen.
    pub fn names(&self) -> Option<Vec<&'static str>> {
        let &Self::Seen {
            flush_global,
            flush_persistent,
            atomic_write,
            memory_windows,
        } = self
        else {
            return None;
        };
        let all = [
            (flush_global, "FLUSH (global)"),
            (flush_persistent, "FLUSH (persistent)"),
            (atomic_write, "ATOMIC_WRITE"),
            (memory_windows, "memory windows"),
        ];
        Some(
            all.into_iter()
                .filter(|(has, _)| *has)
                .map(|(_, name)| name)
                .collect(),
        )
    }
}

#[cfg(feature = "verbs")]
fn ask(name: &str) -> Abilities {
    match stonecast_fabric_verbs::Abilities::of(name) {
        Ok(stonecast_fabric_verbs::Abilities {
            flush_global,
            flush_persistent,
            atomic_write,
            memory_windows,
        }) => Abilities::Seen {
            flush_global,
            flush_persistent,
            atomic_write,
            memory_windows,
        },
        Err(error) => Abilities::NotSeen(error.to_string()),
    }
}

#[cfg(not(feature = "verbs"))]
fn ask(_name: &str) -> Abilities {
    Abilities::NotSeen("only the verbs library shows them, and this build lacks the library (cargo build --features verbs)".into())
}
