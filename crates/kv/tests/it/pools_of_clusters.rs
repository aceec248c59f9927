//! Pools of clusters, each served by its node alone: stories of other modules, told again, and
//! stories of the ledger.

use std::os::unix::fs::FileExt as _;

use stonecast_kv::{ClientPolicy, ServerOptions, StoreError, verify};
use stonecast_media::OpenMode;

use crate::told_again::told_again;
use crate::trouble::Trouble;
use crate::world::{End, World, key};

told_again! {
    |story| crate::world::in_cluster(story);
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
    growing:
        an_index_that_has_grown_opens_from_its_checkpoint_without_reported_damage;
    sharing:
        clients_that_meet_on_the_same_keys_see_each_others_writes_in_order
        a_counter_loses_no_increment_when_all_clients_use_conditional_puts
        many_operations_of_one_client_are_in_flight_at_once_and_all_are_answered;
    tokens:
        a_write_that_was_done_is_not_done_again_whatever_was_written_after_it
        writes_that_are_given_up_at_any_moment_and_retried_elsewhere_are_done_once
        a_restart_of_the_server_forgets_no_outcome;
}

/// A small pool of a cluster with seven shards.
fn small() -> World {
    World {
        shards: 7,
        cluster_seed: Some(5),
        ..World::small()
    }
}

async fn put_all(world: &World, numbers: std::ops::Range<u64>) {
    let client = world.client().await;
    for n in numbers {
        client.put(&key(n), &n.to_be_bytes()).await.unwrap();
    }
}

async fn has_all(world: &World, numbers: std::ops::Range<u64>) {
    let (client, mut read) = (world.client().await, Vec::new());
    for n in numbers {
        assert!(
            client.get(&key(n), &mut read).await.unwrap().is_some(),
            "{n}"
        );
        assert_eq!(read, n.to_be_bytes());
    }
}

/// The number of the segment that appends fill.
const HOME: usize = 0;

fn log_of(world: &World) -> std::fs::File {
    let path = world.pool_path().join("log");
    let file = std::fs::File::options().read(true).write(true).open(path);
    file.unwrap()
}

/// Needs the check of the settled version: a checkpoint of records that the ledger does not call settled would hide
/// them from the history, and the records behind them would not count.
#[test]
fn a_pool_whose_ledger_is_older_than_its_checkpoint_is_read_from_the_log() {
    let world = small();
    world.run(async |world| put_all(world, 0..10).await);
    let ledger = ledger_of(&world);
    world.run(async |world| put_all(world, 10..20).await);
    // The ledger of the first run, in both slots, as if nothing had been settled since.
    write_ledger(&world, &ledger);
    world.run(async |world| {
        let report = world.report.borrow().clone();
        assert!(!report.used_checkpoint);
        assert_eq!(report.records, 20);
        has_all(world, 0..20).await;
    });
}

/// The bytes of both slots.
fn ledger_of(world: &World) -> Vec<u8> {
    let mut bytes = vec![0; 128 * 64];
    let at = (HOME as u64) * world.segment_size + 4 * 64;
    log_of(world).read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn write_ledger(world: &World, bytes: &[u8]) {
    let at = (HOME as u64) * world.segment_size + 4 * 64;
    log_of(world).write_all_at(bytes, at).unwrap();
}

/// The pool survives the death of processes alone. Its node may have told others of records that the power cut took.
#[test]
fn a_pool_that_does_not_survive_a_power_cut_is_refused_with_the_way_to_replace_it() {
    let world = small();
    world.run_until(End::Kill, async |world| put_all(world, 0..10).await);
    world.trouble.set(Trouble::PowerWasCut);
    let refused = world.try_run(End::Close, async |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::CopyLost { .. }), "{refused}");
    let words = refused.to_string();
    assert!(words.contains("stonecast cluster remove NODE"), "{words}");
    // Nothing was changed: the pool opens where it is believed.
    world.trouble.set(Trouble::None);
    world.run(async |world| has_all(world, 0..10).await);
}

/// Fails unless only a whole ledger is believed: a pool without it would count void records.
#[test]
fn a_pool_whose_ledger_is_gone_is_refused() {
    let world = small();
    world.run_until(End::Kill, async |world| put_all(world, 0..10).await);
    let whole = ledger_of(&world);
    write_ledger(&world, &vec![0; whole.len()]);
    let refused = world.try_run(End::Close, async |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
    assert!(refused.to_string().contains("ledger"), "{refused}");
    let found = verify(&world.open_pool_for(OpenMode::Inspect), &mut |_, _| {}).unwrap();
    assert!(!found.damage.is_empty());
    write_ledger(&world, &whole);
    world.run(async |world| has_all(world, 0..10).await);
}

/// Needs the look for the ledger's segment: with an empty ledger all records are void, and the opening makes that
/// durable.
#[test]
fn a_pool_whose_ledger_has_lost_its_segment_is_refused_and_stays_as_it_is() {
    let world = small();
    world.run_until(End::Kill, async |world| put_all(world, 0..10).await);
    let at = (HOME as u64) * world.segment_size;
    let mut header = [0; 4 * 64];
    log_of(&world).read_exact_at(&mut header, at).unwrap();
    log_of(&world).write_all_at(&[0; 4 * 64], at).unwrap();
    let refused = world.try_run(End::Close, async |_| ()).unwrap_err();
    assert!(
        refused.to_string().contains("none with a ledger"),
        "{refused}"
    );
    log_of(&world).write_all_at(&header, at).unwrap();
    world.run(async |world| has_all(world, 0..10).await);
}

/// Fails if a pool of a cluster lets clients take versions from the counter: a missing version could not be
/// noticed.
#[test]
pub fn clients_do_not_publish_in_a_pool_of_a_cluster() {
    let world = World {
        options: ServerOptions {
            clients: ClientPolicy::Publishing,
            ..ServerOptions::default()
        },
        shards: 1,
        ..small()
    };
    let refused = world.try_run(End::Close, async |_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Publication { .. }));
    assert!(refused.to_string().contains("cluster"), "{refused}");
}

/// Needs the rise of the floors before a segment is chosen, and the look at the settled version in the choice: the
/// versions of a segment that was used again are missing, and the history would end there.
#[test]
fn records_that_were_cleaned_away_leave_no_gap_in_the_history() {
    let world = small();
    for round in 0..3 {
        world.run_until(End::Kill, async |world| {
            let client = world.client().await;
            let mut cleaned = 0;
            while cleaned < 12 {
                for n in 0..500 {
                    client.put(&key(n), &[round; 400]).await.unwrap();
                }
                cleaned = client.metrics().await.unwrap().cleaning.segments;
            }
        });
        world.run_until(End::Kill, async |world| {
            let (client, mut read) = (world.client().await, Vec::new());
            for n in 0..500 {
                assert!(
                    client.get(&key(n), &mut read).await.unwrap().is_some(),
                    "{n}"
                );
                assert_eq!(read, [round; 400]);
            }
        });
    }
}
