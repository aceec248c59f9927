//! The ends of sessions: fences, doubt, restarts.

use std::future::{Future as _, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use stonecast_backup::{EndCause, Intake, Lent, Pool, Silence, Trouble};
use stonecast_fabric::DisconnectCause;
use stonecast_fabric_sim::{Fate, SimBacking, Survivor, World};
use stonecast_media::Backing as _;

use crate::world::{Backup, COMPLETIONS, KEY, Primary, Setup, Writer, name, open, recover};

fn silence(backup: &Backup, node: &'static str) -> Silence {
    backup.with(move |intake| intake.silence(&name(node)))
}

/// Needs the search behind the quiet: READs make entries durable long before a slow search finds them, and an heir that reads the
/// backup's log must see all that was reported.
pub fn who_is_silent_has_nothing_left_that_was_reported_and_not_found() {
    let setup = Setup {
        look_units: 1,
        ..Setup::one_sided()
    };
    let world = Rc::new(World::new(31));
    let backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
    while writer.append(&mut link, 64).is_ok() {}
    link.flush().unwrap();
    let last = writer.last;
    while primary.reported(&mut link) != Ok(last) {}
    backup.with(|intake| intake.fence(&name("a")));
    backup.wait(|backup| silence(backup, "a") == Silence::Silent);
    assert!(backup.versions(1).into_iter().eq(1..=last));
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
    who_is_silent_has_nothing_left_that_was_reported_and_not_found();
}

/// Needs the question asked again: the peer has left its write, and nobody tells.
pub fn a_peer_in_doubt_is_asked_again_and_silent_when_it_has_left() {
    let setup = Setup::answered();
    let world = Rc::new(World::new(33));
    let backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
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

#[test]
fn doubt_ends_when_the_peer_is_gone() {
    a_peer_in_doubt_is_asked_again_and_silent_when_it_has_left();
}

/// Needs the numbers of connections, the chain over connections, and the end of the earlier session before the next begins.
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
        let last = writer.last;
        while primary.reported(&mut link) != Ok(last) {}
        backup.wait(|backup| {
            backup
                .versions(1)
                .last()
                .is_some_and(|&found| found >= last)
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

/// Segments come round for ever: the floors settle what was found.
#[test]
fn segments_are_used_again_when_the_floors_settle_what_is_in_them() {
    let setup = Setup {
        segments: 4,
        ..Setup::one_sided()
    };
    let world = Rc::new(World::new(39));
    let backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    let mut writer = Writer::of(1);
    open(&backup, &writer, "a");
    let mut link = primary.link();
    // Five times what all segments hold.
    for _ in 0..5 * 4 * 16 {
        primary.write(&mut link, &mut writer, 900);
        while link.take_report().unwrap().is_some() {}
        let found = backup.versions(1).last().copied().unwrap_or(0);
        backup.with(move |intake| intake.floors().raise(1, found));
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

/// Needs the spans of a step to stay until they are durable: half of all calls are given up while a file is synced.
pub fn a_settle_that_is_dropped_half_way_is_done_again() {
    let setup = Setup::synced();
    let world = Rc::new(World::new(51));
    let machine = world.machine(setup.machine());
    let module = world.module(machine, Survivor::default());
    let region = SimBacking::new(&module).open_log(setup.log()).unwrap();
    let port = world.process(machine).port(COMPLETIONS).unwrap();
    let pool = Pool {
        region,
        format: setup.format(),
        key: KEY,
        ledger: Default::default(),
        segments: Vec::new(),
        earlier_writers_are_gone: true,
    };
    let mut intake = Intake::start(&port, pool, &setup.options(1)).unwrap();
    for number in 0..2 {
        let (before, heritage) = (None, Default::default());
        intake.lend(Lent {
            number,
            before,
            heritage,
        });
    }
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
    let wreck = world.wreck(machine, &module);
    module.restart(wreck.survivor(&vec![Fate::default(); wreck.undecided()]));
    let region = SimBacking::new(&module).open_log(setup.log()).unwrap();
    assert_eq!(recover(&*region, &setup.format()).segments.len(), 2);
}

#[test]
fn futures_may_be_dropped() {
    a_settle_that_is_dropped_half_way_is_done_again();
}
