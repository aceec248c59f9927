//! Counters of a server as a node of a cluster.

use crate::stat::COUNTERS;

macro_rules! copying {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        /// The copies of a node, and its work for them. All numbers of a server without a cluster are zero.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Copying {
            $($(#[$meta])* pub $name: u64,)+
        }

        /// The fields in the order of their words on the wire.
        pub(crate) const COPYING_NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        impl Copying {
            pub(crate) fn from_words(words: &[u64; COUNTERS]) -> Self {
                let mut words = words.iter().copied();
                // Fields are evaluated in the order in which they are written.
                Self { $($name: words.next().expect("a word for each field"),)+ }
            }

            pub(crate) fn words(&self) -> [u64; COPYING_NAMES.len()] {
                [$(self.$name),+]
            }

            fn sum(&self, other: &Self) -> Self {
                Self { $($name: self.$name.saturating_add(other.$name),)+ }
            }
        }
    };
}

impl Copying {
    /// The counts of two nodes together: numbers are added, and facts of one node alone are those of the node that
    /// needs attention most.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            epoch: self.epoch.max(other.epoch),
            term_max: self.term_max.max(other.term_max),
            lease_left_ns: self.lease_left_ns.min(other.lease_left_ns),
            behind_entries_max: self.behind_entries_max.max(other.behind_entries_max),
            replicas: self.replicas.max(other.replicas),
            min_copies: self.min_copies.max(other.min_copies),
            ..self.sum(other)
        }
    }
}

const _: () = assert!(COPYING_NAMES.len() <= COUNTERS);

copying! {
    /// Epoch of the configuration that the node knows.
    epoch,
    /// Shards that the node leads.
    leads,
    /// The highest term of these shards.
    term_max,
    /// Time until the first lease on these shards ends, in nanoseconds.
    lease_left_ns,
    /// Shards of which the node keeps a copy without leading them.
    copies,
    /// Shards of which the node is being filled with a copy.
    joins,
    /// Other nodes that get entries from this one.
    peers,
    /// Peers to which entries can be appended at this moment.
    peers_linked,
    /// Entries that the other copies of the shards led here have not reported yet, summed over
    /// these copies.
    behind_entries,
    /// Entries that the copy that lags most has not reported yet.
    behind_entries_max,
    /// Bytes of the entries that are stamped here and are not on all copies yet.
    unsettled_bytes,
    /// Copies on other nodes that this node fills.
    fills,
    /// Bytes that these copies have received.
    filled_bytes,
    /// Bytes that these copies lack, as an estimate.
    fill_left_bytes,
    /// Copies that were found to lack entries, and are filled again.
    lost,
    /// Bytes of the entries that other nodes have appended here.
    appended_bytes,
    /// Bytes of records of other nodes that were written into this node's log.
    digested_bytes,
    /// Copies that each shard has by the policy of the cluster.
    replicas,
    /// Copies in sync that a shard needs for writes.
    min_copies,
    /// Shards whose primary the node is by the configuration.
    primaries,
    /// Of these, shards with fewer copies in sync than the policy names.
    short,
    /// Of these, shards with fewer copies in sync than writes need.
    below_min,
    /// Copies on other nodes that took no entry for too long: the logs of their nodes have no room.
    full,
}
