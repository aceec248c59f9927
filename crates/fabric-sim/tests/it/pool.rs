//! A pool in the simulated world: it opens, it closes, and its header opens again after a power cut.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric_sim::{
    Fate, MachineOptions, MachineProfile, Module, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing, Blob, Ddio, Durability, MediaError, OpenMode, PersistenceDomain, Pool, PoolOptions,
    Prepared, persist_spans,
};

use crate::support::platform;

const SEGMENT_SIZE: u64 = 1 << 18;

fn module(domain: PersistenceDomain) -> (World, stonecast_fabric_sim::Machine, Rc<Module>) {
    let world = World::new(1);
    let options = MachineOptions {
        platform: platform(domain, Ddio::On),
        ..MachineOptions::new(MachineProfile::MODERN)
    };
    let machine = world.machine(options);
    let module = world.module(machine, Survivor::default());
    (world, machine, module)
}

fn options(domain: PersistenceDomain, durability: Durability) -> PoolOptions {
    let platform = platform(domain, Ddio::On);
    PoolOptions {
        capacity: 4 * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        shards: 1,
        cluster_seed: None,
        platform,
        durability,
        entropy: [5; 64],
    }
}

fn open(module: &Rc<Module>) -> Result<Pool, MediaError> {
    Pool::open(Rc::new(SimBacking::new(module)), OpenMode::Serve).map(|(pool, _)| pool)
}

#[test]
fn a_pool_opens_closes_and_opens_again() {
    let (_world, _, module) = module(PersistenceDomain::Dmp);
    assert!(matches!(open(&module), Err(MediaError::NotFound { .. })));
    let pool = Pool::create(
        Rc::new(SimBacking::new(&module)),
        options(PersistenceDomain::Dmp, Durability::Power),
    )
    .unwrap();
    pool.close().unwrap();
    let pool = open(&module).unwrap();
    assert!(pool.was_clean() && pool.same_power_cycle());
    assert_eq!(pool.opening(), 2);
}

#[test]
fn a_medium_refuses_promises_that_it_cannot_keep() {
    for (truth, declared) in [
        (PersistenceDomain::PageFile, PersistenceDomain::Dmp),
        (PersistenceDomain::PageFile, PersistenceDomain::Wsp),
        (PersistenceDomain::Dmp, PersistenceDomain::Volatile),
    ] {
        let (_world, _, module) = module(truth);
        let refused = Pool::create(
            Rc::new(SimBacking::new(&module)),
            options(declared, Durability::Power),
        );
        assert!(
            matches!(refused, Err(MediaError::CannotPromise { .. })),
            "{truth:?} declared {declared:?}"
        );
    }
}

/// Makes a pool, and closes it.
fn make_and_close(module: &Rc<Module>) {
    let options = options(PersistenceDomain::Dmp, Durability::Power);
    let pool = Pool::create(Rc::new(SimBacking::new(module)), options);
    pool.unwrap().close().unwrap();
}

#[test]
fn a_power_cut_in_any_store_of_a_header_leaves_a_pool_that_opens() {
    for stores in 0..2 {
        let (world, machine, module) = module(PersistenceDomain::Dmp);
        make_and_close(&module);
        let backing = Rc::new(SimBacking::new(&module));
        backing.cut_power_after(stores);
        assert!(Pool::open(backing.clone(), OpenMode::Serve).is_err());
        assert!(backing.power_was_cut());
        let wreck = world.wreck(machine, &module);
        module.restart(wreck.survivor(&vec![Fate::default(); wreck.undecided()]));
        let pool = open(&module).unwrap();
        assert!(!pool.same_power_cycle());
        assert!(
            pool.opening() >= 2,
            "store {stores}: opening {}",
            pool.opening()
        );
    }
}

#[test]
fn space_is_prepared_in_its_time_and_runs_out() {
    let (world, _, module) = module(PersistenceDomain::Dmp);
    let backing = SimBacking::new(&module);
    let _pool = Pool::create(
        Rc::new(SimBacking::new(&module)),
        options(PersistenceDomain::Dmp, Durability::Power),
    )
    .unwrap();
    module.limit_space(SEGMENT_SIZE);
    let first = Span::new(0, SEGMENT_SIZE);
    assert_eq!(backing.prepare(first).unwrap(), Prepared::Pending);
    world.block_on(world.observer().sleep(1_000_000));
    assert_eq!(backing.prepare(first).unwrap(), Prepared::Ready);
    assert!(matches!(
        backing.prepare(Span::new(SEGMENT_SIZE, SEGMENT_SIZE)),
        Err(MediaError::NoSpace { .. })
    ));
    assert_eq!(
        backing.prepare(first).unwrap(),
        Prepared::Ready,
        "a prepared span stays prepared"
    );
}

/// Needs `Survivor` without times: those of one world mean nothing in another, where a recovery begins at zero.
#[test]
fn a_survivor_has_the_space_that_was_prepared_and_none_that_was_being_prepared() {
    let (world, machine, first) = module(PersistenceDomain::Dmp);
    let create = |module: &Rc<Module>| {
        let backing = Rc::new(SimBacking::new(module));
        Pool::create(backing, options(PersistenceDomain::Dmp, Durability::Power)).unwrap()
    };
    let _pool = create(&first);
    let [done, underway] = [0, SEGMENT_SIZE].map(|offset| Span::new(offset, SEGMENT_SIZE));
    let backing = SimBacking::new(&first);
    assert_eq!(backing.prepare(done).unwrap(), Prepared::Pending);
    world.block_on(world.observer().sleep(1_000_000));
    assert_eq!(backing.prepare(underway).unwrap(), Prepared::Pending);
    let wreck = world.wreck(machine, &first);
    let survivor = wreck.survivor(&vec![Fate::default(); wreck.undecided()]);

    let after = World::new(1);
    let machine = after.machine(MachineOptions::new(MachineProfile::MODERN));
    let backing = SimBacking::new(&after.module(machine, survivor));
    assert_eq!(backing.prepare(done).unwrap(), Prepared::Ready);
    assert_eq!(backing.prepare(underway).unwrap(), Prepared::Pending);
    after.block_on(after.observer().sleep(1_000_000));
    assert_eq!(backing.prepare(underway).unwrap(), Prepared::Ready);
}

#[test]
fn a_log_reports_the_pages_that_hold_data() {
    let (world, _, module) = module(PersistenceDomain::Dmp);
    let backing: Rc<dyn Backing> = Rc::new(SimBacking::new(&module));
    let pool = Pool::create(
        backing.clone(),
        options(PersistenceDomain::Dmp, Durability::Power),
    )
    .unwrap();
    assert_eq!(backing.occupied().unwrap(), []);
    let log = pool.log();
    log.write(5000, &[1]);
    log.write(8191, &[1, 1]);
    log.write(SEGMENT_SIZE, &[1]);
    world
        .block_on(persist_spans(&*log, &[Span::new(5000, 1)]))
        .unwrap();
    assert_eq!(
        backing.occupied().unwrap(),
        [Span::new(4096, 8192), Span::new(SEGMENT_SIZE, 4096)]
    );
    assert_eq!(backing.load(Blob::Checkpoint).unwrap(), None);
}

/// Needs the log to grow before the header says so.
#[test]
fn a_power_cut_in_any_store_of_a_growth_leaves_a_pool_of_the_old_or_the_new_capacity() {
    let (before, after) = (4 * SEGMENT_SIZE, 7 * SEGMENT_SIZE);
    // The length of the log, and two copies of the header.
    for stores in 0..=3 {
        let (world, machine, module) = module(PersistenceDomain::Dmp);
        make_and_close(&module);
        let backing = SimBacking::new(&module);
        backing.cut_power_after(stores);
        let grown = Pool::grow(&backing, after);
        assert_eq!(grown.is_ok(), stores == 3);
        assert_eq!(backing.power_was_cut(), stores < 3);
        let wreck = world.wreck(machine, &module);
        module.restart(wreck.survivor(&vec![Fate::default(); wreck.undecided()]));
        let pool = open(&module).unwrap();
        let expected = if stores < 2 { before } else { after };
        assert_eq!(pool.capacity(), expected, "store {stores}");
        assert!(pool.was_clean());
        pool.close().unwrap();
        let growth = Pool::grow(&SimBacking::new(&module), after).unwrap();
        assert_eq!((growth.from, growth.to), (expected, after));
        assert_eq!(open(&module).unwrap().capacity(), after);
    }
}
