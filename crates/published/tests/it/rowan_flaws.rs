//! The flaws of Rowan-KV as published, each with a schedule that shows it. The numbers are those of the review of the
//! paper on which the decisions rest (`docs/design/0015-published-designs.md`). A schedule uses a cluster only through
//! its clients, its power and its network, so that another store can be put in the place of the published one.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::Process;
use stonecast_published::PublishedError;
use stonecast_published::rowan::{Replication, RowanClient, RowanOptions};

use crate::rowan_scene::{RowanScene, small};

const MS: Nanoseconds = 1_000_000;

/// An operation that runs beside the test, and its end.
type Running = Rc<RefCell<Option<Result<(), PublishedError>>>>;

fn scene() -> RowanScene {
    RowanScene::new(small(Replication::Append))
}

/// A key of a shard whose primary is `server`.
fn key_of(scene: &RowanScene, server: u32) -> u64 {
    let is_of = |key: &u64| scene.placement.primary(scene.placement.shard_of(*key)) == server;
    (1000..).find(is_of).unwrap()
}

fn start_put(process: &Process, client: &Rc<RowanClient>, key: u64, value: &[u8]) -> Running {
    let running = Running::default();
    let (end, client, value) = (running.clone(), client.clone(), value.to_vec());
    process.runtime().spawn(Box::pin(async move {
        let result = client.put(key, &value).await;
        end.replace(Some(result));
    }));
    running
}

fn is_acknowledged(running: &Running) -> bool {
    matches!(*running.borrow(), Some(Ok(())))
}

/// The work of the configuration manager when it takes the primary of `key`'s shard for dead: the first backup digests,
/// and becomes the primary of the shard.
fn fail_over(scene: &RowanScene, key: u64) -> u32 {
    let shard = scene.placement.shard_of(key);
    let backups = scene.placement.backups(shard);
    scene.servers[backups[0] as usize].digest_all();
    scene.placement.place(shard, &backups);
    backups[0]
}

/// Needs relaxed ordering at the root port of one machine: there a READ pushes nothing out. The publication names no
/// condition but that DDIO is off.
#[test]
fn r1_the_read_behind_an_entry_proves_nothing_where_writes_may_pass_it() {
    let held = |relaxed_ordering: bool| {
        let mut scene = RowanScene::unopened(small(Replication::Append));
        scene.machine_options.inbound_stall_ns_max = 50_000;
        let scene = scene.open_all(relaxed_ordering);
        let key = key_of(&scene, 0);
        let (_process, client) = scene.client(0);
        scene.put(&client, key, b"acknowledged");
        let backups = scene.placement.backups(scene.placement.shard_of(key));
        let holds = |server: &&u32| scene.survives(**server, b"acknowledged");
        backups.iter().filter(holds).count()
    };
    assert_eq!(held(false), 2, "both backups hold what was acknowledged");
    assert_eq!(held(true), 0, "no backup does");
}

/// The old primary is alive, and cut off from its backups for a while.
#[test]
fn r2_an_entry_of_an_old_primary_is_acknowledged_and_no_reader_sees_it() {
    let scene = scene();
    let key = key_of(&scene, 0);
    let [(writing, writer), (_reading, reader)] = [scene.client(0), scene.client(1)];
    scene.put(&writer, key, b"old");
    for backup in [1, 2] {
        let (from, to) = (scene.machines[0], scene.machines[backup]);
        scene.world.block(Some(from), Some(to), 0, 20 * MS);
    }
    let put = start_put(&writing, &writer, key, b"new");
    scene.pass(5 * MS);
    assert_ne!(fail_over(&scene, key), 0);
    assert!(put.borrow().is_none(), "the entry has no copy yet");
    scene.pass(40 * MS);
    assert!(is_acknowledged(&put), "its backups' NICs took it");
    assert_eq!(scene.get(&reader, key), Some(b"old".to_vec()));
}

#[test]
fn r3_an_entry_that_only_one_backup_has_comes_and_goes_with_the_primary() {
    let scene = scene();
    let key = key_of(&scene, 0);
    let shard = scene.placement.shard_of(key);
    let [(writing, writer), (_reading, reader)] = [scene.client(0), scene.client(1)];
    scene.put(&writer, key, b"old");
    let backups = scene.placement.backups(shard);
    let (from, to) = (scene.machines[0], scene.machines[backups[0] as usize]);
    scene.world.block(Some(from), Some(to), 0, 10_000 * MS);
    let put = start_put(&writing, &writer, key, b"new");
    scene.pass(5 * MS);
    assert!(put.borrow().is_none());
    scene.processes[0].kill();
    // The backup without the entry becomes the primary, and is lost after a while.
    fail_over(&scene, key);
    assert_eq!(scene.get(&reader, key), Some(b"old".to_vec()));
    scene.servers[backups[1] as usize].digest_all();
    scene.placement.place(shard, &backups[1..]);
    assert_eq!(
        scene.get(&reader, key),
        Some(b"new".to_vec()),
        "the backups differ, and nothing brings them together"
    );
}

/// This schedule shows no flaw: versions in the entries, and not their places, decide. The review assumed a digest by
/// place.
#[test]
fn r4_entries_of_one_key_lie_in_another_order_than_their_versions_and_the_digest_keeps_the_latest()
{
    let scene = scene();
    let key = key_of(&scene, 0);
    let clients = [scene.client(0), scene.client(1)];
    for round in 0..50u8 {
        let puts: Vec<Running> = (0..8u8)
            .map(|turn| {
                let (process, client) = &clients[usize::from(turn % 2)];
                start_put(process, client, key, &[round, turn])
            })
            .collect();
        scene.pass(MS);
        assert!(puts.iter().all(is_acknowledged));
    }
    let last = scene.get(&clients[0].1, key);
    fail_over(&scene, key);
    assert_eq!(scene.get(&clients[0].1, key), last);
}

/// The writer of one key changes another one. The power fails while its entry is on its way.
#[test]
fn r5_a_value_that_contains_an_entry_becomes_an_entry_when_its_own_header_is_torn() {
    let mut scene = scene();
    let victim = key_of(&scene, 0);
    let (writing, writer) = scene.client(0);
    scene.put(&writer, victim, b"untouched");
    // The log of the first worker has this entry's header at the start of a line, and the forged one at the next.
    let forged = forged_entry(scene.placement.shard_of(victim), victim, b"forged");
    let value = [vec![0; 40], forged].concat();
    let own = (victim + 1..)
        .find(|&key| scene.placement.shard_of(key) == scene.placement.shard_of(victim))
        .unwrap();
    let before = scene.modules[0].stores();
    let put = start_put(&writing, &writer, own, &value);
    while scene.modules[0].stores() == before {
        assert!(scene.world.step());
    }
    assert!(put.borrow().is_none());
    // The second line of the entry survives, and the first does not.
    let first_line = scene.first_undecided(0);
    scene.cut_power(0, |offset| offset / 64 != first_line / 64);
    scene.reopen(0);
    let (_reading, reader) = scene.client(1);
    assert_eq!(scene.get(&reader, victim), Some(b"forged".to_vec()));
}

/// An entry as the design writes it: the format and the checksum are known to everybody.
fn forged_entry(shard: u16, key: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend((value.len() as u16).to_le_bytes());
    bytes.extend(shard.to_le_bytes());
    bytes.extend(1_000_000u64.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend(value);
    let checksum = crc32fast::hash(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// One server whose software stands still takes the buffers of all others with it.
#[test]
fn r6_all_servers_wait_for_the_buffers_of_one() {
    let scene = scene();
    let clients: Vec<_> = (0..2).map(|worker| scene.client(worker)).collect();
    let key = key_of(&scene, 0);
    assert!(
        scene
            .placement
            .backups(scene.placement.shard_of(key))
            .contains(&2)
    );
    scene.processes[2].pause(100 * MS);
    // The NIC of the server goes on with the buffers that it has.
    let filling: Vec<Running> = (0..200u64)
        .map(|number| {
            let (process, client) = &clients[(number % 2) as usize];
            start_put(process, client, key, &[number as u8; 100])
        })
        .collect();
    scene.pass(20 * MS);
    let done = filling.iter().filter(|put| is_acknowledged(put)).count();
    assert!(done > 0 && done < 200, "{done} of 200 found a buffer");
    let other = key_of(&scene, 1);
    let (process, client) = &clients[0];
    let waiting = start_put(process, client, other, b"of another primary");
    scene.pass(20 * MS);
    assert!(
        waiting.borrow().is_none(),
        "its backup has no buffer either"
    );
    scene.pass(200 * MS);
    assert!(is_acknowledged(&waiting));
}

#[test]
fn r7_a_backup_whose_software_is_dead_acknowledges_entries() {
    let scene = scene();
    let key = key_of(&scene, 0);
    let (writing, writer) = scene.client(0);
    for backup in [1, 2] {
        scene.processes[backup].pause(10_000 * MS);
    }
    let put = start_put(&writing, &writer, key, b"acknowledged");
    scene.pass(5 * MS);
    assert!(
        is_acknowledged(&put),
        "no software that could take over has seen it"
    );
}

/// The answer of the first try is lost with the primary.
#[test]
fn r8_a_repeated_write_takes_effect_twice() {
    let scene = scene();
    let key = key_of(&scene, 0);
    let [(writing, writer), (_other, other)] = [scene.client(0), scene.client(1)];
    scene.put(&writer, key, b"zero");
    // The answers of the primary do not leave it.
    scene.world.block(
        Some(scene.machines[0]),
        Some(scene.client_machine(0)),
        0,
        20_000 * MS,
    );
    let put = start_put(&writing, &writer, key, b"one");
    scene.pass(5 * MS);
    assert!(put.borrow().is_none());
    scene.processes[0].kill();
    fail_over(&scene, key);
    let mut seen = vec![scene.get(&other, key).unwrap()];
    scene.put(&other, key, b"two");
    seen.push(scene.get(&other, key).unwrap());
    scene.put(&writer, key, b"one");
    seen.push(scene.get(&other, key).unwrap());
    assert_eq!(seen, [b"one", b"two", b"one"], "one was written once");
}

/// The cleaner frees the segment with the deletion while an older entry of the key lies in another one.
#[test]
fn r9_a_deleted_key_comes_back_with_a_recovery() {
    let resurrected = (10..60).step_by(10).find(|&churn| {
        let mut scene = RowanScene::new(RowanOptions {
            cleaners: 1,
            segments: 40,
            keys: 4000,
            ..small(Replication::Append)
        });
        let (_process, client) = scene.client(0);
        let key = key_of(&scene, 0);
        scene.put(&client, key, b"deleted");
        let others: Vec<u64> = (key + 1..)
            .filter(|&other| scene.placement.primary(scene.placement.shard_of(other)) == 0)
            .take(1080)
            .collect();
        // Entries that stay alive fill the segment of the first one and most of the memory. The segment of the deletion
        // has entries that change.
        let (staying, others) = others.split_at(70);
        let (filling, changing) = others.split_at(950);
        for &other in staying {
            scene.put(&client, other, &[1; 40]);
        }
        scene.world.block_on(client.delete(key)).unwrap();
        for &other in changing.iter().chain(filling) {
            scene.put(&client, other, &[1; 40]);
        }
        for round in 0..churn {
            for &other in changing {
                scene.put(&client, other, &[round as u8; 40]);
            }
        }
        assert_eq!(scene.get(&client, key), None);
        scene.pass(MS);
        scene.cut_power(0, |_| true);
        scene.reopen(0);
        let (_reading, reader) = scene.client(1);
        scene.get(&reader, key).is_some()
    });
    let churn = resurrected.expect("the deletion is cleaned before the entry");
    println!("{churn} rounds of writes after the deletion");
}
