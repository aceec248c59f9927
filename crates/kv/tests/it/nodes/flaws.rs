//! The flaws R1 to R9 of Rowan-KV as published, under the schedules that show them there
//! (`crates/published/tests/it/rowan_flaws.rs`): the store on several nodes keeps the promises. Each function returns
//! whether a promise is kept; the same functions judge the published design. The controls, runs without a guard, are
//! beside the seeded bugs (`crates/kv/tests/it/mutants.rs`), or beside the test if another shape is the control. R5 is
//! in `forgeries.rs` beside this file.

use std::cell::Cell;

use futures_util::future::{join, join_all};
use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::RootPort;
use stonecast_kv::{ClusterClient, Condition, Written};

use super::world::{Cluster, MS, Place, Shape};
use super::{has_all, memory, put_all, value};
use crate::promises;
use crate::world::key;

/// One shard with three copies.
const ONE: Shape = Shape {
    shards: 1,
    ..Shape::THREE
};

async fn get(client: &ClusterClient, n: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let version = client.get(&key(n), &mut value).await.unwrap();
    version.map(|_| value)
}

fn backups(cluster: &Cluster, primary: usize) -> Vec<usize> {
    let all = 0..cluster.places.len();
    all.filter(|&index| index != primary).collect()
}

/// The READ behind an entry proves nothing where writes may pass it. A node whose platform is declared so answers by
/// its processor, after a write-back.
fn r1_with(one_sided: bool, relaxed_ordering: bool) -> bool {
    let shape = Shape {
        one_sided,
        root_port: RootPort {
            relaxed_ordering,
            ..RootPort::default()
        },
        inbound_stall_ns_max: 50_000,
        ..ONE.patient()
    };
    let mut kept = true;
    Cluster::tell(shape, 41, async |cluster, client| {
        for round in 0..20u8 {
            let value = [b'a' + round; 40];
            client.put(&key(1), &value).await.unwrap();
            let holds = |place: &Place| {
                let left = memory::survivor(cluster, place, |_| false);
                memory::position(&memory::bytes_of(cluster, &left), &value).is_some()
            };
            let holds: Vec<bool> = cluster.places.iter().map(holds).collect();
            kept &= promises::all_copies_hold(&holds);
        }
    });
    kept
}

/// Relaxed ordering at the root ports, and writes that wait there.
pub fn r1() -> bool {
    r1_with(false, true)
}

/// The story of [`r1`], where the order is strict, and READs make entries durable.
pub fn r1_one_sided() -> bool {
    r1_with(true, false)
}

/// The control is the declaration: a platform that is declared as one where READs prove something, and is none.
#[test]
fn r1_every_copy_holds_what_was_acknowledged_where_writes_may_pass_a_read() {
    assert!(r1() && r1_one_sided());
    assert!(!r1_with(true, true));
}

/// The old primary is alive, and cut off from its backups until one of them leads. A reader reads there all the time.
pub fn r2() -> bool {
    let mut kept = false;
    Cluster::tell(ONE.patient(), 42, async |cluster, writer| {
        let reader = cluster.client(4_000 * MS).await;
        writer.put(&key(1), b"old").await.unwrap();
        let primary = cluster.leader(0).unwrap();
        for backup in backups(cluster, primary) {
            let places = [primary, backup].map(|index| cluster.places[index].machine);
            let [from, to] = places.map(Some);
            cluster.world.block(from, to, 0, promises::CUT_OFF_NS);
        }
        let runtime = cluster.process.runtime();
        let (name, is_acknowledged) = (key(1), Cell::new(false));
        let put = async {
            writer.put(&name, b"new").await.unwrap();
            is_acknowledged.set(true);
        };
        let read = async {
            while !is_acknowledged.get() {
                get(&reader, 1).await;
                runtime.sleep(MS / 10).await;
            }
            get(&reader, 1).await
        };
        let ((), at_once) = join(put, read).await;
        let is_led = || cluster.leader(0).is_some_and(|leader| leader != primary);
        cluster.until("an heir leads", is_led).await;
        runtime.sleep(3 * promises::CUT_OFF_NS).await;
        let seen = [at_once, get(&reader, 1).await, get(writer, 1).await];
        kept = promises::all_see(b"new", &seen);
    });
    kept
}

#[test]
fn r2_an_acknowledged_write_of_an_old_primary_is_seen_by_every_reader() {
    assert!(r2());
}

/// The writer gives up before the primary dies, so that nothing but the nodes themselves brings the copies together.
pub fn r3() -> bool {
    let mut kept = true;
    for blocked in 0..2 {
        Cluster::tell(ONE, 43, async |cluster, reader| {
            let writer = cluster.client(8 * MS).await;
            writer.put(&key(1), b"old").await.unwrap();
            let primary = cluster.leader(0).unwrap();
            let blocked = backups(cluster, primary)[blocked];
            let places = [primary, blocked].map(|index| cluster.places[index].machine);
            let [from, to] = places.map(Some);
            cluster.world.block(from, to, 0, 10_000 * MS);
            let put = writer.put(&key(1), b"new").await;
            put.expect_err("a copy is cut off, and no other node leads yet");
            cluster.places[primary].kill();
            let first = get(reader, 1).await;
            let heir = cluster.leader(0).unwrap();
            assert_ne!(heir, primary);
            cluster.places[heir].kill();
            let second = get(reader, 1).await;
            assert_ne!(cluster.leader(0), Some(heir));
            kept &= promises::heirs_agree(&[first, second]);
        });
    }
    kept
}

#[test]
fn r3_a_write_that_only_one_backup_has_stays_or_goes_for_all_heirs() {
    assert!(r3());
}

/// The writers go on until the last place among the entries of the last writes, in the memory of a copy, has an older
/// value: the segment that is filled next has a lower number. Then all processes start again, with no more than that
/// memory, and each node leads once. A later write would hide an older value, so the writers go on at the last one
/// alone.
pub fn r4() -> bool {
    let mut kept = true;
    let shape = Shape {
        floors_rise: false,
        ..ONE
    };
    Cluster::tell(shape, 44, async |cluster, client| {
        let other = cluster.client(4_000 * MS).await;
        const AT_ONCE: usize = 7;
        let (name, mut rounds, mut written) = (key(1), 0..u8::MAX, Vec::new());
        let mut overtaken = 0;
        let mut write = async |written: &mut Vec<(u64, Vec<u8>)>| {
            let round = rounds
                .next()
                .expect("the orders differ within so many rounds");
            let values = (0..AT_ONCE).map(|turn| [round, turn as u8].repeat(1_500));
            let values: Vec<_> = values.collect();
            let puts = values.iter().enumerate().map(|(turn, value)| {
                let writer = if turn % 2 == 0 { client } else { &other };
                writer.put(&name, value)
            });
            let versions = join_all(puts).await.into_iter().map(Result::unwrap);
            let versions: Vec<u64> = versions.collect();
            overtaken += usize::from(!versions.is_sorted());
            written.extend(versions.into_iter().zip(values));
        };
        let primary = cluster.leader(0).unwrap();
        let copies = backups(cluster, primary);
        loop {
            write(&mut written).await;
            let round = &written[written.len() - AT_ONCE..];
            let of_last_place = |&copy: &usize| {
                let bytes = memory::all_of(cluster, &cluster.places[copy]);
                let places = memory::entries(&bytes).into_iter().rev();
                let of_round = |version| round.iter().find(|(written, _)| *written == version);
                let mut values = places.filter_map(|entry| of_round(entry.version));
                values.next().map(|(_, value)| value.clone())
            };
            let by_place = copies.iter().filter_map(of_last_place).map(Some);
            let is_refused = |value| !promises::latest_stays(&written, &[value]);
            if by_place.into_iter().any(is_refused) {
                break;
            }
        }
        cluster.places.iter().for_each(Place::kill);
        (0..3).for_each(|index| cluster.start(index));
        for kills in [true, true, false] {
            cluster.until_served().await;
            let before = get(client, 1).await;
            kept &= promises::latest_stays(&written, &[before, get(&other, 1).await]);
            let primary = cluster.leader(0).unwrap();
            if kills {
                cluster.places[primary].kill();
            }
        }
        let is_dead = |index: &usize| cluster.places[*index].server().is_none();
        (0..3)
            .filter(is_dead)
            .for_each(|index| cluster.start(index));
        cluster
            .until("all copies are there", || cluster.is_whole())
            .await;
        write(&mut written).await;
        kept &= promises::latest_stays(&written, &[get(client, 1).await]);
        assert!(
            overtaken > 0,
            "the two writers are never in each other's way"
        );
    });
    kept
}

#[test]
fn r4_two_writers_of_one_key_leave_the_same_value_to_an_heir() {
    assert!(r4());
}

/// One node whose software stands still has copies of all shards.
fn r6_with(shape: Shape) -> bool {
    let mut kept = false;
    Cluster::tell(shape, 46, async |cluster, client| {
        put_all(client, 0..10).await;
        let runtime = cluster.process.runtime();
        let begin = runtime.now();
        cluster.places[2].pause(promises::STANDS_STILL_NS);
        let took = async |n: u64| {
            client.put(&key(n), &value(n)).await.unwrap();
            runtime.now() - begin
        };
        let upto = 10 + promises::AT_ONCE;
        let mut all = join_all((10..upto).map(took)).await;
        // In all shards: each has a copy on that node.
        for n in upto..upto + 10 {
            all.push(took(n).await);
        }
        kept = promises::nobody_waits(&all);
        has_all(client, 0..upto + 10).await;
        cluster
            .until("the node is filled again", || cluster.is_whole())
            .await;
        has_all(client, 0..upto + 10).await;
    });
    kept
}

/// The story of [`r6_with`], with a policy that removes a silent node.
pub fn r6() -> bool {
    r6_with(Shape::THREE)
}

/// The control is a policy that removes no silent node: then the PUTs wait until it is back.
#[test]
fn r6_no_node_waits_for_the_buffers_of_one_until_it_is_back() {
    assert!(r6());
    assert!(!r6_with(Shape::THREE.patient()));
}

/// A backup's NIC goes on to take entries. An acknowledgement means that they are durable, and never for longer than a
/// lease that the software of backups grants. A client goes on to write beyond that lease, until the power fails on all
/// nodes.
pub fn r7() -> bool {
    let mut kept = false;
    Cluster::tell(ONE.patient(), 47, async |cluster, client| {
        put_all(client, 0..10).await;
        let hasty = cluster.client(8 * MS).await;
        let primary = cluster.leader(0).unwrap();
        let lease = cluster.stored().policy.lease.duration_ns;
        assert_eq!(
            lease,
            promises::LEASE_NS,
            "the promise has that of the policy"
        );
        let runtime = cluster.process.runtime();
        let begin = runtime.now();
        for backup in backups(cluster, primary) {
            cluster.places[backup].pause(2 * promises::DEAD_NS);
        }
        let (mut acknowledged, mut after_death, mut refused) = (10, Vec::new(), 0);
        while runtime.now() - begin < promises::DEAD_NS {
            // Credit for entries is left when the lease ends.
            runtime.sleep(promises::PAUSE_NS).await;
            // A refused write may take effect later, so its key gets the same value again.
            match hasty.put(&key(acknowledged), &value(acknowledged)).await {
                Ok(_) => {
                    acknowledged += 1;
                    after_death.push(runtime.now() - begin);
                }
                Err(_) => refused += 1,
            }
        }
        kept = promises::needs_signs_of_life(&after_death);
        assert!(!after_death.is_empty(), "the primary has a lease at first");
        assert!(
            !kept || refused > 10,
            "{refused} were begun beyond the lease"
        );
        // Every acknowledged write is durable on all copies.
        for place in &cluster.places {
            place.cut_power(&cluster.world);
        }
        for backup in backups(cluster, primary) {
            cluster.start(backup);
        }
        cluster.start(primary);
        cluster.until_served().await;
        has_all(client, 0..acknowledged).await;
    });
    kept
}

#[test]
fn r7_nodes_whose_software_is_dead_let_no_primary_acknowledge() {
    assert!(r7());
}

/// The answer of the first attempt is lost with the primary, and another client writes before the second one.
pub fn r8() -> bool {
    let mut kept = false;
    Cluster::tell(ONE, 48, async |cluster, other| {
        let writer = cluster.client(8 * MS).await;
        writer.put(&key(1), b"zero").await.unwrap();
        let primary = cluster.leader(0).unwrap();
        let (from, to) = (cluster.places[primary].machine, cluster.machine);
        cluster.world.block(Some(from), Some(to), 0, 20_000 * MS);
        let (mut token, name, none) = (None, key(1), Condition::None);
        let unanswered = writer.put_with(&mut token, &name, b"one", none).await;
        unanswered.expect_err("no answer leaves the primary");
        cluster.places[primary].kill();
        let mut seen = vec![get(other, 1).await];
        other.put(&name, b"two").await.unwrap();
        seen.push(get(other, 1).await);
        let again = writer.put_with(&mut token, &name, b"one", none).await;
        assert!(matches!(again, Ok(Written::Done(_))), "{again:?}");
        seen.push(get(other, 1).await);
        kept = promises::takes_effect_once(&seen);
    });
    kept
}

#[test]
fn r8_a_write_that_is_repeated_at_an_heir_takes_effect_once() {
    assert!(r8());
}

/// The cleaner needs room, the segment of the deletion is full, and nothing but the older record of the key, which lies
/// in a segment of live records, keeps it from being freed. Then the power fails on all nodes. Needs the horizon of
/// tombstones: the cleaner would free that segment first.
pub fn r9() -> bool {
    let mut kept = false;
    let shape = Shape {
        segments: 24,
        ..ONE.patient()
    };
    Cluster::tell(shape, 49, async |cluster, client| {
        client.put(&key(0), b"deleted").await.unwrap();
        // These stay, and fill most of the segment of the first record.
        for n in 1..200 {
            client.put(&key(n), &[n as u8; 1_000]).await.unwrap();
        }
        client.delete(&key(0)).await.unwrap();
        // Tombstones of long keys fill the segment of the first one.
        for n in 300..560 {
            let mut long = key(n);
            long.resize(1_000, b'k');
            client.put(&long, b"").await.unwrap();
            client.delete(&long).await.unwrap();
        }
        let of_key = |place: &Place| memory::offsets(cluster, place, &key(0));
        let before: Vec<_> = cluster.places.iter().map(of_key).collect();
        // Each segment of these has live records for long.
        let mut random = random_from_seed(49);
        for _ in 0..1_500 {
            let n = random.random_range(1_000..1_250);
            client.put(&key(n), &[n as u8; 8_000]).await.unwrap();
        }
        let after: Vec<_> = cluster.places.iter().map(of_key).collect();
        let servers = cluster.places.iter().filter_map(Place::server);
        let cleanings: Vec<_> = servers.map(|server| server.cleaning()).collect();
        assert_eq!(get(client, 0).await, None);
        for place in &cluster.places {
            place.cut_power(&cluster.world);
        }
        (0..3).for_each(|index| cluster.start(index));
        cluster.until_served().await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(get(client, 0).await);
            let primary = cluster.leader(0).unwrap();
            cluster.places[primary].kill();
            cluster.start(primary);
            cluster.until_served().await;
        }
        kept = promises::stays_deleted(&seen);
        if !kept {
            return;
        }
        // The older record and the tombstone lie where they were, in two segments. Entries of copies are gone.
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after[..], before[before.len() - 2..]);
            let segments = after
                .iter()
                .map(|&offset| offset as u64 / shape.segment_size);
            assert!(segments.is_sorted_by(|one, other| one < other), "{after:?}");
        }
        for cleaning in cleanings {
            assert!(cleaning.segments > shape.segments, "{cleaning:?}");
            assert!(cleaning.moved_records > 0, "{cleaning:?}");
            assert!(
                cleaning.tombstone_bytes > shape.segment_size,
                "{cleaning:?}"
            );
        }
    });
    kept
}

#[test]
fn r9_a_deleted_key_stays_away_after_a_recovery() {
    assert!(r9());
}
