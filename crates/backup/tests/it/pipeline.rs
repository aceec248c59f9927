//! Entries on their way: reported in order, found once, durable when they are reported.

use std::rc::Rc;

use stonecast_backup::StreamName;
use stonecast_fabric_sim::{Features, World};
use stonecast_media::Durability;
use stonecast_replication::{HEADER_SIZE, Kind};

use crate::world::{Backup, Pair, Primary, Setup, Writer, open, recover, settled};

/// The kinds of plans, on devices that pack messages and on devices that do not.
fn setups() -> [(&'static str, Setup); 6] {
    let (one_sided, answered) = (Setup::one_sided(), Setup::answered());
    let process = Setup {
        durability: Durability::Process,
        ..answered
    };
    let slots = |setup| Setup {
        features: Features::COMMON,
        ..setup
    };
    [
        ("one-sided", one_sided),
        ("answered", answered),
        ("synced", Setup::synced()),
        ("arrival", process),
        ("one-sided in slots", slots(one_sided)),
        ("answered in slots", slots(answered)),
    ]
}

#[test]
fn entries_of_two_shards_are_reported_in_order_and_found_once_whatever_the_plan() {
    const ENTRIES: u64 = 40;
    for (plan, setup) in setups() {
        let world = Rc::new(World::new(3));
        let backup = Backup::start(&world, setup);
        let primary = Primary::start(&world, &setup, "a");
        let mut writers = [Writer::of(1), Writer::of(2)];
        for writer in &writers {
            open(&backup, writer, "a");
        }
        let mut link = primary.link();
        let (mut sent, mut reported) = (Vec::new(), Vec::new());
        for turn in 0..ENTRIES {
            let writer = &mut writers[(turn % 3 == 0) as usize];
            let body_size = [1, 64, 300][turn as usize % 3];
            primary.credited(&mut link, (HEADER_SIZE + body_size) as u32);
            writer.append(&mut link, body_size).unwrap();
            sent.push((writer.stream, writer.last));
            if turn % 4 == 3 {
                link.flush().unwrap();
                while reported.len() < sent.len() {
                    let report = world.block_on(link.report()).unwrap();
                    assert_eq!(report.connection, link.connection());
                    reported.push((report.stream, report.version));
                }
            }
        }
        assert_eq!(reported, sent, "{plan}");
        for writer in writers {
            let shard = writer.stream.shard;
            backup.wait(|backup| backup.versions(shard).len() as u64 >= writer.last);
            assert!(
                backup.versions(shard).into_iter().eq(1..=writer.last),
                "{plan}"
            );
        }
        assert_eq!(backup.trouble(), None, "{plan}");
    }
}

/// Needs the whole plan, and the ledger and header of each segment before it is posted. Three segments come round
/// between the power cuts.
#[test]
fn a_power_cut_after_any_event_takes_no_entry_that_was_reported() {
    const ENTRIES: u64 = 72;
    for (plan, setup) in setups() {
        if setup.durability == Durability::Process {
            continue;
        }
        let setup = Setup {
            segments: 3,
            ..setup
        };
        let Pair {
            world,
            backup,
            mut writer,
            mut link,
            ..
        } = Pair::begin(5, setup);
        let (mut reported, mut floor, mut cuts, mut looked) = (0, 0, 0, 0);
        while reported < ENTRIES {
            let body_size = 840 + writer.last as usize % 100;
            while writer.last < ENTRIES && writer.append(&mut link, body_size).is_ok() {}
            link.flush().unwrap();
            assert!(world.step(), "{plan}");
            while let Some(report) = link.take_report().unwrap() {
                reported = report.version;
            }
            let found = backup.versions(1).last().copied().unwrap_or(0);
            if found >= floor + 8 {
                floor = found - 4;
                backup.with(move |intake| intake.ledger().keep(1, settled(floor), 0));
            }
            if world.events() >= looked + 5 {
                looked = world.events();
                cuts += 1;
                let (region, format) = (backup.least_region(), setup.format());
                let kept = recover(&*region, &format).entries(&*region, &format);
                assert!(
                    (floor + 1..=reported).all(|version| kept.contains(&(1, version))),
                    "{plan}"
                );
            }
        }
        assert!(cuts > 10, "{plan}: {cuts} power cuts");
        let left = recover(&*backup.region(), &setup.format());
        let has_turned = left.segments.iter().any(|state| state.generation > 1);
        assert!(has_turned, "{plan}: no segment was used again");
    }
}

/// Needs the last piece: a window has room for one message, and the rest of the record is not even sent when the first
/// piece is durable.
pub fn a_record_in_pieces_is_reported_when_all_of_them_are_durable() {
    for (plan, setup) in setups() {
        let setup = Setup {
            window_size: 1024,
            ..setup
        };
        let Pair {
            world,
            backup,
            primary,
            mut writer,
            mut link,
        } = Pair::begin(6, setup);
        for body_size in [3000, 20, 960, 961, 2500] {
            while writer.append(&mut link, body_size).is_err() {
                primary.credited(&mut link, 4000);
                assert!(link.take_report().unwrap().is_none(), "{plan}: early");
            }
            link.flush().unwrap();
            let report = world.block_on(link.report()).unwrap();
            assert_eq!(report.version, writer.last, "{plan}");
            let (region, format) = (backup.least_region(), setup.format());
            let found = recover(&*region, &format).messages(&*region, &format);
            let durable = found.iter().filter(|&&entry| entry == (1, writer.last));
            let pieces = body_size.div_ceil(1024 - HEADER_SIZE);
            if setup.durability == Durability::Power {
                assert_eq!(durable.count(), pieces, "{plan}: {body_size} bytes");
            }
            backup.wait(|backup| {
                let found = backup.found();
                let found = found.iter().filter(|one| one.entry.version == writer.last);
                found
                    .map(|one| one.place.size as usize - HEADER_SIZE)
                    .sum::<usize>()
                    == body_size
            });
        }
        assert_eq!(backup.trouble(), None, "{plan}");
    }
}

#[test]
fn a_record_that_is_longer_than_a_window_is_persisted_whole() {
    a_record_in_pieces_is_reported_when_all_of_them_are_durable();
}

/// Needs the chain of the pieces: the next connection begins with the first piece again.
#[test]
fn a_primary_that_dies_between_two_pieces_sends_the_record_again_and_none_is_found_twice() {
    for (plan, setup) in setups() {
        let setup = Setup {
            window_size: 2048,
            ..setup
        };
        let world = Rc::new(World::new(7));
        let backup = Backup::start(&world, setup);
        let mut writer = Writer::of(1);
        open(&backup, &writer, "a");
        for connection in 1..=3 {
            let primary = Primary::start(&world, &setup, "a");
            let mut link = primary.link();
            primary.credited(&mut link, 1024);
            let begun = writer.append(&mut link, 5000);
            assert!(begun.is_err(), "{plan}: a part of the record has credit");
            link.flush().unwrap();
            backup.wait(|backup| !backup.found().is_empty());
            primary.process.kill();
            backup.wait(|backup| backup.ended().len() == connection);
        }
        let primary = Primary::start(&world, &setup, "a");
        let mut link = primary.link();
        while writer.append(&mut link, 5000).is_err() {
            primary.credited(&mut link, 1024);
        }
        link.flush().unwrap();
        primary.hear_last(&mut link, &writer);
        backup.wait(|backup| backup.found().len() == 6);
        let offsets = backup.found().into_iter().map(|found| found.piece.offset);
        assert!(offsets.eq((0..6).map(|nth| nth * 960)), "{plan}");
        assert_eq!(backup.trouble(), None, "{plan}");
    }
}

/// Needs the chain of each stream: an answer for the third entry would speak for the second, which never came.
pub fn an_entry_behind_a_gap_is_neither_handed_on_nor_reported() {
    let setup = Setup::answered();
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(9, setup);
    primary.write(&mut link, &mut writer, 64);
    assert_eq!(primary.reported(&mut link), Ok(1));
    writer.last = 2;
    primary.write(&mut link, &mut writer, 64);
    primary.sleep(1_000_000);
    assert!(link.take_report().unwrap().is_none());
    assert_eq!(backup.versions(1), [1]);
}

#[test]
fn nothing_behind_a_gap_is_told() {
    an_entry_behind_a_gap_is_neither_handed_on_nor_reported();
}

/// Needs the join in answers: the backup has dropped the entries of the earlier join, and stands still when they are
/// sent again.
pub fn an_answer_about_an_earlier_join_persists_nothing_of_a_later_one() {
    let setup = Setup::answered();
    let Pair {
        world,
        backup,
        primary,
        mut writer,
        mut link,
    } = Pair::begin(11, setup);
    for version in 1..=3 {
        primary.write(&mut link, &mut writer, 64);
        assert_eq!(primary.reported(&mut link), Ok(version));
    }
    let mut again = Writer {
        stream: StreamName {
            join: 1,
            ..writer.stream
        },
        last: 0,
    };
    open(&backup, &again, "a");
    backup.process.pause(3_000_000);
    primary.write(&mut link, &mut again, 64);
    primary.sleep(1_000_000);
    assert!(
        link.take_report().unwrap().is_none(),
        "the backup stands still"
    );
    let report = world.block_on(link.report()).unwrap();
    assert_eq!((report.stream.join, report.version), (1, 1));
}

#[test]
fn a_report_speaks_for_its_own_join() {
    an_answer_about_an_earlier_join_persists_nothing_of_a_later_one();
}

/// Needs a report of each entry: the rules of a primary count horizons, and without their reports take the next record
/// to be out of order.
#[test]
fn a_horizon_reaches_the_backup_and_is_reported_in_its_turn() {
    for setup in [Setup::one_sided(), Setup::answered()] {
        let Pair {
            world,
            backup,
            primary,
            mut writer,
            mut link,
        } = Pair::begin(13, setup);
        primary.write(&mut link, &mut writer, 64);
        let mut idle = writer.entry(1, 1);
        (idle.horizon, idle.kind) = (1, Kind::Horizon);
        link.append(0, &idle, b"").unwrap();
        primary.write(&mut link, &mut writer, 64);
        let reports = [(); 3].map(|()| world.block_on(link.report()).unwrap());
        let reports = reports.map(|report| (report.version, report.kind));
        let expected = [(1, Kind::Record), (1, Kind::Horizon), (2, Kind::Record)];
        assert_eq!(reports, expected);
        backup.wait(|backup| backup.found().len() == 3);
        let horizons = backup.found().into_iter().map(|found| found.entry.horizon);
        assert_eq!(horizons.max(), Some(1));
    }
}

/// Bytes of the medium for each byte of entries with values of 64 bytes, over whole segments.
#[test]
fn the_backup_stores_hardly_more_than_the_entries() {
    let setup = Setup {
        segment_size: 256 * 1024,
        window_size: 8 * 1024,
        ..Setup::one_sided()
    };
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(15, setup);
    let before = backup.module.counts();
    let mut entries = 0;
    while entries < 600 * 1024 {
        primary.write(&mut link, &mut writer, 64);
        entries += 128;
        while link.take_report().unwrap().is_some() {}
    }
    primary.hear_last(&mut link, &writer);
    let stored = (backup.module.counts() - before).bytes_stored;
    let amplification = stored as f64 / f64::from(entries);
    assert!((1.0..1.05).contains(&amplification), "{amplification}");
}
