//! Readers that accept answers of a bounded age, on simulated machines beside a writer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::shapes::btree::Seek;
use stonecast_structures::{Key as _, StructureReader, Verb, Writer};

use crate::sessions::{Scene, create, operation};

const KEYS: u64 = 4;
const AGE_MAX_NS: u64 = 500_000;
const END_NS: u64 = 15_000_000;

/// Updates of a key, each with the moments before it was staged and after it was published.
type Updates = Rc<RefCell<Vec<Vec<(u64, u64)>>>>;

async fn update(writer: &mut Writer, structure: u32, key: u64, value: u64) {
    let (key, value) = (key.encoded(), value.to_le_bytes());
    let insert = operation(structure, Verb::Insert, &key, &value);
    let (_, _ticket) = writer.stage(&insert).await.expect("there is room");
    // Old versions take no more memory than a few.
    let blocks = 100_u32.to_le_bytes();
    let reclaim = operation(0, Verb::Reclaim, &[], &blocks);
    let (_, _ticket) = writer.stage(&reclaim).await.expect("there is room");
    writer.publish().await.expect("the tenure lasts");
}

/// The value of a key, by one of the calls that may give old answers.
async fn ask(reader: &mut StructureReader, key: u64, call: u32) -> Vec<u8> {
    let key = key.encoded();
    let found = match call {
        0 => reader.get(&key, <[u8]>::to_vec).await.expect("it is whole"),
        1 => {
            let mut found = reader.get_many(&[key]).await.expect("it is whole");
            found.pop().expect("one key was asked for")
        }
        _ => {
            let page = reader.page(&Seek::At(key.clone())).await;
            let page = page.expect("it is whole");
            let found = page.items().find(|(other, _)| *other == key);
            found.map(|(_, value)| value.to_vec())
        }
    };
    found.expect("the key has a value at every moment")
}

fn run(kind: StructureKind, seed: u64) {
    let scene = Scene::new(seed);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (writing, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let structure = create(&mut writer, kind).await;
        let updates: Updates = Rc::new(RefCell::new(vec![vec![(0, 0)]; KEYS as usize]));
        for key in 0..KEYS {
            update(&mut writer, structure, key, 0).await;
        }
        let (theirs, clock, has_ended) = (
            updates.clone(),
            writing.runtime(),
            Rc::new(Cell::new(false)),
        );
        let ended = has_ended.clone();
        writing.runtime().spawn(Box::pin(async move {
            let mut random = random_from_seed(seed);
            while clock.now() < END_NS {
                let key = random.random_range(0..KEYS);
                let value = theirs.borrow()[key as usize].len() as u64;
                theirs.borrow_mut()[key as usize].push((clock.now(), u64::MAX));
                update(&mut writer, structure, key, value).await;
                theirs.borrow_mut()[key as usize][value as usize].1 = clock.now();
                clock.sleep(random.random_range(0..20_000)).await;
            }
            ended.set(true);
        }));
        let (reading, front_end) = scene.front_end().await;
        let reader = front_end.reader(domain).await.expect("there is the domain");
        let name = format!("{kind:?}");
        let mut reader = StructureReader::open(reader, &name)
            .await
            .expect("it was made");
        let clock = reading.runtime();
        reader.accept_age(&clock, AGE_MAX_NS, 1 << 16);
        let mut random = random_from_seed(seed + 1);
        let (mut given_again, mut calls) = (0, 0);
        let mut before = [0; KEYS as usize];
        while !has_ended.get() {
            let key = random.random_range(0..KEYS) as usize;
            let ways = if kind == StructureKind::HashTable {
                2
            } else {
                3
            };
            let call = random.random_range(0..ways);
            let began_at = clock.now();
            let found = ask(&mut reader, key as u64, call).await;
            let value = u64::from_le_bytes(found.try_into().expect("a number"));
            let old = began_at.saturating_sub(AGE_MAX_NS);
            let (least, begun_at) = {
                let updates = updates.borrow();
                let published = updates[key].iter().rposition(|(_, at)| *at <= old);
                let least = published.unwrap_or(0) as u64;
                (least, updates[key][value as usize].0)
            };
            assert!(
                value >= least,
                "{kind:?}, seed {seed}: key {key} had {least} at {old}, and {value} is older"
            );
            assert!(begun_at <= clock.now());
            if call != 2 {
                assert!(
                    value >= before[key],
                    "{kind:?}, seed {seed}: key {key} went back"
                );
                before[key] = value;
            }
            given_again += u64::from(clock.now() == began_at);
            calls += 1;
            clock.sleep(random.random_range(0..2_000)).await;
        }
        assert!(given_again * 2 > calls, "{given_again} of {calls}");
        assert!(given_again < calls);
    });
}

/// Needs the moment before the READs of a call as the date of its answer, and the comparison with the limit.
#[test]
pub fn no_answer_is_older_than_the_reader_accepts() {
    for kind in [
        StructureKind::HashTable,
        StructureKind::BTree,
        StructureKind::MvBTree,
        StructureKind::SkipList,
    ] {
        (0..2).for_each(|seed| run(kind, seed));
    }
}
