//! Counters of a server, as the server counts them and as a client reads them.

/// A field of a report: one word on the wire.
trait Number: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

impl Number for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Self {
        word
    }
}

impl Number for bool {
    fn to_word(self) -> u64 {
        self.into()
    }
    fn from_word(word: u64) -> Self {
        word != 0
    }
}

macro_rules! stat {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// A server's report of itself. Sizes are in bytes; counts of operations begin with the start of the server.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stat {
            $($(#[$meta])* pub $name: $type,)+
        }

        /// The fields in the order of their words on the wire.
        pub(crate) const STAT_NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        impl Stat {
            pub(crate) fn from_words(words: &[u64; COUNTERS]) -> Self {
                let mut words = words.iter();
                // Fields are evaluated in the order in which they are written.
                Self { $($name: Number::from_word(*words.next().expect("a word for each field")),)+ }
            }

            pub(crate) fn words(&self) -> [u64; COUNTERS] {
                let mut words = [0; COUNTERS];
                words.iter_mut().zip([$(self.$name.to_word()),+]).for_each(|(word, field)| *word = field);
                words
            }
        }
    };
}

/// Words of a page of a report.
pub(crate) const COUNTERS: usize = 24;
const _: () = assert!(STAT_NAMES.len() <= COUNTERS);

stat! {
    /// Keys present. A node of a cluster counts those of the shards that it leads.
    keys: u64,
    /// Keys that the index takes before it grows.
    index_capacity: u64,
    /// Bytes of the records of present keys.
    live_bytes: u64,
    /// Bytes of the log that are in use.
    used_bytes: u64,
    /// Bytes of the whole log.
    capacity_bytes: u64,
    /// Segments never used.
    segments_free: u64,
    /// Segments with room and without an appender.
    segments_partial: u64,
    /// Segments with an appender.
    segments_taken: u64,
    /// Segments without room.
    segments_full: u64,
    /// Connected clients, this one included.
    clients: u64,
    /// Openings of the pool.
    opening: u64,
    /// Commit sequence number of the latest write.
    sequence: u64,
    /// Puts done.
    puts: u64,
    /// Deletes done.
    deletes: u64,
    /// Writes refused: conflict, absent, no space, invalid.
    refused: u64,
    /// Batches served.
    batches: u64,
    /// Persists: fences or syncs.
    persists: u64,
    /// Bytes of a segment.
    segment_size: u64,
    /// Whether acknowledged writes survive a power loss.
    power: bool,
    /// Process number of the server, if it has one.
    process: u64,
    /// Bytes of the index.
    index_bytes: u64,
    /// Growths of the index.
    index_growths: u64,
    /// Failures of the medium to allocate space though the medium was not full.
    space_failures: u64,
    /// Keys that were removed because they had expired.
    expired: u64,
}

impl Stat {
    /// The report of two nodes together: counts are added, writes survive a power loss if they do so at both nodes, and
    /// facts of one node alone, such as its process, are the larger ones.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut words = self.words();
        let others = words.iter_mut().zip(other.words());
        others.for_each(|(word, more)| *word = word.saturating_add(more));
        Self {
            opening: self.opening.max(other.opening),
            sequence: self.sequence.max(other.sequence),
            segment_size: self.segment_size.max(other.segment_size),
            power: self.power && other.power,
            process: self.process.max(other.process),
            ..Self::from_words(&words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_two_nodes_add_up_but_for_the_facts_of_one_node() {
        let one = Stat {
            keys: 3,
            sequence: 9,
            power: true,
            ..Stat::default()
        };
        let other = Stat {
            keys: 4,
            sequence: 5,
            ..Stat::default()
        };
        let both = one.and(&other);
        assert_eq!((both.keys, both.sequence, both.power), (7, 9, false));
        assert!(one.and(&one).power);
    }

    #[test]
    fn a_report_survives_the_wire_field_by_field() {
        let words = std::array::from_fn(|index| match STAT_NAMES.get(index) {
            Some(&"power") => 1,
            Some(_) => index as u64 + 100,
            None => 0,
        });
        let stat = Stat::from_words(&words);
        assert_eq!(stat.words(), words);
        assert_eq!(
            (stat.keys, stat.index_capacity, stat.power),
            (100, 101, true)
        );
    }
}
