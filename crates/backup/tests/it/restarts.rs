//! Entries and answers that outlive the connection by which they came.

use stonecast_backup::{Silence, StreamName};
use stonecast_cluster::Epoch;

use crate::world::{Backup, Pair, Primary, Setup, Writer, bytes_of, name, open};

/// A backup whose process was killed when `entries` entries of `a` were reported, and which searches slowly.
fn restarted(
    setup: Setup,
    entries: usize,
    have_writers_outlived: bool,
) -> (Backup, Primary, Writer) {
    let Pair {
        mut backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(61, setup);
    for _ in 0..entries {
        primary.write(&mut link, &mut writer, 64);
        assert_eq!(primary.reported(&mut link), Ok(writer.last));
    }
    backup.process.kill();
    backup.have_writers_outlived = have_writers_outlived;
    backup.restart();
    (backup, primary, writer)
}

fn slow() -> Setup {
    Setup {
        look_units: 2,
        ..Setup::one_sided()
    }
}

/// Needs the check of adopted segments: no session stands for a peer of an earlier run.
#[test]
fn nobody_is_silent_before_what_an_earlier_run_left_is_searched() {
    let (backup, _primary, writer) = restarted(slow(), 12, false);
    let fenced = backup.with(|intake| {
        intake.fence(&name("a"));
        (intake.is_left_searched(), intake.silence(&name("a")))
    });
    assert_eq!(fenced, (false, Silence::UnderWay));
    backup.wait(|backup| backup.with(|intake| intake.silence(&name("a"))) == Silence::Silent);
    assert!(backup.versions(1).into_iter().eq(1..=writer.last));
}

/// Needs the doubt: a process that was stopped inside a write goes on after the restart, and its entry lands in a
/// segment that was searched.
pub fn a_writer_that_may_have_outlived_the_run_is_in_doubt_and_its_last_write_is_found() {
    let (backup, _primary, writer) = restarted(Setup::one_sided(), 12, true);
    backup.with(|intake| intake.fence(&name("a")));
    backup.wait(|backup| backup.versions(1).len() == 12);
    let late = bytes_of(&writer.entry(13, 12), 64);
    let region = backup.region();
    let last = backup.found().pop().expect("twelve").place;
    let silence = |backup: &Backup| backup.with(|intake| intake.silence(&name("a")));
    for _look in 0..20 {
        assert_eq!(silence(&backup), Silence::Doubtful);
    }
    region.write(last.offset + last.size, &late);
    backup.with(|intake| intake.trust_earlier_writers());
    backup.wait(|backup| silence(backup) == Silence::Silent);
    assert!(backup.versions(1).into_iter().eq(1..=13));
}

#[test]
fn writers_that_outlived_the_run_are_doubted() {
    a_writer_that_may_have_outlived_the_run_is_in_doubt_and_its_last_write_is_found();
}

/// Needs the look at the segment: the stream alone would name the peer's present session.
#[test]
fn no_session_is_named_or_charged_for_entries_of_an_earlier_run() {
    let setup = Setup {
        segment_size: 64 * 1024,
        ..slow()
    };
    let (backup, primary, mut writer) = restarted(setup, 400, false);
    let left = writer.last;
    // The stream begins behind the entries that were found before, and the session begins before the search has ended.
    let mut begun = Writer::of(1);
    begun.last = backup.versions(1).last().copied().unwrap_or(0);
    assert!(begun.last < left / 2);
    open(&backup, &begun, "a");
    let mut link = primary.link();
    assert!(!backup.with(|intake| intake.is_left_searched()));
    primary.write(&mut link, &mut writer, 64);
    backup.wait(|backup| backup.found().len() as u64 == left + 1);
    for found in backup.found() {
        let is_left = found.entry.version <= left;
        assert_eq!(found.sender.is_none(), is_left, "{:?}", found.entry);
    }
}

/// Needs the rows of the first notice: the backup stands still when the entry is sent again.
#[test]
fn a_new_link_hears_with_its_first_notice_what_the_backup_has() {
    let setup = Setup::answered();
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(63, setup);
    primary.write(&mut link, &mut writer, 64);
    assert_eq!(primary.reported(&mut link), Ok(1));
    drop(link);
    let mut link = primary.link();
    backup.process.pause(3_000_000);
    writer.last = 0;
    primary.write(&mut link, &mut writer, 64);
    primary.sleep(1_000_000);
    let report = link.take_report().unwrap();
    assert_eq!(report.map(|report| report.version), Some(1));
}

/// Needs the answer before the failure: an appender that has failed hears nothing.
#[test]
fn an_answer_that_is_heard_with_the_end_of_the_connection_is_reported() {
    let setup = Setup::answered();
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(65, setup);
    primary.write(&mut link, &mut writer, 64);
    backup.wait(|backup| backup.versions(1) == [1]);
    primary.sleep(100_000);
    backup.with(|intake| intake.fence(&name("a")));
    backup.wait(|backup| backup.ended().len() == 1);
    primary.sleep(2_000_000);
    while primary.port.pump() {}
    assert_eq!(primary.reported(&mut link), Ok(1));
    primary.reported(&mut link).unwrap_err();
}

/// Needs the end of the history after the cuts for `after`: the backup has a version 7 of the earlier term, which the
/// heir has voided.
#[test]
fn a_version_that_was_voided_and_stamped_again_is_news_in_its_term() {
    let setup = Setup::answered();
    let Pair {
        world,
        backup,
        primary,
        mut writer,
        mut link,
    } = Pair::begin(67, setup);
    for version in 1..=7 {
        primary.write(&mut link, &mut writer, 64);
        assert_eq!(primary.reported(&mut link), Ok(version));
    }
    let mut heir = Writer {
        stream: StreamName {
            term: Epoch(2),
            ..writer.stream
        },
        last: 5,
    };
    backup.with(|intake| intake.close_stream(1, Epoch(1)));
    open(&backup, &heir, "b");
    let primary = Primary::start(&world, &setup, "b");
    let mut link = primary.link();
    backup.process.pause(2_000_000);
    primary.write(&mut link, &mut heir, 64);
    assert!(
        link.take_report().unwrap().is_none(),
        "the backup stands still"
    );
    assert_eq!(primary.reported(&mut link), Ok(6));
    assert_eq!(backup.versions(1).last(), Some(&6));
}
