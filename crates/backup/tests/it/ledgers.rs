//! One ledger for the intake and the store above it.

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::RngExt as _;
use stonecast_backup::SharedLedger;
use stonecast_base::{Random, random_from_seed};
use stonecast_cluster::Epoch;
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::{Fate, SimBacking, World};
use stonecast_log::Ledger;
use stonecast_media::Backing as _;
use stonecast_replication::{Lineage, Point};

use crate::world::{Alone, Backup, Pair, Setup, recover, settled};

/// The shards whose histories the two tasks of the store change.
const STORES: [u32; 2] = [8, 9];

/// A store's task: it changes the history of `shard`, and makes it durable, for ever. `changes` has the floors of both
/// tasks behind each change.
struct Task {
    shard: u32,
    ledger: SharedLedger,
    changes: Rc<RefCell<Vec<[u64; 2]>>>,
    durable: Rc<Cell<u64>>,
}

impl Task {
    async fn run(self, runtime: Rc<dyn Runtime>) {
        for floor in 1.. {
            self.ledger.keep(self.shard, settled(floor), 0);
            let both = STORES.map(|shard| floor_of(&self.ledger, shard));
            self.changes.borrow_mut().push(both);
            self.ledger.persist().await.unwrap();
            self.durable.set(floor);
            runtime.sleep(300 + u64::from(self.shard) * 170).await;
        }
    }
}

fn floor_of(ledger: &SharedLedger, shard: u32) -> u64 {
    ledger.read(|ledger| floor_in(ledger, shard))
}

fn floor_in(ledger: &Ledger, shard: u32) -> u64 {
    let lineage = ledger.lineages().of(shard);
    lineage.map_or(0, |lineage| lineage.floor.version)
}

/// The ledger that a power cut leaves, by chance.
fn left(backup: &Backup, random: &mut Random) -> Ledger {
    let wreck = backup.world.wreck(backup.machine, &backup.module);
    let fates = (0..wreck.undecided()).map(|unit| Fate {
        stores: random.random_range(0..=wreck.stores(unit)),
        torn: 0,
    });
    let survivor = wreck.survivor(&fates.collect::<Vec<_>>());
    let after = World::new(1);
    let module = after.module(after.machine(backup.setup.machine()), survivor);
    let region = SimBacking::new(&module)
        .open_log(backup.setup.log())
        .unwrap();
    recover(&*region, &backup.setup.format()).ledger
}

/// Needs the order of the writes, whoever writes, and the home that moves with the segments. Two tasks of the store
/// change the ledger, and the intake turns segments meanwhile.
pub fn a_power_cut_takes_no_durable_change_of_any_writer_and_leaves_no_later_change_alone() {
    const ENTRIES: u64 = 240;
    for seed in 0..4 {
        let setup = Setup {
            segments: 3,
            // Room for the rows of three shards.
            segment_size: 32 * 1024,
            ..Setup::answered()
        };
        let Pair {
            world,
            backup,
            mut writer,
            mut link,
            ..
        } = Pair::begin(5 + seed, setup);
        let ledger = backup.with(|intake| intake.ledger().clone());
        let changes = Rc::new(RefCell::new(vec![[0; 2]]));
        let durable = STORES.map(|shard| {
            let durable = Rc::new(Cell::new(0));
            let task = Task {
                shard,
                ledger: ledger.clone(),
                changes: changes.clone(),
                durable: durable.clone(),
            };
            let runtime = backup.process.runtime();
            runtime.spawn(Box::pin(task.run(runtime.clone())));
            durable
        });
        let mut random = random_from_seed(seed);
        let (mut homes, mut looked, mut floor) = (Vec::new(), 0, 0);
        while floor < ENTRIES {
            while writer.last < ENTRIES && writer.append(&mut link, 840).is_ok() {}
            link.flush().unwrap();
            assert!(world.step());
            while link.take_report().unwrap().is_some() {}
            let found = backup.versions(1).last().copied().unwrap_or(0);
            if found >= floor + 8 || found == ENTRIES {
                floor = found;
                ledger.keep(1, settled(floor), 0);
            }
            if world.events() < looked + 3 {
                continue;
            }
            looked = world.events();
            homes.push(ledger.read(Ledger::home));
            homes.dedup();
            let left = left(&backup, &mut random);
            let floors = STORES.map(|shard| floor_in(&left, shard));
            let has_all = |shard: usize| durable[shard].get() <= floors[shard];
            assert!(has_all(0) && has_all(1), "seed {seed}: {floors:?}");
            assert!(
                changes.borrow().contains(&floors),
                "seed {seed}: {floors:?}"
            );
        }
        assert!(homes.len() > 4, "the home has moved: {homes:?}");
        assert!(durable[0].get() > 20 && durable[1].get() > 20);
        assert_eq!(backup.trouble(), None);
    }
}

#[test]
fn two_writers_and_any_power_cut() {
    a_power_cut_takes_no_durable_change_of_any_writer_and_leaves_no_later_change_alone();
}

/// An intake with two segments and a ledger, and the floor that the least power cut leaves.
fn with_home(setup: &Setup) -> Alone {
    let mut alone = Alone::start(71, setup);
    alone.lend_two();
    let Alone { world, intake, .. } = &mut alone;
    world.block_on(async {
        for _ in 0..12 {
            intake.settle().await.unwrap();
        }
    });
    alone
}

/// Needs the turnstile and the look behind it: each of the calls would write a ledger of its own.
#[test]
fn calls_that_wait_at_the_same_time_share_a_write() {
    let mut alone = with_home(&Setup::synced());
    let ledger = alone.intake.ledger().clone();
    let before = ledger.writes();
    let Alone { world, .. } = &mut alone;
    world.block_on(async {
        let mut calls = Vec::new();
        for floor in 0..6 {
            ledger.keep(1, settled(floor), 0);
            let mut call = Box::pin(ledger.persist());
            let is_pending =
                poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
            assert!(is_pending.await, "a sync takes its time");
            calls.push(call);
        }
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(
        ledger.writes() - before,
        2,
        "the first, and one for the rest"
    );
    assert_eq!(ledger.durable(), ledger.changed());
    let left = alone.cut_power(&Setup::synced());
    assert_eq!(floor_in(&left.ledger, 1), 5);
}

/// Needs the next task to be let in by the drop.
#[test]
fn a_call_that_is_dropped_while_it_writes_lets_the_next_one_write() {
    let setup = Setup::synced();
    let mut alone = with_home(&setup);
    let ledger = alone.intake.ledger().clone();
    let Alone { world, .. } = &mut alone;
    world.block_on(async {
        ledger.keep(1, settled(3), 0);
        let mut half = Box::pin(ledger.persist());
        let is_half = poll_fn(|context| Poll::Ready(half.as_mut().poll(context).is_pending()));
        assert!(is_half.await);
        ledger.keep(1, settled(4), 0);
        let mut waits = pin!(ledger.persist());
        let mut noop = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut noop).is_pending());
        assert!(ledger.durable() < ledger.changed());
        drop(half);
        waits.await.unwrap();
    });
    assert_eq!(floor_in(&alone.cut_power(&setup).ledger, 1), 4);
}

/// Needs the view by floors alone: by the whole history the entry is void, and is never found again.
#[test]
fn an_entry_that_a_kept_history_makes_void_is_found_when_the_next_heir_sends_it() {
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(61, Setup::answered());
    let term = writer.stream.term;
    let history = move |last| Lineage {
        term: Epoch(term.0 + 2),
        floor: Point { term, version: 2 },
        cuts: [(term, last)].into(),
        ..Lineage::default()
    };
    for _ in 0..4 {
        primary.write(&mut link, &mut writer, 64);
        primary.hear_last(&mut link, &writer);
    }
    assert_eq!(backup.versions(1), [1, 2, 3, 4]);
    // An heir that never served had neither 5 nor 6. The next heir has them.
    backup.with(move |intake| intake.ledger().keep(1, history(4), 0));
    primary.write(&mut link, &mut writer, 64);
    primary.write(&mut link, &mut writer, 64);
    primary.hear_last(&mut link, &writer);
    assert_eq!(backup.versions(1), [1, 2, 3, 4, 5, 6]);
}
