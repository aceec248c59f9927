//! Credits never run out for good, and never drift.

use std::rc::Rc;

use stonecast_backup::{EndCause, NotSent};
use stonecast_fabric_sim::{Features, World};
use stonecast_replication::HEADER_SIZE;

use crate::world::{
    Backup, Pair, Primary, Setup, Writer, babble, bytes_of, open, overspend, settled,
};

/// Needs the refill when the longest entry cannot be paid: a window of one such entry is never half used while an entry
/// of one line is out.
pub fn a_window_of_one_longest_entry_takes_short_and_long_ones_for_ever() {
    let setup = Setup {
        window_size: 1024,
        ..Setup::one_sided()
    };
    let Pair {
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(21, setup);
    for turn in 0..24 {
        let body_size = [1, 1024 - HEADER_SIZE][turn % 2];
        primary.write(&mut link, &mut writer, body_size);
        while link.take_report().unwrap().is_some() {}
    }
}

#[test]
fn credits_do_not_wedge_in_the_smallest_window() {
    a_window_of_one_longest_entry_takes_short_and_long_ones_for_ever();
}

/// Needs the end of each session to give back its credits. Each session leaves most of its window unused, and dies in a
/// batch.
pub fn after_any_number_of_sessions_the_next_one_finds_the_room_that_there_is() {
    let setup = Setup {
        segments: 16,
        window_size: 8 * 1024,
        sessions_max: 1,
        ..Setup::one_sided()
    };
    let world = Rc::new(World::new(23));
    let backup = Backup::start(&world, setup);
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    for session in 1..=24 {
        let primary = Primary::start(&world, &setup, "a");
        let mut link = primary.link();
        for _ in 0..8 {
            primary.write(&mut link, &mut writer, 400);
        }
        primary.hear_last(&mut link, &writer);
        // The process dies and may take parts of the last batch with it.
        for _ in 0..3 {
            writer.append(&mut link, 100).unwrap();
        }
        link.flush().unwrap();
        primary.sleep(400 * (session % 5));
        primary.process.kill();
        backup.wait(|backup| backup.ended().len() == session as usize);
        writer.last = *backup.versions(1).last().unwrap();
    }
}

#[test]
fn credits_do_not_drift_with_the_ends_of_sessions() {
    after_any_number_of_sessions_the_next_one_finds_the_room_that_there_is();
}

#[test]
fn an_entry_that_nobody_can_pay_or_place_is_refused_and_nothing_has_changed() {
    let setup = Setup::answered();
    let Pair {
        world,
        backup,
        primary,
        mut writer,
        mut link,
    } = Pair::begin(25, setup);
    backup.process.pause(4_000_000);
    let refused = loop {
        match writer.append(&mut link, 900) {
            Ok(()) => link.flush().unwrap(),
            Err(refused) => break refused,
        }
    };
    assert!(
        matches!(refused, NotSent::NoCredit { cost: 16, .. }),
        "{refused}"
    );
    // The backup stands still: the wait has a bound, and the error names the missing credits.
    let credited = link.credited(&primary.runtime, 964, 1_000_000);
    let late = world.block_on(credited).unwrap_err();
    assert_eq!((late.size, late.waited_ns), (964, 1_000_000));
    primary.credited(&mut link, 964);
    primary.hear_last(&mut link, &writer);
}

/// Needs the ring to go on at its start: the third entry of each three does not fit behind the second one.
pub fn memory_of_two_long_entries_sends_any_number_of_them() {
    let setup = Setup::one_sided();
    let world = Rc::new(World::new(27));
    let backup = Backup::start(&world, setup);
    let mut primary = Primary::start(&world, &setup, "a");
    primary.options.staging_size = 1536;
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
    for _ in 0..6 {
        for body_size in [576, 200, 576] {
            primary.credited(&mut link, (HEADER_SIZE + body_size) as u32);
            let mut taken = writer.append(&mut link, body_size);
            while let Err(NotSent::Full { entries }) = taken {
                assert_eq!(entries, 2, "one entry leaves room for another");
                primary.reported(&mut link).unwrap();
                taken = writer.append(&mut link, body_size);
            }
            taken.unwrap();
            link.flush().unwrap();
        }
        primary.hear_last(&mut link, &writer);
    }
}

#[test]
fn staging_memory_never_refuses_what_fits_it() {
    memory_of_two_long_entries_sends_any_number_of_them();
}

/// Needs the search for entries that are settled when they come: they take many windows, which their session needs for
/// other entries. Meanwhile segments come round, full of entries of earlier uses.
pub fn entries_that_the_floors_settle_are_paid_for_and_their_session_goes_on() {
    for setup in [Setup::one_sided(), Setup::answered()] {
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(81, setup);
        backup.with(|intake| intake.ledger().keep(1, settled(1000), 0));
        let mut other = Writer::of(2);
        open(&backup, &other, "a");
        // As many entries as fill all segments twice.
        while writer.last < 2 * 6 * 16 {
            primary.write(&mut link, &mut writer, 900);
            while link.take_report().unwrap().is_some() {}
        }
        primary.write(&mut link, &mut other, 64);
        while primary.reported(&mut link) != Ok(1) {}
        let last = writer.last;
        assert!(backup.versions(1).into_iter().eq(1..=last), "each once");
        assert_eq!(backup.trouble(), None);
    }
}

#[test]
fn settled_entries_wedge_no_session() {
    entries_that_the_floors_settle_are_paid_for_and_their_session_goes_on();
}

/// Needs a bound of the search that counts the places of ended sessions: more slots stay empty than a window has.
pub fn an_entry_behind_more_empty_slots_than_a_window_has_is_found() {
    let setup = Setup {
        features: Features::COMMON,
        ..Setup::one_sided()
    };
    let world = Rc::new(World::new(83));
    let backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    for session in 1..=3 {
        babble(&primary, "a", (3, 64));
        backup.wait(|backup| backup.ended().len() == session);
    }
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
    primary.write(&mut link, &mut writer, 64);
    backup.wait(|backup| backup.versions(1) == [1]);
}

#[test]
fn empty_slots_hide_no_entry() {
    an_entry_behind_more_empty_slots_than_a_window_has_is_found();
}

/// Needs the oldest debt to be forgiven: each session sends little, and owes a window, until nothing is left to give.
#[test]
fn where_debts_leave_no_room_the_next_session_gets_what_the_oldest_one_held() {
    let setup = Setup::one_sided();
    let world = Rc::new(World::new(85));
    let backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    // Two segments pay seven windows and a part of one.
    for session in 1..=12 {
        babble(&primary, "a", (1, 64));
        backup.wait(|backup| backup.ended().len() == session);
    }
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
    for version in 1..=40 {
        primary.write(&mut link, &mut writer, 900);
        assert_eq!(primary.reported(&mut link), Ok(version));
    }
    assert!(backup.versions(1).into_iter().eq(1..=40));
}

/// Needs the account of each session: the sender has the room of four windows, and other nodes would wait.
pub fn a_session_that_uses_more_than_it_was_given_is_ended_with_the_numbers_and_others_go_on() {
    for (features, longest) in [(Features::ALL, 16), (Features::COMMON, 1)] {
        let setup = Setup {
            features,
            look_units: 1024,
            ..Setup::one_sided()
        };
        let world = Rc::new(World::new(87));
        let backup = Backup::start(&world, setup);
        let hostile = Primary::start(&world, &setup, "a");
        let writer = Writer::of(1);
        open(&backup, &writer, "a");
        let entry = |version| bytes_of(&writer.entry(version, version - 1), 900);
        let entries: Vec<_> = (1..=16).map(entry).collect();
        overspend(&hostile, "a", &backup, &entries);
        backup.wait(|backup| backup.ended().len() == 1);
        let cause = backup.ended().remove(0).cause;
        let (granted, used) = (4 * longest, 16 * longest);
        assert_eq!(cause, EndCause::Overdrawn { granted, used });
        assert!(backup.versions(1).into_iter().eq(1..=16), "nothing is lost");

        let neighbour = Primary::start(&world, &setup, "b");
        let mut writer = Writer::of(2);
        open(&backup, &writer, "b");
        let mut link = neighbour.link();
        for version in 1..=40 {
            neighbour.write(&mut link, &mut writer, 900);
            assert_eq!(neighbour.reported(&mut link), Ok(version));
        }
    }
}

#[test]
fn nobody_takes_the_room_of_others() {
    a_session_that_uses_more_than_it_was_given_is_ended_with_the_numbers_and_others_go_on();
}
