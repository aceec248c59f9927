//! Counters of the cleaner, as a server counts them and as a client reads them.

use crate::stat::COUNTERS;

macro_rules! cleaning {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        /// The work of the cleaner since the start of the server.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Cleaning {
            $($(#[$meta])* pub $name: u64,)+
        }

        /// The fields in the order of their words on the wire.
        pub(crate) const CLEANING_NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        impl Cleaning {
            pub(crate) fn from_words(words: &[u64; COUNTERS]) -> Self {
                let mut words = words.iter().copied();
                // Fields are evaluated in the order in which they are written.
                Self { $($name: words.next().expect("a word for each field"),)+ }
            }

            pub(crate) fn words(&self) -> [u64; CLEANING_NAMES.len()] {
                [$(self.$name),+]
            }
        }
    };
}

const _: () = assert!(CLEANING_NAMES.len() <= COUNTERS);

cleaning! {
    /// Segments freed.
    segments,
    /// Records moved, tombstones among them.
    moved_records,
    /// Bytes of the records moved.
    moved_bytes,
    /// Tombstones dropped because no earlier record needed them.
    dropped_tombstones,
    /// Bytes of tombstones in the log.
    tombstone_bytes,
    /// Segments kept because of a damaged record.
    abandoned,
    /// Steps, each with one persist of the copied records.
    steps,
    /// Leases taken back from clients that did not use them while space was short.
    reclaimed_leases,
    /// Bytes of records written by clients; moved records are not included.
    written_bytes,
}

impl Cleaning {
    /// Bytes written to the log for each byte that clients wrote.
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.moved_bytes as f64 / self.written_bytes.max(1) as f64
    }
}
