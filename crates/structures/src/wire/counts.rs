//! Counts of front-ends and of a back-end, for people.

/// The counts of a front-end since its last report to the back-end. Readers use no processor of the back-end, so the
/// back-end cannot count for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Calls of readers that have ended with an answer.
    pub answers: u64,
    /// The number of times that a reader began again because a place was changing.
    pub retries: u64,
    /// Nanoseconds since the oldest snapshot of the front-end was taken; 0: the front-end has none.
    pub snapshot_age_ns: u64,
}

/// The state of the mirror of a back-end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorStat {
    /// The generation of the back-end; 0: the back-end has no mirror.
    pub generation: u64,
    /// Bytes of the pool that a new mirror may lack. With 0 the mirror can become the back-end, and nothing is
    /// acknowledged without it.
    pub bytes_to_copy: u64,
    /// Batches that were sent to the mirror and are not durable there.
    pub batches_under_way: u64,
    /// Approximate nanoseconds since the last request that the mirror has answered.
    pub silent_ns: u64,
    /// Whether nothing is acknowledged without the mirror, which may be promoted.
    pub is_bound: bool,
    /// The store of the standing record.
    pub store: StoreStat,
}

/// The store of the standing record that a back-end shares with its mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreStat {
    /// The pair has no standing record: operators alone promote and detach.
    #[default]
    None,
    /// The store answered the last query.
    Reached,
    /// The store is unreachable, or the record is not the back-end's; binding and promotion wait.
    Waiting,
}

impl MirrorStat {
    /// Whether the back-end has a mirror.
    pub fn exists(&self) -> bool {
        self.generation > 0
    }
}

/// The state of a back-end. Counts begin with its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackEndStat {
    /// Connected front-ends.
    pub front_ends: u64,
    /// Lock domains that are served.
    pub domains: u64,
    /// Lock domains that are set aside because of damage.
    pub damaged: u64,
    /// Tenures that were granted.
    pub tenures_granted: u64,
    /// Tenures that were handed over.
    pub tenures_ended: u64,
    /// Tenures that ended because their owners were silent for longer than a lease.
    pub tenures_silent: u64,
    /// Slabs of the pool, without the back-end's own slabs.
    pub slabs: u64,
    /// Unused slabs.
    pub free_slabs: u64,
    /// The most slabs of a lock domain, its log left out.
    pub quota: u64,
    /// Sums over all front-ends, and the age of the oldest snapshot.
    pub readers: ReaderCounts,
    /// The mirror.
    pub mirror: MirrorStat,
}

impl ReaderCounts {
    pub(super) fn words(&self) -> [u64; 3] {
        [self.answers, self.retries, self.snapshot_age_ns]
    }

    pub(super) fn of_words([answers, retries, snapshot_age_ns]: [u64; 3]) -> Self {
        Self {
            answers,
            retries,
            snapshot_age_ns,
        }
    }
}

impl MirrorStat {
    fn words(&self) -> [u64; 6] {
        [
            self.generation,
            self.bytes_to_copy,
            self.batches_under_way,
            self.silent_ns,
            self.is_bound.into(),
            self.store as u64,
        ]
    }

    /// `None`: a word is out of its range.
    fn of_words(words: [u64; 6]) -> Option<Self> {
        let [
            generation,
            bytes_to_copy,
            batches_under_way,
            silent_ns,
            is_bound,
            store,
        ] = words;
        Some(Self {
            generation,
            bytes_to_copy,
            batches_under_way,
            silent_ns,
            is_bound: match is_bound {
                0 => false,
                1 => true,
                _ => return None,
            },
            store: match store {
                0 => StoreStat::None,
                1 => StoreStat::Reached,
                2 => StoreStat::Waiting,
                _ => return None,
            },
        })
    }
}

impl BackEndStat {
    pub(super) fn words(&self) -> Vec<u64> {
        let counts = [
            self.front_ends,
            self.domains,
            self.damaged,
            self.tenures_granted,
            self.tenures_ended,
            self.tenures_silent,
            self.slabs,
            self.free_slabs,
            self.quota,
        ];
        [&counts[..], &self.readers.words(), &self.mirror.words()].concat()
    }

    /// `None`: another number of words.
    pub(super) fn of_words(words: &[u64]) -> Option<Self> {
        let (
            &[
                front_ends,
                domains,
                damaged,
                tenures_granted,
                tenures_ended,
                tenures_silent,
                slabs,
                free_slabs,
                quota,
            ],
            rest,
        ) = words.split_first_chunk()?;
        let (readers, mirror) = rest.split_first_chunk()?;
        Some(Self {
            front_ends,
            domains,
            damaged,
            tenures_granted,
            tenures_ended,
            tenures_silent,
            slabs,
            free_slabs,
            quota,
            readers: ReaderCounts::of_words(*readers),
            mirror: MirrorStat::of_words(mirror.try_into().ok()?)?,
        })
    }
}
