//! Streams that close while others go on: no entry waits for a closed stream, and its primary pays for its entries.

use stonecast_backup::{BackupLink, EndCause, NotSent};
use stonecast_fabric_sim::Features;

use crate::world::{Backup, Pair, Primary, Setup, Writer, open};

/// Closes the stream of a writer, whose primary does not know yet.
fn close(backup: &Backup, writer: &Writer) {
    let (shard, term) = (writer.stream.shard, writer.stream.term);
    backup.with(move |intake| intake.close_stream(shard, term));
}

/// Sends entries until the credits are used up.
fn spend(link: &mut BackupLink, writer: &mut Writer) {
    let refused = loop {
        if let Err(refused) = writer.append(link, 64) {
            break refused;
        }
    };
    assert!(matches!(refused, NotSent::NoCredit { .. }), "{refused}");
    link.flush().unwrap();
}

/// Needs the row of the closed stream: no answer comes for the entry that its primary had sent.
pub fn a_stream_that_its_backup_closes_holds_up_no_other() {
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(71, Setup::answered());
    let mut other = Writer::of(2);
    open(&backup, &other, "a");
    primary.write(&mut link, &mut writer, 64);
    assert_eq!(primary.reported(&mut link), Ok(1));
    close(&backup, &writer);
    for writer in [&mut writer, &mut other] {
        writer.append(&mut link, 64).unwrap();
    }
    link.flush().unwrap();
    primary.sleep(1_000_000);
    let report = link.take_report().unwrap().expect("the other goes on");
    assert_eq!((report.stream, report.version), (other.stream, 1));
    let refused = writer.append(&mut link, 64).unwrap_err();
    assert!(matches!(refused, NotSent::Closed(of) if of == writer.stream));
    drop(link);
    // The next connection also hears of the close.
    let mut link = primary.link();
    let refused = writer.append(&mut link, 64).unwrap_err();
    assert!(matches!(refused, NotSent::Closed(..)), "{refused}");
}

#[test]
fn nothing_waits_for_a_closed_stream() {
    a_stream_that_its_backup_closes_holds_up_no_other();
}

/// Needs the call: the backup has never heard of the stream, and closes nothing.
#[test]
fn a_stream_that_its_primary_gives_up_holds_up_no_other() {
    let Pair {
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(73, Setup::answered());
    let mut unknown = Writer::of(9);
    for writer in [&mut unknown, &mut writer] {
        writer.append(&mut link, 64).unwrap();
    }
    link.flush().unwrap();
    primary.sleep(1_000_000);
    assert!(link.take_report().unwrap().is_none(), "shard 9 comes first");
    link.give_up(unknown.stream);
    let report = link.take_report().unwrap().expect("shard 1 goes on");
    assert_eq!(report.stream, writer.stream);
    let refused = unknown.append(&mut link, 64).unwrap_err();
    assert!(matches!(refused, NotSent::Closed(..)), "{refused}");
}

/// Needs the charge for strays of a closed stream: they take a whole window, which their session needs for other
/// streams.
pub fn entries_of_a_closed_stream_are_paid_for_and_their_session_goes_on() {
    for setup in [Setup::one_sided(), Setup::answered()] {
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(75, setup);
        let mut other = Writer::of(2);
        open(&backup, &other, "a");
        close(&backup, &writer);
        spend(&mut link, &mut writer);
        primary.write(&mut link, &mut other, 64);
        backup.wait(|backup| backup.versions(2) == [1]);
    }
}

#[test]
fn strays_of_a_closed_stream_wedge_no_session() {
    entries_of_a_closed_stream_are_paid_for_and_their_session_goes_on();
}

/// Needs the charge at the close: entries that wait behind a gap are never handed on.
#[test]
fn entries_that_wait_when_their_stream_is_closed_or_opened_anew_are_paid_for() {
    for joins_again in [false, true] {
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(77, Setup::answered());
        let mut other = Writer::of(2);
        open(&backup, &other, "a");
        writer.last = 1;
        spend(&mut link, &mut writer);
        primary.sleep(1_000_000);
        assert!(
            backup.versions(1).is_empty(),
            "all of it waits for version 1"
        );
        match joins_again {
            true => {
                writer.stream.join += 1;
                open(&backup, &writer, "a");
            }
            false => close(&backup, &writer),
        }
        primary.write(&mut link, &mut other, 64);
        backup.wait(|backup| backup.versions(2) == [1]);
    }
}

/// Opens the stream of a writer again, whose primary has led on and sends everything behind `after` once more.
fn open_again(backup: &Backup, writer: &Writer, after: u64) {
    let of_history = Writer {
        last: after,
        ..writer.clone()
    };
    open(backup, &of_history, "a");
}

/// Needs the end of the session: the rest of the record follows pieces that the stream has given up, and takes the
/// credits that the first pieces need.
pub fn a_record_goes_on_when_its_stream_opens_again_between_two_pieces() {
    let slots = |setup| Setup {
        features: Features::COMMON,
        ..setup
    };
    let setups = [Setup::one_sided(), Setup::answered()];
    for setup in setups.into_iter().chain(setups.map(slots)) {
        let setup = Setup {
            window_size: 2048,
            ..setup
        };
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(83, setup);
        let mut other = Writer::of(2);
        open(&backup, &other, "a");
        let begun = writer.append(&mut link, 8000);
        assert!(matches!(begun, Err(NotSent::NoCredit { .. })));
        link.flush().unwrap();
        backup.wait(|backup| !backup.found().is_empty());
        open_again(&backup, &writer, 0);
        loop {
            match writer.append(&mut link, 8000) {
                Ok(()) => break,
                Err(NotSent::Ended) => link = primary.link(),
                Err(_) => primary.credited(&mut link, 1024),
            }
        }
        link.flush().unwrap();
        primary.hear_last(&mut link, &writer);
        primary.write(&mut link, &mut other, 64);
        backup.wait(|backup| backup.versions(2) == [1]);
    }
}

#[test]
fn a_stream_that_opens_again_in_the_middle_of_a_record_wedges_no_session() {
    a_record_goes_on_when_its_stream_opens_again_between_two_pieces();
}

/// Needs the entries that wait, and those above a cut, to count like pieces: the next entries of the session follow
/// them.
#[test]
fn a_session_ends_when_a_stream_that_opens_again_gives_up_what_the_session_has_brought() {
    // The stream began behind `before`, has the entries up to 3 from there on, and opens again behind `after`.
    for (before, after, is_given_up) in [(0, 3, false), (0, 2, true), (1, 0, true)] {
        let Pair {
            backup,
            primary,
            mut writer,
            mut link,
            ..
        } = Pair::begin(85, Setup::answered());
        writer.last = before;
        while writer.last < 3 {
            primary.write(&mut link, &mut writer, 64);
        }
        primary.sleep(1_000_000);
        open_again(&backup, &writer, after);
        primary.sleep(1_000_000);
        let causes = backup.ended().into_iter().map(|ended| ended.cause);
        let expected = is_given_up.then_some(EndCause::Interrupted);
        assert!(causes.eq(expected), "{before}, {after}");
        if is_given_up {
            link = primary.link();
        }
        writer.last = after;
        while writer.last < 200 {
            primary.write(&mut link, &mut writer, 64);
            while link.take_report().unwrap().is_some() {}
        }
        primary.hear_last(&mut link, &writer);
    }
}

/// The strays take the window of their session and nothing else, and other sessions go on.
#[test]
fn entries_of_a_stream_that_nobody_knows_cost_their_sender_a_window_and_others_nothing() {
    let setup = Setup::one_sided();
    let Pair {
        world,
        backup,
        primary,
        mut link,
        ..
    } = Pair::begin(79, setup);
    spend(&mut link, &mut Writer::of(9));
    let credited = link.credited(&primary.runtime, 64, 2_000_000);
    world.block_on(credited).expect_err("the window is used up");
    let neighbour = Primary::start(&world, &setup, "b");
    let mut writer = Writer::of(2);
    open(&backup, &writer, "b");
    let mut of_neighbour = neighbour.link();
    for _ in 0..100 {
        neighbour.write(&mut of_neighbour, &mut writer, 64);
        while of_neighbour.take_report().unwrap().is_some() {}
    }
    drop(link);
    let (mut link, mut writer) = (primary.link(), Writer::of(1));
    primary.write(&mut link, &mut writer, 64);
    backup.wait(|backup| backup.versions(1) == [1]);
}
