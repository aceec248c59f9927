//! Pools whose keys are split into shards: stories of other modules, told again with seven shards,
//! and stories of several shards.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric::{
    Access, LocalSpan, Operation, Port, ReceiveQueue, ReceiveRequest, Received,
};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, ClientPolicy, ServerOptions, StoreError, Values};

use crate::bare::{bare_queue_pair, proper_hello};
use crate::fabric::on_every_provider;
use crate::told_again::told_again;
use crate::world::{End, World, in_shards, key};

const SHARDS: u32 = 7;

told_again! {
    |story| crate::world::in_shards(super::SHARDS, story);
    basics:
        a_put_is_read_back_and_a_deleted_key_is_gone
        values_of_every_size_are_read_back_whole
        one_of_two_writes_that_name_the_same_version_is_done
        many_keys_are_found_alone_in_batches_and_by_iteration_in_the_order_of_their_commits;
    batches:
        a_refused_pair_has_its_error_in_its_place_and_the_others_are_stored;
    cleaning:
        a_pool_takes_overwrites_many_times_its_capacity_over_kills_and_restarts
        keys_that_are_put_and_deleted_for_ever_do_not_fill_the_pool_with_tombstones
        a_pool_whose_index_is_lost_forgets_no_version_and_guesses_no_outcome
        a_checkpoint_that_names_places_used_again_is_not_believed;
    crash:
        everything_acknowledged_is_there_after_one_kill_and_after_another
        a_closed_pool_opens_from_its_checkpoint_and_a_damaged_checkpoint_only_costs_a_scan
        a_checkpoint_stays_useful_after_a_crash_and_later_writes_win_over_it
        a_full_pool_refuses_writes_serves_reads_and_still_deletes;
    damage:
        a_closed_pool_with_any_wrong_bytes_opens_right_or_is_refused;
    growing:
        readers_miss_no_key_and_find_no_absent_key_while_the_index_grows
        an_index_that_has_grown_opens_from_its_checkpoint_without_reported_damage;
    locations:
        writes_and_deletes_of_others_are_seen_whatever_a_client_remembers
        an_index_that_has_moved_confirms_no_place;
    sharing:
        clients_that_meet_on_the_same_keys_see_each_others_writes_in_order
        a_counter_loses_no_increment_when_all_clients_use_conditional_puts
        many_operations_of_one_client_are_in_flight_at_once_and_all_are_answered;
    tokens:
        a_write_that_was_done_is_not_done_again_whatever_was_written_after_it
        writes_that_are_given_up_at_any_moment_and_retried_elsewhere_are_done_once
        a_restart_of_the_server_forgets_no_outcome;
}

/// A client over a port whose work is counted.
async fn counted_client(world: &World) -> (Client, Rc<Meter>) {
    let meter = Rc::<Meter>::default();
    let (fabric, runtime) = (world.fabric(), world.runtime());
    let device = fabric.port(CLIENT_COMPLETIONS).device().clone();
    let device = Rc::new(Observed::new(device, meter.clone()));
    let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS).unwrap());
    fabric.executor().add_port(&port);
    let client = Client::connect(port, runtime, &world.address()).await;
    (client.unwrap(), meter)
}

/// Fails if a client asks for an index with each read, or for the indexes of all shards when it
/// connects.
#[test]
fn the_first_read_of_each_shard_costs_one_request_and_later_reads_cost_none() {
    for shards in [1, SHARDS] {
        in_shards(shards, || {
            World::default().run(async |world| {
                let writer = world.client().await;
                for n in 0..200 {
                    writer.put(&key(n), b"value").await.unwrap();
                }
                let (client, meter) = counted_client(world).await;
                assert_eq!(
                    meter.counts().sends,
                    1,
                    "the connect asks for the first shard"
                );
                let mut read = Vec::new();
                for n in 0..200 {
                    assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
                }
                assert_eq!(meter.counts().sends, u64::from(shards));
                let keys: Vec<Vec<u8>> = (0..200).map(key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                client
                    .multi_get(&keys, &mut Values::default())
                    .await
                    .unwrap();
                assert_eq!(client.entries().await.unwrap().len(), 200);
                assert_eq!(meter.counts().sends, u64::from(shards));
            });
        });
    }
}

/// Fails if a batch of READs or a walk uses an index that this client has not asked for.
#[test]
fn many_keys_and_a_walk_open_the_indexes_that_they_need() {
    in_shards(SHARDS, || {
        on_every_provider(|| {
            World::default().run(async |world| {
                let writer = world.client().await;
                for n in 0..64 {
                    writer.put(&key(n), &n.to_be_bytes()).await.unwrap();
                }
                let keys: Vec<Vec<u8>> = (0..65).map(key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let (client, mut values) = (world.client().await, Values::default());
                client.multi_get(&keys, &mut values).await.unwrap();
                for n in 0..64u64 {
                    let (value, _) = values.get(n as usize).unwrap();
                    assert_eq!(value, n.to_be_bytes());
                }
                assert!(values.get(64).is_none());
                let other = world.client().await;
                assert_eq!(other.entries().await.unwrap().len(), 64);
            });
        });
    });
}

#[test]
fn keys_and_live_bytes_are_those_of_all_shards_after_a_close_and_after_a_kill() {
    in_shards(SHARDS, || {
        let world = World::default();
        let told = |world: &World, end| {
            world.run_until(end, async |world| {
                let stat = world.client().await.stat().await.unwrap();
                (stat.keys, stat.live_bytes)
            })
        };
        let written = world.run(async |world| {
            let client = world.client().await;
            for n in 0..1000 {
                client.put(&key(n), b"value").await.unwrap();
            }
            for n in 0..100 {
                assert!(client.delete(&key(n)).await.unwrap());
            }
            let stat = client.stat().await.unwrap();
            (stat.keys, stat.live_bytes)
        });
        assert_eq!(written.0, 900);
        assert_eq!(told(&world, End::Kill), written, "from the checkpoint");
        assert!(world.report.borrow().used_checkpoint);
        std::fs::write(world.pool_path().join("checkpoint"), []).unwrap();
        assert_eq!(told(&world, End::Close), written, "from the log");
        assert!(!world.report.borrow().used_checkpoint);
    });
}

/// A checkpoint of version 3 has one index, and no list.
#[test]
fn a_checkpoint_of_an_earlier_version_is_reported_and_costs_a_scan() {
    in_shards(SHARDS, || {
        let world = World::default();
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..100 {
                client.put(&key(n), b"value").await.unwrap();
            }
        });
        let path = world.pool_path().join("checkpoint");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[24] = 3;
        let checksum = stonecast_base::hash::xxh3_128(&bytes[16..]);
        bytes[..16].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        world.run(async |world| {
            let report = world.report.borrow().clone();
            assert!(!report.used_checkpoint && report.repairs.len() == 1);
            assert_eq!((report.keys, report.records), (100, 100));
            let client = world.client().await;
            let mut read = Vec::new();
            for n in 0..100 {
                assert!(client.get(&key(n), &mut read).await.unwrap().is_some());
            }
        });
    });
}

#[test]
fn clients_do_not_publish_in_a_pool_of_several_shards() {
    in_shards(SHARDS, || {
        let world = World {
            options: ServerOptions {
                clients: ClientPolicy::Publishing,
                ..ServerOptions::default()
            },
            ..World::default()
        };
        let refused = world.try_run(End::Close, async |_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::Publication { .. }));
        assert!(refused.to_string().contains("shards"), "{refused}");
    });
}

/// Sends `request` over a connection of its own, and returns the answer.
async fn answer_to(world: &World, request: &[u8]) -> Vec<u8> {
    let (port, runtime) = world.port();
    let device = port.device().clone();
    let region = device.allocate(4096, Access::NONE).unwrap();
    let qp = bare_queue_pair(&port, 4, 4, 10);
    let local = |offset, size| LocalSpan {
        region,
        offset,
        size,
    };
    let receive = ReceiveRequest {
        wr_id: 0,
        local: local(2048, 2048),
    };
    let queue = ReceiveQueue::Own(qp);
    device.post_receive(queue, &[receive]).unwrap();
    device
        .connect(qp, &world.address(), &proper_hello())
        .unwrap();
    port.activity().await;
    device.memory(region).write(0, request);
    let send = Operation::Send {
        local: local(0, request.len() as u32),
    };
    let _ = port.post(qp, [send]);
    let size = loop {
        if let Some(Received { placement, .. }) = port.take_received() {
            break placement.size;
        }
        runtime.sleep(2_000).await;
    };
    let mut answer = vec![0; size as usize];
    device.memory(region).read(2048, &mut answer);
    answer
}

/// Fails unless the server checks the number of a shard that a client names.
#[test]
fn a_request_for_a_shard_that_the_node_does_not_serve_is_invalid() {
    const ACCESS: u8 = 6;
    const OUTCOME: u8 = 8;
    const INVALID_AFTER: u32 = SHARDS - 1;
    in_shards(SHARDS, || {
        World::default().run(async |world| {
            let mut kinds = BTreeMap::new();
            for kind in [ACCESS, OUTCOME] {
                for shard in [0, INVALID_AFTER, SHARDS, u32::MAX] {
                    let mut request = vec![0; 32];
                    request[0] = kind;
                    request[4..8].copy_from_slice(&shard.to_le_bytes());
                    let answer = answer_to(world, &request).await;
                    kinds.insert((kind, shard), answer[0]);
                }
            }
            for kind in [ACCESS, OUTCOME] {
                let good = kinds[&(kind, 0)];
                assert_eq!(kinds[&(kind, INVALID_AFTER)], good);
                let invalid = kinds[&(kind, SHARDS)];
                assert_ne!(invalid, good);
                assert_eq!(kinds[&(kind, u32::MAX)], invalid);
            }
            assert_eq!(kinds[&(ACCESS, SHARDS)], kinds[&(OUTCOME, SHARDS)]);
            let client = world.client().await;
            client.put(b"key", b"value").await.unwrap();
        });
    });
}
