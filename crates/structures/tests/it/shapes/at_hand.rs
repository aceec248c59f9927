//! A writer that knows the domain beside writers that have to read everything anew.

use rand::RngExt as _;
use stonecast_base::{Span, random_from_seed};
use stonecast_structures::Verb;
use stonecast_structures::shapes::{Description, StructureKind};

use super::store::{SLAB_SIZE, Store};

const SLABS: u64 = 6;
/// Values of these sizes are empty, inline, as long as a slot permits, or in blocks.
const VALUE_SIZES: [usize; 6] = [0, 1, 24, 96, 104, 300];

fn store() -> Store {
    Store::new(
        SLABS,
        Description {
            schema: 0,
            value_size: 100,
            key_size_max: 16,
            kind: StructureKind::BTree,
        },
    )
}

/// The first slab lies one slab behind the start.
fn slab_of(store: &Store, slab: u64) -> Vec<u8> {
    let read = store.read(Span::new((slab + 1) * SLAB_SIZE, SLAB_SIZE));
    read.expect("the slab is the domain's")
}

/// Needs inserts at hand that leave full leaves, values in blocks and keys of other leaves to the walk, and that write
/// what the walk writes: a back-end that executes an operation again knows other places than its writer did.
#[test]
fn inserts_at_hand_leave_the_same_bytes_as_walks() {
    for seed in 0..12 {
        let mut random = random_from_seed(seed);
        let (mut knowing, mut forgetful) = (store(), store());
        for step in 0..600 {
            let verb = match random.random_range(0..8) {
                0 => Verb::Remove,
                _ => Verb::Insert,
            };
            let key = random.random_range(0..400_u64).to_be_bytes();
            let key = &key[..random.random_range(7..=8)];
            let size = VALUE_SIZES[random.random_range(0..VALUE_SIZES.len())];
            let value = match verb {
                Verb::Insert => vec![random.random(); size],
                _ => Vec::new(),
            };
            let answers = [&mut knowing, &mut forgetful].map(|store| {
                let answer = store.stage(verb, key, &value);
                store.publish();
                let words = store.words_left();
                store.apply_all();
                (answer, words)
            });
            assert_eq!(answers[0], answers[1], "seed {seed}, step {step}");
            forgetful.next_writer();
            if step % 100 == 99 {
                for slab in 0..SLABS {
                    let is_same = slab_of(&knowing, slab) == slab_of(&forgetful, slab);
                    assert!(is_same, "seed {seed}, step {step}, slab {slab}");
                }
                knowing.check_memory();
            }
        }
    }
}
