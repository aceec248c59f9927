//! The flaws R1 to R9 of Rowan-KV as published, under the schedules that show them there
//! (`crates/published/tests/it/rowan_flaws.rs`): the store on several nodes holds.

use futures_util::future::{join, join_all};
use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_fabric_sim::{Fate, RootPort, Survivor};
use stonecast_kv::{ClusterClient, Condition, Written};

use super::world::{Cluster, MS, Place, Shape};
use super::{has_all, put_all, value};
use crate::world::key;

/// One shard with three copies.
const ONE: Shape = Shape {
    shards: 1,
    ..Shape::THREE
};
/// Longer than any lease, shorter than the silence after which a node is removed.
const LONGER_THAN_A_LEASE: Nanoseconds = 30 * MS;

async fn get(client: &ClusterClient, n: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let version = client.get(&key(n), &mut value).await.unwrap();
    version.map(|_| value)
}

fn backups(cluster: &Cluster, primary: usize) -> Vec<usize> {
    let all = 0..cluster.places.len();
    all.filter(|&index| index != primary).collect()
}

/// The bytes of a node's memory after a power cut that keeps the lines of which something is undecided at the offsets
/// for which `survives` returns true.
fn survivor(cluster: &Cluster, place: &Place, survives: impl Fn(u64) -> bool) -> Survivor {
    let wreck = cluster.world.wreck(place.machine, &place.module);
    let fate = |unit: usize| Fate {
        stores: match survives(wreck.offset(unit)) {
            true => wreck.stores(unit),
            false => 0,
        },
        torn: 0,
    };
    let fates: Vec<Fate> = (0..wreck.undecided()).map(fate).collect();
    wreck.survivor(&fates)
}

fn bytes_of(cluster: &Cluster, survivor: &Survivor) -> Vec<u8> {
    let shape = cluster.shape;
    // The log, and the header and the ledgers in front of it.
    let mut bytes = vec![0; ((shape.segments + 1) * shape.segment_size) as usize];
    survivor.read(0, &mut bytes);
    bytes
}

fn position(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes
        .windows(sought.len())
        .position(|found| found == sought)
}

/// Relaxed ordering at the root ports, and writes that wait there. The READ behind an entry would prove nothing: a node
/// whose platform is declared so answers by its processor, after a write-back.
#[test]
pub fn r1_every_copy_holds_what_was_acknowledged_where_writes_may_pass_a_read() {
    let shape = Shape {
        one_sided: false,
        root_port: RootPort {
            relaxed_ordering: true,
            ..RootPort::default()
        },
        inbound_stall_ns_max: 50_000,
        ..ONE.patient()
    };
    Cluster::tell(shape, 41, async |cluster, client| {
        for round in 0..20u8 {
            let value = [b'a' + round; 40];
            client.put(&key(1), &value).await.unwrap();
            let holds = |place: &&Place| {
                let left = survivor(cluster, place, |_| false);
                position(&bytes_of(cluster, &left), &value).is_some()
            };
            let holders = cluster.places.iter().filter(holds).count();
            assert_eq!(holders, 3, "round {round}");
        }
    });
}

/// The old primary is alive, and cut off from its backups until one of them leads.
#[test]
pub fn r2_an_acknowledged_write_of_an_old_primary_is_seen_by_every_reader() {
    Cluster::tell(ONE.patient(), 42, async |cluster, writer| {
        let reader = cluster.client(4_000 * MS).await;
        writer.put(&key(1), b"old").await.unwrap();
        let primary = cluster.leader(0).unwrap();
        for backup in backups(cluster, primary) {
            let places = [primary, backup].map(|index| cluster.places[index].machine);
            let [from, to] = places.map(Some);
            cluster.world.block(from, to, 0, 2 * LONGER_THAN_A_LEASE);
        }
        let name = key(1);
        let put = writer.put(&name, b"new");
        let look = async {
            let is_led = || cluster.leader(0).is_some_and(|leader| leader != primary);
            cluster.until("an heir leads", is_led).await;
            cluster
                .process
                .runtime()
                .sleep(3 * LONGER_THAN_A_LEASE)
                .await;
        };
        let (put, ()) = join(put, look).await;
        put.unwrap();
        assert_eq!(get(&reader, 1).await.unwrap(), b"new");
        assert_eq!(get(writer, 1).await.unwrap(), b"new");
    });
}

/// The writer gives up before the primary dies, so that nothing but the nodes themselves brings the copies together.
#[test]
pub fn r3_a_write_that_only_one_backup_has_stays_or_goes_for_all_heirs() {
    let mut seen = Vec::new();
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
            let first = get(reader, 1).await.unwrap();
            let heir = cluster.leader(0).unwrap();
            assert_ne!(heir, primary);
            cluster.places[heir].kill();
            let second = get(reader, 1).await.unwrap();
            assert_ne!(cluster.leader(0), Some(heir));
            assert_eq!(first, second);
            seen.push(first);
        });
    }
    assert!(seen.iter().all(|value| value == b"old" || value == b"new"));
}

#[test]
pub fn r4_two_writers_of_one_key_leave_the_same_value_to_an_heir() {
    Cluster::tell(ONE, 44, async |cluster, client| {
        let other = cluster.client(4_000 * MS).await;
        let name = key(1);
        for round in 0..50u8 {
            let values: Vec<_> = (0..8u8).map(|turn| [round, turn]).collect();
            let puts = values.iter().enumerate().map(|(turn, value)| {
                let writer = if turn % 2 == 0 { client } else { &other };
                writer.put(&name, value)
            });
            for put in join_all(puts).await {
                put.unwrap();
            }
        }
        let last = get(client, 1).await;
        for _ in 0..2 {
            let primary = cluster.leader(0).unwrap();
            cluster.places[primary].kill();
            assert_eq!(get(&other, 1).await, last);
        }
    });
}

/// The writer knows every byte of a record and of an entry of another key, which it has read from the memory of nodes,
/// and stores them within a value of its own, at the beginning of a line. The power fails on all nodes while that write
/// is under way, and takes its first line.
#[test]
pub fn r5_a_value_that_contains_a_record_never_becomes_one() {
    let mut torn = 0;
    for events in (0..400).step_by(4) {
        Cluster::tell(ONE.patient(), 45, async |cluster, client| {
            const OLD: &[u8; 40] = &[b'o'; 40];
            client.put(&key(1), OLD).await.unwrap();
            let images = cluster.places.iter().filter_map(|place| {
                let all = bytes_of(cluster, &survivor(cluster, place, |_| true));
                let at = position(&all, OLD)?;
                // The record begins at a line, with the header and the key before the value.
                let begin = (at - 64) / 64 * 64;
                Some((at % 64, all[begin..at + OLD.len()].to_vec()))
            });
            let images: Vec<(usize, Vec<u8>)> = images.collect();
            assert_eq!(images.len(), 3, "every copy has it");
            client.put(&key(1), b"the latest").await.unwrap();
            let mut value = Vec::new();
            for (within, image) in images {
                // The value begins where that of the other record did, since the keys are as long.
                let begun = (within + value.len()) % 64;
                value.resize(value.len() + (64 - begun) % 64, 0);
                value.extend(image);
            }
            let other = key(2);
            let put = client.put(&other, &value);
            let crash = async {
                cluster.process.runtime().sleep(events * 25).await;
                for place in &cluster.places {
                    let wreck = cluster.world.wreck(place.machine, &place.module);
                    let offsets = (0..wreck.undecided()).map(|unit| wreck.offset(unit) / 64);
                    let first = offsets.min();
                    torn += usize::from(first.is_some());
                    place.lose_power(&cluster.world, |place| {
                        survivor(cluster, place, |offset| Some(offset / 64) != first)
                    });
                }
                (0..3).for_each(|index| cluster.start(index));
                cluster.until_served().await;
            };
            let (_, ()) = join(put, crash).await;
            for leading in 0..3 {
                assert_eq!(get(client, 1).await.unwrap(), b"the latest", "{events}");
                if leading < 2 && events % 100 == 0 {
                    let primary = cluster.leader(0).unwrap();
                    cluster.places[primary].kill();
                    cluster.start(primary);
                    cluster.until_served().await;
                }
            }
        });
    }
    assert!(torn > 12, "{torn} copies lost a line");
}

/// One node whose software stands still has copies of all shards.
#[test]
pub fn r6_no_node_waits_for_the_buffers_of_one_until_it_is_back() {
    Cluster::tell(Shape::THREE, 46, async |cluster, client| {
        put_all(client, 0..10).await;
        const STANDS_STILL: Nanoseconds = 1_000 * MS;
        let runtime = cluster.process.runtime();
        let begin = runtime.now();
        cluster.places[2].pause(STANDS_STILL);
        put_all(client, 10..210).await;
        assert!(runtime.now() - begin < STANDS_STILL / 4);
        has_all(client, 0..210).await;
        cluster
            .until("the node is filled again", || cluster.is_whole())
            .await;
        has_all(client, 0..210).await;
    });
}

/// A backup's NIC goes on to take entries. An acknowledgement means that they are durable, and never for longer than a
/// lease that the software of backups grants. A client goes on to write beyond that lease, until the power fails on all
/// nodes.
#[test]
pub fn r7_nodes_whose_software_is_dead_let_no_primary_acknowledge() {
    Cluster::tell(ONE.patient(), 47, async |cluster, client| {
        put_all(client, 0..10).await;
        let hasty = cluster.client(8 * MS).await;
        let primary = cluster.leader(0).unwrap();
        const DEAD: Nanoseconds = 500 * MS;
        let runtime = cluster.process.runtime();
        let begin = runtime.now();
        for backup in backups(cluster, primary) {
            cluster.places[backup].pause(2 * DEAD);
        }
        let (mut acknowledged, mut last, mut refused) = (10, begin, 0);
        while runtime.now() - begin < DEAD {
            // Credit for entries is left when the lease ends.
            runtime.sleep(MS).await;
            // A refused write may take effect later, so its key gets the same value again.
            match hasty.put(&key(acknowledged), &value(acknowledged)).await {
                Ok(_) => (acknowledged, last) = (acknowledged + 1, runtime.now()),
                Err(_) => refused += 1,
            }
        }
        assert!(acknowledged > 10, "the primary has a lease at first");
        assert!(refused > 10, "{refused} were begun beyond the lease");
        let (lasted, lease) = (last - begin, cluster.stored().policy.lease.duration_ns);
        assert!(lasted < lease + MS, "{lasted} ns after the death");
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
}

/// The answer of the first attempt is lost with the primary, and another client writes before the second one.
#[test]
pub fn r8_a_write_that_is_repeated_at_an_heir_takes_effect_once() {
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
        let mut seen = vec![get(other, 1).await.unwrap()];
        other.put(&name, b"two").await.unwrap();
        seen.push(get(other, 1).await.unwrap());
        let again = writer.put_with(&mut token, &name, b"one", none).await;
        assert!(matches!(again, Ok(Written::Done(_))), "{again:?}");
        seen.push(get(other, 1).await.unwrap());
        assert_eq!(seen, [b"one", b"two", b"two"], "one was written once");
    });
}

/// The offsets at which `sought` begins in the memory of a node.
fn offsets(cluster: &Cluster, place: &Place, sought: &[u8]) -> Vec<usize> {
    let bytes = bytes_of(cluster, &survivor(cluster, place, |_| true));
    let windows = bytes.windows(sought.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == sought);
    found.map(|(offset, _)| offset).collect()
}

/// The cleaner needs room, the segment of the deletion is full, and nothing but the older record of the key, which lies
/// in a segment of live records, keeps it from being freed. Then the power fails on all nodes. Needs the horizon of
/// tombstones: the cleaner would free that segment first.
#[test]
pub fn r9_a_deleted_key_stays_away_after_a_recovery() {
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
        let of_key = |place: &Place| offsets(cluster, place, &key(0));
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
        for _ in 0..3 {
            assert_eq!(get(client, 0).await, None);
            let primary = cluster.leader(0).unwrap();
            cluster.places[primary].kill();
            cluster.start(primary);
            cluster.until_served().await;
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
}
