//! Any history of writes, seals and crashes, even inside recovery: durable records are found, every record found was
//! written, and a record that recovery did not find never comes back.
//!
//! After a power cut each 8-byte word that was not persisted has any of the values that it has held since it was last
//! persisted.

use proptest::prelude::*;
use stonecast_base::random_from_seed;
use stonecast_log::SegmentVerdict;

use crate::memory::Memory;
use crate::server::{Entry, Server, log, pool, scan};

/// Few keys and sizes, so that a write is often retried with the same bytes at the same place.
#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u8,
        size: usize,
        skip: u32,
    },
    /// A client writes and dies before the server learns of it.
    Leave {
        key: u8,
        size: usize,
    },
    Persist,
    Seal,
    /// The segment is freed and reused, over its old content.
    Free,
    /// The server dies, and its stores stay.
    Kill,
    PowerCut(Cut),
}

/// The surviving values, and the extent of the interrupted recoveries.
#[derive(Clone, Debug)]
struct Cut {
    seed: u64,
    habit: u8,
    recoveries: Vec<u8>,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(40), Just(100), Just(600)]
}

fn cut() -> impl Strategy<Value = Cut> {
    (any::<u64>(), 0..6_u8, prop::collection::vec(0..4_u8, 0..3)).prop_map(
        |(seed, habit, recoveries)| Cut {
            seed,
            habit,
            recoveries,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2_u8, sizes(), prop_oneof![4 => Just(0), 1 => 1..4_u32]).prop_map(|(key, size, skip)| Step::Put { key, size, skip }),
        1 => (0..2_u8, sizes()).prop_map(|(key, size)| Step::Leave { key, size }),
        3 => Just(Step::Persist),
        1 => Just(Step::Seal),
        1 => Just(Step::Free),
        1 => Just(Step::Kill),
        3 => cut().prop_map(Step::PowerCut),
    ]
}

/// Different habits reach different states: single words lost, single words kept, whole lines.
pub fn cut_power(memory: &Memory, seed: u64, habit: u8) {
    let mut random = random_from_seed(seed);
    let mut any = move |count: usize| random.random_range(0..count);
    match habit {
        0 => memory.cut_power(|_, _| 0),
        1 => memory.cut_power(|_, count| count - 1),
        2 => memory.cut_power(|_, count| if any(8) == 0 { 0 } else { count - 1 }),
        3 => memory.cut_power(|_, count| if any(8) == 0 { count - 1 } else { 0 }),
        4 => {
            // Runs of words, which are whole lines or parts of them.
            let (mut left, mut keep) = (0, false);
            memory.cut_power(|_, count| {
                if left == 0 {
                    left = any(24) + 1;
                    keep = !keep;
                }
                left -= 1;
                if keep { count - 1 } else { 0 }
            });
        }
        _ => memory.cut_power(|_, count| any(count)),
    }
}

struct History<'m> {
    memory: &'m Memory,
    server: Server<'m>,
    /// The entries that must be found.
    durable: Vec<Entry>,
    /// The entries that may be found.
    stamped: Vec<Entry>,
}

impl<'m> History<'m> {
    fn new(memory: &'m Memory) -> Self {
        Self {
            memory,
            server: Server::first_use(memory, 1),
            durable: Vec::new(),
            stamped: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put { key, size, skip } if self.server.room() > 14 => {
                let entry = self.server.put_above(skip, &[key; 10], &vec![key; size]);
                self.stamped.push(entry);
            }
            Step::Leave { key, size } if self.server.room() > 14 => {
                self.server
                    .place(self.server.state.end, &[key; 10], &vec![key; size]);
            }
            Step::Put { .. } | Step::Leave { .. } => {}
            Step::Persist => self.persist(),
            Step::Seal => {
                // A server seals what it has persisted.
                self.persist();
                self.server.seal();
            }
            Step::Free => {
                self.server.persist();
                self.server.free();
                self.durable.clear();
                self.stamped.clear();
            }
            Step::Kill => self.recover(),
            Step::PowerCut(ref cut) => {
                cut_power(self.memory, cut.seed, cut.habit);
                for (index, &stage) in cut.recoveries.iter().enumerate() {
                    self.recover_up_to(stage);
                    cut_power(self.memory, cut.seed ^ (index as u64 + 1), cut.habit);
                }
                self.recover();
            }
        }
    }

    fn persist(&mut self) {
        self.server.persist();
        self.durable.append(&mut self.stamped);
    }

    /// A recovery that is interrupted.
    fn recover_up_to(&mut self, stage: u8) {
        let verdict = self.look();
        if let SegmentVerdict::Used(mut state, _) = verdict {
            if stage >= 1 {
                self.memory.persist(state.unsealed(&pool()).as_slice());
            }
            // Stage 2 leaves its writes to the power cut; stage 3 persists them, too.
            if stage >= 2 {
                let spans = state.settle(self.memory, &pool());
                if stage >= 3 {
                    self.memory.persist(&spans);
                }
            }
        }
    }

    /// Scans, and compares the result with the records that must and may exist.
    fn look(&self) -> SegmentVerdict {
        let (verdict, found) = scan(self.memory)
            .unwrap_or_else(|corruption| panic!("a crash is not damage: {corruption}"));
        for entry in &self.durable {
            assert!(found.contains(entry), "{entry:?} was durable");
        }
        for entry in &found {
            assert!(
                self.durable.contains(entry) || self.stamped.contains(entry),
                "{entry:?} was gone, or never written"
            );
        }
        verdict
    }

    fn recover(&mut self) {
        self.look();
        let opening = self.server.opening + 1;
        let (server, found) = Server::recover(self.memory, opening).expect("it was just scanned");
        self.server = server;
        self.durable = found;
        self.stamped.clear();
        // After it is settled, a scan finds the same records, and nothing torn.
        let SegmentVerdict::Used(state, report) = self.look() else {
            return;
        };
        assert_eq!(
            (state.end, state.count, state.xor),
            (
                self.server.state.end,
                self.server.state.count,
                self.server.state.xor
            )
        );
        assert_eq!(
            (state.last, report.torn_tail, report.header_damaged),
            (0, None, false)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Needs each of these: the check of the stamp, and in it tag, sequence and links; the record's tag; persisting
    /// before settling; in `settle` the header, the clearing and the seal, and the spans of each; the seal's checksum.
    #[test]
    fn no_crash_loses_a_durable_record_or_brings_back_another(steps in prop::collection::vec(step(), 1..40)) {
        let memory = log();
        let mut history = History::new(&memory);
        for step in &steps {
            history.step(step);
        }
        history.recover();
    }
}

/// The words of a record with a short key and no value: three of the stamp, tag, facts, key.
const WORDS: usize = 6;
/// The words that differ where the same record stood in the previous generation: all but the links
/// and the key.
const DIFFERING: usize = 4;

/// Cuts the power while one record with `words` changed words is not persisted; the words in the set `keep` survive.
fn tear(memory: &Memory, keep: usize, words: usize) {
    let mut word = 0;
    memory.cut_power(|_, count| {
        word += 1;
        if keep >> (word - 1) & 1 == 1 {
            count - 1
        } else {
            0
        }
    });
    assert_eq!(word, words);
}

#[test]
fn every_way_to_tear_a_stamped_record_leaves_it_whole_or_absent() {
    for keep in 0..1 << WORDS {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        let mut expected = vec![server.put_durably(b"a", b"")];
        let entry = server.put(b"key", b"");
        tear(&memory, keep, WORDS);
        expected.extend((keep == (1 << WORDS) - 1).then_some(entry));
        assert_eq!(scan(&memory).unwrap().1, expected, "words {keep:#b}");
    }
}

/// The place of a stamp is not cleared. Needs the tag, or the generation, among the words that the
/// commit tag covers.
#[test]
fn every_way_to_tear_a_record_over_an_equal_one_leaves_it_whole_or_absent() {
    for keep in 0..1 << DIFFERING {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        server.put_durably(b"a", b"");
        let before = server.put_durably(b"key", b"");
        server.free();
        let mut expected = vec![server.put_durably(b"a", b"")];
        let entry = server.put(b"key", b"");
        assert_eq!(entry.unit, before.unit);
        tear(&memory, keep, DIFFERING);
        expected.extend((keep == (1 << DIFFERING) - 1).then_some(entry));
        assert_eq!(scan(&memory).unwrap().1, expected, "words {keep:#b}");
    }
}

/// A record is torn, and after a recovery that did not find it the client tries again with the same
/// bytes at the same place; this write is torn in the other half. Needs the clearing in `settle`,
/// and needs it to clear the commit tag: if it cleared the sequence, the second try would have the
/// same sequence again.
#[test]
fn a_torn_record_that_recovery_did_not_find_is_not_completed_by_a_retry() {
    const ALL: usize = (1 << WORDS) - 1;
    for keep in 0..ALL {
        let memory = log();
        let mut server = Server::first_use(&memory, 1);
        let durable = server.put_durably(b"a", b"");
        let torn = server.put(b"key", b"");
        tear(&memory, keep, WORDS);
        let (mut server, found) = Server::recover(&memory, 2).unwrap();
        assert_eq!(found, std::slice::from_ref(&durable));
        let again = server.put(b"key", b"");
        assert_eq!(
            (again.unit, again.sequence),
            (torn.unit, torn.sequence),
            "only the opening differs"
        );
        // The words that survive of the second try are those that were lost of the first.
        memory.cut_power(|offset, count| {
            let word = (offset - crate::server::position(torn.unit)) / 8;
            if word < WORDS as u64 && keep >> word & 1 == 0 {
                count - 1
            } else {
                0
            }
        });
        let (_, found) = scan(&memory).unwrap();
        // The second try may well be whole, from words that both tries share. The first one is
        // gone.
        assert!(
            found == [durable.clone()] || found == [durable, again],
            "words {keep:#b}: {found:?}"
        );
    }
}
