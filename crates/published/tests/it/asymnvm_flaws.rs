//! The flaws of AsymNVM as published, each with a schedule that shows it (`docs/design/0043-asymnvm-as-published.md`).
//! `crates/structures/tests/it/flaws.rs` runs the same schedules on `structures`.

use stonecast_base::{Nanoseconds, Span};
use stonecast_media::Ddio;
use stonecast_published::asymnvm::{
    AsymSession, AsymWriter, BlockClient, LockedRead, MemoryLog, OperationLog, SnRule, Variant,
};
use stonecast_structures::shapes::StructureKind;

use crate::asymnvm_scene::{AsymScene, LAYOUT, change, description, writer_options};

/// A place in the slabs.
fn place(number: u64) -> u64 {
    LAYOUT.data(0).offset + 4096 + number * 64
}

fn storing(place: u64, value: u64) -> MemoryLog {
    let mut log = MemoryLog::default();
    log.push(place, &value.to_le_bytes());
    log
}

/// The back-end is gone for good behind an acknowledgement, or a while later: the front-end did not wait for the
/// mirror.
#[test]
fn a1_an_operation_that_was_acknowledged_is_not_in_the_mirror_when_the_back_end_is_gone() {
    let found_after = |pause_ns: Nanoseconds| {
        let scene = AsymScene::new(Ddio::Off);
        let (back_end, mirror) = (scene.open(), scene.open_mirror());
        scene.serve(&mirror);
        scene.replicate(&back_end);
        let [(_process, mut session)] = scene.sessions(&back_end);
        scene.world.block_on(async {
            let operation = OperationLog(b"insert 7".to_vec());
            let logged = session.append_operation(&operation).await.unwrap();
            session.read(&[logged]).await.unwrap();
            session.settle(0).await.unwrap();
        });
        scene.pass(pause_ns);
        scene.cut_power();
        scene.pass(1_000_000);
        let (_, operations) = scene.world.block_on(mirror.1.recover(0)).unwrap();
        operations.contains(&b"insert 7".to_vec())
    };
    assert!(!found_after(0), "acknowledged and lost");
    assert!(found_after(1_000_000), "it was on its way");
}

/// The NIC acknowledges what the processor's cache has: the machine of the paper has DDIO, and nobody flushes.
#[test]
fn a2_an_operation_that_the_nic_acknowledged_is_lost_with_the_power() {
    let found_after = |ddio: Ddio, is_flushed: bool| {
        let scene = AsymScene::new(ddio);
        let back_end = scene.open();
        let [(_process, mut session)] = scene.sessions(&back_end);
        scene.world.block_on(async {
            let operation = OperationLog(b"insert 7".to_vec());
            let logged = session.append_operation(&operation).await.unwrap();
            if is_flushed {
                session.read(&[logged]).await.unwrap();
            }
            session.settle(0).await.unwrap();
        });
        scene.cut_power();
        let (_process, back_end) = scene.open();
        let (_, operations) = scene.world.block_on(back_end.recover(0)).unwrap();
        operations.contains(&b"insert 7".to_vec())
    };
    assert!(!found_after(Ddio::On, false), "acknowledged and lost");
    assert!(!found_after(Ddio::On, true), "no READ helps");
    assert!(found_after(Ddio::Off, true), "it was there to be lost");
}

#[test]
fn a3_the_record_of_a_lock_that_was_never_won_frees_the_lock_of_another() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    let [(dying, mut first), (_two, mut second), (_three, mut third)] = scene.sessions(&back_end);
    scene.world.block_on(async {
        second.write_lock(2).await.unwrap();
        first.lock_ahead(1).await.unwrap();
        dying.kill();
        assert!(!third.try_lock(3).await.unwrap());
        assert!(back_end.1.free_lock_of_the_dead(0).await.unwrap());
        assert!(third.try_lock(3).await.unwrap(), "two writers at once");
    });
}

/// The first writer stands still for longer than its lease.
#[test]
fn a4_a_writer_that_wakes_up_overwrites_what_its_successor_was_acknowledged() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    let [(_one, mut first), (_two, mut second)] = scene.sessions(&back_end);
    scene.world.block_on(async {
        first.write_lock(1).await.unwrap();
        first.fetch_tail().await.unwrap();
        back_end.1.free_lock_of_the_dead(0).await.unwrap();
        second.write_lock(2).await.unwrap();
        second.fetch_tail().await.unwrap();
        append(&mut second, storing(place(2), 22)).await;
        second.write_unlock().await.unwrap();
        append(&mut first, storing(place(1), 11)).await;
        back_end.1.recover(0).await.unwrap();
    });
    let memory = scene.memory();
    assert_eq!(memory.load(place(1)), 11);
    assert_eq!(memory.load(place(2)), 0, "acknowledged and overwritten");
}

async fn append(session: &mut AsymSession, log: MemoryLog) {
    session.append_transaction(log, true).await.unwrap();
    session.settle(0).await.unwrap();
}

#[test]
fn a5_a_release_by_a_plain_write_releases_the_lock_of_another() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    let [(_one, mut first), (_two, mut second), (_three, mut third)] = scene.sessions(&back_end);
    scene.world.block_on(async {
        first.write_lock(1).await.unwrap();
        back_end.1.free_lock_of_the_dead(0).await.unwrap();
        second.write_lock(2).await.unwrap();
        first.write_unlock().await.unwrap();
        assert!(third.try_lock(3).await.unwrap(), "two writers at once");
    });
}

/// Tries to read two words that are always written together, once for each try, while they are written. Returns how
/// many tries counted, and in how many of these the words differ.
fn pairs_that_differ(
    tries: u32,
    try_one: impl AsyncFn(&mut AsymSession, &[Span]) -> Option<Vec<Vec<u8>>>,
) -> (u32, u32) {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    scene.serve(&back_end);
    let [(writing, mut writer), (_reading, mut reader)] = [scene.session(), scene.session()];
    writing.runtime().spawn(Box::pin(async move {
        for value in 1..200_u64 {
            let mut log = storing(place(0), value);
            (1..500).for_each(|filler| log.push(place(filler), &[7; 8]));
            log.push(place(500), &value.to_le_bytes());
            append(&mut writer, log).await;
        }
    }));
    scene.world.block_on(async {
        let (mut read, mut differ) = (0, 0);
        let places = [place(0), place(500)].map(|place| Span::new(place, 8));
        for _ in 0..tries {
            if let Some(words) = try_one(&mut reader, &places).await {
                read += 1;
                differ += u32::from(words[0] != words[1]);
            }
        }
        (read, differ)
    })
}

#[test]
fn a6_a_reader_that_waits_for_an_odd_number_reads_while_the_structure_changes() {
    let by_rule = |rule| {
        pairs_that_differ(400, async move |reader, places| {
            let number = reader.reader_lock(rule).await.unwrap()?;
            let words = reader.read(places).await.unwrap();
            let is_same = reader.reader_unlock(number).await.unwrap();
            is_same.then_some(words)
        })
    };
    let (read, differ) = by_rule(SnRule::AsPrinted);
    assert!(differ > 0, "{read} pairs");
    let (read, differ) = by_rule(SnRule::Even);
    assert!(read > 0 && differ == 0, "{differ} of {read} pairs");
}

/// Needs both looks, and the odd numbers: without one of them a reader takes half of a transaction for whole.
#[test]
fn pairs_are_whole_with_one_two_and_three_round_trips_of_a_reader() {
    for reads in [
        LockedRead::Apart,
        LockedRead::LookBehind,
        LockedRead::Together,
    ] {
        let (read, differ) = pairs_that_differ(2000, async |reader, places| {
            reader.read_locked(places, reads).await.unwrap()
        });
        assert!(
            read > 0 && read < 2000 && differ == 0,
            "{reads:?}: {differ} of {read} pairs"
        );
    }
}

#[test]
fn a7_a_front_end_with_a_cache_goes_on_to_read_what_was_changed() {
    let kind = StructureKind::BTree;
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    scene.serve(&back_end);
    let loaded = (0..10).map(|key| change(kind, key, key));
    AsymWriter::load(&*scene.memory(), (LAYOUT, 0), description(kind), loaded).unwrap();
    let [(_one, first), (_two, second)] = [scene.session(), scene.session()];
    scene.world.block_on(async {
        let options = writer_options(Variant::Rc);
        let mut writer = AsymWriter::open(first, options, None).await.unwrap();
        let mut other = AsymWriter::open(second, options, None).await.unwrap();
        let key = 7_u64.to_be_bytes();
        let old = other.get(&key).await.unwrap();
        writer.run(&[change(kind, 7, 70)]).await.unwrap();
        writer.settle().await.unwrap();
        scene.world.observer().sleep(10_000_000).await;
        assert_eq!(other.get(&key).await.unwrap(), old, "stale for ever");
    });
}

/// The back-end reclaims a while after the change. The reader takes longer than that between two READs.
#[test]
fn a8_a_reader_that_takes_its_time_reads_memory_that_was_given_to_another() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    scene.serve(&back_end);
    let [(_one, writer), (_two, mut words), (_three, mut reader)] =
        [(); 3].map(|()| scene.session());
    scene.world.block_on(async {
        let mut blocks = BlockClient::new(writer);
        let root = Span::new(LAYOUT.territory(0).root.offset, 8);
        let old = blocks.allocate(4096).await.unwrap();
        let writes = [
            (old, b"the node".to_vec()),
            (root.offset, old.to_le_bytes().to_vec()),
        ];
        words.post_flushed(&writes).await.unwrap();
        words.settle(0).await.unwrap();
        let found = reader.read(&[root]).await.unwrap();
        let node = u64::from_le_bytes(*found[0].first_chunk().unwrap());
        // The version changes, the old block is released and, later, used again.
        let new = blocks.allocate(4096).await.unwrap();
        let switch = [(root.offset, new.to_le_bytes().to_vec())];
        words.post_flushed(&switch).await.unwrap();
        blocks.free(old, 4096).await.unwrap();
        while blocks.allocate(4096).await.unwrap() != old {}
        let stranger = [(old, b"stranger".to_vec())];
        words.post_flushed(&stranger).await.unwrap();
        words.settle(0).await.unwrap();
        let read = reader.read(&[Span::new(node, 8)]).await.unwrap();
        assert_eq!(read[0], b"stranger");
    });
}

/// The back-end is slow, and the operation log begins again: its operations are in the memory log, so nothing keeps
/// them.
#[test]
fn a9_a_memory_log_that_points_to_the_operation_log_writes_what_came_later() {
    let scene = AsymScene::new(Ddio::Off);
    let back_end = scene.open();
    let [(_process, mut session)] = scene.sessions(&back_end);
    let read = scene.world.block_on(async {
        let value = OperationLog(b"a value of 24 bytes here".to_vec());
        let logged = session.append_operation(&value).await.unwrap();
        let mut log = MemoryLog::default();
        log.push_pointer(place(0), logged);
        append(&mut session, log).await;
        for _ in 0..3_000 {
            let later = OperationLog(b"another value, much later".to_vec());
            session.append_operation(&later).await.unwrap();
        }
        session.settle(0).await.unwrap();
        back_end.1.recover(0).await.unwrap();
        session.read(&[Span::new(place(0), 24)]).await.unwrap()
    });
    assert_ne!(read[0], b"a value of 24 bytes here");
}

/// Everything is applied, and the back-end starts again: behind LPN lie transactions of the round before.
#[test]
fn a10_a_transaction_of_an_earlier_round_checks_and_is_applied_again() {
    let scene = AsymScene::new(Ddio::Off);
    let serving = scene.open();
    scene.serve(&serving);
    let (_process, mut session) = scene.session();
    let last = 3_000;
    scene.world.block_on(async {
        for value in 1..=last {
            append(&mut session, storing(place(0), value)).await;
        }
    });
    scene.pass(10_000_000);
    let memory = scene.memory();
    assert_eq!(memory.load(place(0)), last);
    serving.0.kill();
    let (_process, back_end) = scene.open();
    let (applied, _) = scene.world.block_on(back_end.recover(0)).unwrap();
    assert!(applied > 0);
    assert!(memory.load(place(0)) < last, "back in time");
}
