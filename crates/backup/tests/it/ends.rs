//! The ends of sessions: fences, doubt, restarts.

use std::future::{Future as _, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use stonecast_backup::{BackupLink, EndCause, NotLinked, Silence, Trouble};
use stonecast_fabric::DisconnectCause;
use stonecast_fabric_sim::{Fate, World};

use crate::world::{ADDRESS, Backup, Pair, Primary, Setup, Writer, name, open};

fn silence(backup: &Backup, node: &'static str) -> Silence {
    backup.with(move |intake| intake.silence(&name(node)))
}

/// Needs the search behind the quiet: READs make entries durable long before a slow search finds them, and an heir that
/// reads the backup's log must see every reported entry.
pub fn a_silent_peer_has_nothing_left_that_was_reported_and_not_found() {
    let setup = Setup {
        look_units: 1,
        ..Setup::one_sided()
    };
    let Pair {
        backup,
        primary,
        mut writer,
        mut link,
        ..
    } = Pair::begin(31, setup);
    while writer.append(&mut link, 64).is_ok() {}
    link.flush().unwrap();
    primary.hear_last(&mut link, &writer);
    backup.with(|intake| intake.fence(&name("a")));
    backup.wait(|backup| silence(backup, "a") == Silence::Silent);
    assert!(backup.versions(1).into_iter().eq(1..=writer.last));
    let ended = backup.ended();
    assert_eq!((ended.len(), &ended[0].cause), (1, &EndCause::Fenced));
    let told = primary.reported(&mut link).unwrap_err();
    assert_eq!(
        told.trouble,
        Trouble::Disconnected(DisconnectCause::Requested)
    );
    let refused = primary.try_link().err().unwrap().to_string();
    assert!(
        refused.contains("node a may not append here: it is fenced"),
        "{refused}"
    );
}

#[test]
fn a_fence_ends_behind_the_search() {
    a_silent_peer_has_nothing_left_that_was_reported_and_not_found();
}

/// Needs the question to be asked again: the peer has left its write, and sends no word of that.
pub fn a_peer_in_doubt_is_asked_again_and_silent_when_it_has_left() {
    let setup = Setup::answered();
    let Pair {
        world,
        backup,
        primary,
        mut writer,
        mut link,
    } = Pair::begin(33, setup);
    primary.write(&mut link, &mut writer, 64);
    assert_eq!(primary.reported(&mut link), Ok(1));
    backup.doubt.left.set(5);
    primary.process.kill();
    backup.wait(|backup| silence(backup, "a") == Silence::Doubtful);
    let again = Primary::start(&world, &setup, "a");
    let refused = again.try_link().err().unwrap().to_string();
    assert!(
        refused.contains("an earlier session of node a may still write"),
        "{refused}"
    );
    backup.wait(|backup| silence(backup, "a") == Silence::Silent);
    assert_eq!(backup.doubt.asked.get(), 6, "each question has its pause");
    let mut link = again.link();
    again.write(&mut link, &mut writer, 64);
    assert_eq!(again.reported(&mut link), Ok(2));
}

/// Needs the new beginning: an entry that lands late in a stream that another node has taken over is charged to that
/// node.
pub fn no_session_outlives_a_doubt_about_another_peer() {
    let setup = Setup::answered();
    let Pair {
        world,
        backup,
        primary,
        mut writer,
        mut link,
    } = Pair::begin(36, setup);
    primary.write(&mut link, &mut writer, 64);
    assert_eq!(primary.reported(&mut link), Ok(1));
    let other = Primary::start(&world, &setup, "b");
    let _link = other.link();
    backup.doubt.left.set(5);
    primary.process.kill();
    backup.wait(|backup| silence(backup, "a") == Silence::Silent);
    backup.wait(|backup| silence(backup, "b") == Silence::Silent);
    let causes: Vec<_> = backup
        .ended()
        .into_iter()
        .map(|ended| ended.cause)
        .collect();
    assert_eq!(causes[1..], [EndCause::Recounted]);
}

#[test]
fn all_sessions_begin_anew_behind_a_doubt() {
    no_session_outlives_a_doubt_about_another_peer();
}

#[test]
fn doubt_ends_when_the_peer_is_gone() {
    a_peer_in_doubt_is_asked_again_and_silent_when_it_has_left();
}

/// Needs the numbers of connections, the chain over connections, and the end of the earlier session before the next
/// begins.
#[test]
fn a_primary_that_connects_again_sends_what_was_not_reported_and_each_entry_counts_once() {
    for setup in [Setup::one_sided(), Setup::answered(), Setup::synced()] {
        let world = Rc::new(World::new(35));
        let backup = Backup::start(&world, setup);
        let primary = Primary::start(&world, &setup, "a");
        let mut writer = Writer::of(1);
        open(&backup, &writer, "a");
        let (mut reported, mut connections) = (0, Vec::new());
        for session in 1..=6 {
            let mut link = primary.link();
            connections.push(link.connection());
            writer.last = reported;
            for _ in 0..5 {
                primary.write(&mut link, &mut writer, 100);
            }
            primary.sleep(900 * session);
            match session % 3 {
                0 => world.reset_nic(primary.machine),
                1 => backup.process.break_peers(),
                _ => drop(link),
            }
            if session % 3 != 2 {
                continue;
            }
            primary.sleep(100_000);
            reported = backup
                .versions(1)
                .last()
                .copied()
                .unwrap_or(0)
                .min(writer.last)
                / 2;
        }
        let mut link = primary.link();
        writer.last = reported;
        for _ in 0..10 {
            primary.write(&mut link, &mut writer, 100);
        }
        primary.hear_last(&mut link, &writer);
        backup.wait(|backup| {
            backup
                .versions(1)
                .last()
                .is_some_and(|&found| found >= writer.last)
        });
        let versions = backup.versions(1);
        assert!(
            versions.iter().copied().eq(1..=versions.len() as u64),
            "{versions:?}"
        );
        assert!(connections.is_sorted_by(|before, after| before < after));
    }
}

#[test]
fn a_backup_that_closes_tells_all_and_a_later_run_finds_what_was_reported() {
    let setup = Setup::answered();
    let world = Rc::new(World::new(37));
    let mut backup = Backup::start(&world, setup);
    let nodes = ["a", "b"];
    let primaries = nodes.map(|node| Primary::start(&world, &setup, node));
    let mut writers = [Writer::of(1), Writer::of(2)];
    let mut links = primaries.each_ref().map(Primary::link);
    for index in 0..2 {
        open(&backup, &writers[index], nodes[index]);
        primaries[index].write(&mut links[index], &mut writers[index], 64);
        assert_eq!(primaries[index].reported(&mut links[index]), Ok(1));
    }
    backup.with(|intake| intake.close());
    backup.wait(|backup| backup.with(|intake| intake.peers().count()) == 0);
    for (primary, link) in primaries.iter().zip(&mut links) {
        let told = primary.reported(link).unwrap_err();
        assert_eq!(
            told.trouble,
            Trouble::Disconnected(DisconnectCause::Requested)
        );
    }
    let first = links[0].connection();
    backup.process.kill();
    world.cut_power(backup.machine);
    let wreck = world.wreck(backup.machine, &backup.module);
    backup
        .module
        .restart(wreck.survivor(&vec![Fate::default(); wreck.undecided()]));
    backup.restart();
    backup.wait(|backup| backup.found().len() == 2);
    assert!(
        backup.found().iter().all(|found| found.sender.is_none()),
        "nobody sent them now"
    );
    open(&backup, &writers[0], "a");
    let mut link = primaries[0].link();
    assert!(
        link.connection() > first,
        "no connection has the number of an earlier one"
    );
    primaries[0].write(&mut link, &mut writers[0], 64);
    assert_eq!(primaries[0].reported(&mut link), Ok(2));
}

/// Needs the refusal of the earlier hello: its sender would wait for an answer that never comes.
#[test]
fn of_two_hellos_that_wait_for_the_end_of_a_session_the_later_one_is_accepted() {
    let setup = Setup {
        look_units: 1,
        ..Setup::answered()
    };
    let Pair {
        world,
        backup,
        mut writer,
        mut link,
        ..
    } = Pair::begin(57, setup);
    while writer.append(&mut link, 64).is_ok() {}
    link.flush().unwrap();
    let waiting = [0, 1].map(|_| Primary::start(&world, &setup, "a"));
    let [first, second] = &waiting;
    let first = connect(first, 0);
    let second = connect(second, 6_000);
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let mut refused = None;
    let accepted = world.block_on(poll_fn(|context| {
        if refused.is_none()
            && let Poll::Ready(told) = first.as_mut().poll(context)
        {
            refused = Some(told);
        }
        second.as_mut().poll(context)
    }));
    let refused = refused.expect("it was told").err().unwrap().to_string();
    assert!(refused.contains("node a has connected again"), "{refused}");
    assert!(accepted.is_ok());
    assert_eq!(backup.with(|intake| intake.peers().count()), 1);
}

async fn connect(primary: &Primary, after_ns: u64) -> Result<BackupLink, NotLinked> {
    primary.runtime.sleep(after_ns).await;
    BackupLink::connect(&primary.port, &primary.runtime, ADDRESS, &primary.options).await
}
