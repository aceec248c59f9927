//! Segments and floors: used again, given back, kept.

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use stonecast_backup::{Holes, LedgerError, Lent};
use stonecast_base::Span;
use stonecast_fabric_sim::Features;
use stonecast_log::{Heritage, SegmentState};
use stonecast_replication::{AppendKey, HEADER_SIZE};

use crate::world::{Alone, NONCE, Pair, Primary, Setup, overspend, settled};

/// Segments come round forever: the floors settle what was found.
#[test]
fn segments_are_used_again_when_the_floors_settle_what_is_in_them() {
    let setup = Setup {
        segments: 4,
        ..Setup::one_sided()
    };
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(39, setup);
    // As many entries as fill all segments five times.
    for _ in 0..5 * 4 * 16 {
        primary.write(&mut link, &mut writer, 900);
        while link.take_report().unwrap().is_some() {}
        let found = backup.versions(1).last().copied().unwrap_or(0);
        backup.with(move |intake| intake.ledger().keep(1, settled(found), 0));
    }
    assert!(
        backup
            .versions(1)
            .iter()
            .copied()
            .eq(1..=backup.versions(1).len() as u64)
    );
    assert_eq!(backup.trouble(), None);
}

/// Needs the floors to be durable elsewhere first: the segment that goes back has held the last ledger with those
/// floors.
pub fn a_segment_goes_back_to_records_behind_the_floors_that_settle_its_entries() {
    let setup = Setup {
        segments: 4,
        ..Setup::answered()
    };
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(53, setup);
    // Three segments are full.
    while writer.last < 3 * 15 {
        primary.write(&mut link, &mut writer, 900);
        primary.hear_last(&mut link, &writer);
    }
    assert_eq!(backup.with(|intake| intake.segments_spare()), 0);
    let last = writer.last;
    backup.with(move |intake| intake.ledger().keep(1, settled(last), 0));
    backup.wait(|backup| backup.with(|intake| intake.segments_spare()) > 0);
    let heritage = Heritage {
        tokens_lost: 5,
        sequence_floor: 11,
    };
    backup.with(move |intake| intake.ask_back(heritage));
    let returned: Rc<RefCell<Vec<SegmentState>>> = Rc::default();
    backup.wait(|backup| {
        let mut states = backup.with(|intake| intake.take_returned());
        returned.borrow_mut().append(&mut states);
        !returned.borrow().is_empty()
    });
    let state = returned.borrow()[0];
    assert_eq!(state.heritage, heritage);
    assert!(state.is_blank());
    let left = backup.least();
    assert!(left.segments.iter().all(|held| held.number != state.number));
    assert_eq!(left.ledger.lineages().of(1), Some(&settled(last)));
    // The store lends it again.
    let (number, before) = (state.number, Some(state));
    backup.with(move |intake| {
        intake.lend(Lent {
            number,
            before,
            heritage,
        });
    });
    while writer.last < 6 * 15 {
        primary.write(&mut link, &mut writer, 900);
        primary.hear_last(&mut link, &writer);
        backup.with(move |intake| intake.ledger().keep(1, settled(last), 0));
    }
    assert_eq!(backup.trouble(), None);
}

#[test]
fn segments_go_back_to_records() {
    a_segment_goes_back_to_records_behind_the_floors_that_settle_its_entries();
}

/// Needs the spans of a step to stay until they are durable: the story gives up half of all calls while a file is
/// synced.
pub fn a_settle_that_is_dropped_half_way_is_done_again() {
    let setup = Setup::synced();
    let mut alone = Alone::start(51, &setup);
    alone.lend_two();
    let Alone { world, intake, .. } = &mut alone;
    let dropped = world.block_on(async {
        let mut dropped = 0;
        for _ in 0..24 {
            let mut half = Box::pin(intake.settle());
            let is_half = poll_fn(|context| Poll::Ready(half.as_mut().poll(context).is_pending()));
            dropped += u32::from(is_half.await);
            drop(half);
            intake.settle().await.unwrap();
        }
        dropped
    });
    assert!(dropped > 4, "{dropped} calls were given up");
    assert_eq!(alone.cut_power(&setup).segments.len(), 2);
}

#[test]
fn futures_may_be_dropped() {
    a_settle_that_is_dropped_half_way_is_done_again();
}

/// A call that was given up neither takes back earlier floors nor holds up the next call.
#[test]
fn floors_that_were_kept_outlive_a_power_cut_whatever_calls_were_given_up_since() {
    let setup = Setup::synced();
    for (given_up, last) in (0..6).flat_map(|given_up| [(given_up, false), (given_up, true)]) {
        let mut alone = Alone::start(55, &setup);
        let Alone { world, intake, .. } = &mut alone;
        let kept = world.block_on(async { intake.ledger().persist().await });
        assert!(matches!(kept, Err(LedgerError::NoHome)));
        alone.lend_two();
        let Alone { world, intake, .. } = &mut alone;
        world.block_on(async {
            for _ in 0..12 {
                intake.settle().await.unwrap();
            }
            intake.ledger().keep(1, settled(7), 0);
            intake.ledger().persist().await.unwrap();
            for _ in 0..given_up {
                intake.ledger().keep(1, settled(9), 0);
                let mut half = Box::pin(intake.ledger().persist());
                let is_half =
                    poll_fn(|context| Poll::Ready(half.as_mut().poll(context).is_pending()));
                assert!(is_half.await, "a sync takes its time");
            }
            if last {
                intake.ledger().keep(1, settled(10), 0);
                intake.ledger().persist().await.unwrap();
            }
        });
        let left = alone.cut_power(&setup);
        let floor = left.ledger.lineages().of(1).unwrap().floor.version;
        match last {
            true => assert_eq!(floor, 10),
            false => assert!((7..=9).contains(&floor), "{given_up} calls: {floor}"),
        }
    }
}

/// Needs the places that are left: entries under the key of another pool look like nothing, and the node has to say
/// where to look.
#[test]
fn messages_that_are_no_entries_of_this_pool_are_counted_and_the_first_place_is_named() {
    for features in [Features::ALL, Features::COMMON] {
        let setup = Setup {
            features,
            ..Setup::one_sided()
        };
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(89, setup);
        primary.write(&mut link, &mut writer, 64);
        backup.wait(|backup| backup.versions(1) == [1]);
        let before = backup.found().remove(0).place;
        let foreign = AppendKey::new([1, 2], NONCE);
        let mut entry = vec![0; 2 * HEADER_SIZE];
        writer.entry(2, 1).write_header(&foreign, &mut entry);
        let neighbour = Primary::start(&backup.world, &setup, "b");
        overspend(&neighbour, "b", &backup, &[entry]);
        // The place shows when its segment is settled.
        for _ in 0..40 {
            primary.write(&mut link, &mut writer, 900);
            while link.take_report().unwrap().is_some() {}
        }
        let (grain, count) = match features.multi_packet {
            true => (64, 2),
            false => (setup.entry_size_max.into(), 1),
        };
        let behind = before.offset + before.size.next_multiple_of(grain);
        let first = Some(Span::new(behind, grain));
        assert_eq!(backup.with(|intake| intake.holes()), Holes { count, first });
        assert_eq!(backup.trouble(), None);
    }
}
