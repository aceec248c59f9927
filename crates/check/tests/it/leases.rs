//! Leases of clients that died or were taken for dead, in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{MachineOptions, MachineProfile, Process, World};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, Server, Stat};

use crate::one_server::{self, ADDRESS};

/// Time from the moment at which the server takes a client for dead until its leases are free.
const RECLAIM_NS_MAX: Nanoseconds = 20_000_000;

/// A server, and its statistics at every turn.
fn start(world: &World) -> (Process, Rc<Cell<Stat>>) {
    let stat = Rc::new(Cell::new(Stat::default()));
    let told = stat.clone();
    let process = one_server::start(world, 16, async move |_| {
        move |server: &Server| told.set(server.stat())
    });
    (process, stat)
}

/// A client that writes its number `count` times and keeps its leases.
fn write(world: &World, number: u8, count: u32) -> (Process, Rc<RefCell<Option<Client>>>) {
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let kept = Rc::new(RefCell::new(None));
    let (own, keep) = (process.clone(), kept.clone());
    process.runtime().spawn(Box::pin(async move {
        own.runtime().sleep(100_000_000).await;
        let port = own.port(CLIENT_COMPLETIONS).unwrap();
        let client = Client::connect(port, own.runtime(), ADDRESS).await.unwrap();
        for n in 0..count {
            client
                .put(&[number, n as u8], &[number; 1000])
                .await
                .unwrap();
        }
        *keep.borrow_mut() = Some(client);
    }));
    (process, kept)
}

/// A client that writes until it gets an error; returns its process and the number of acknowledged
/// puts.
fn write_on(world: &World, number: u8) -> (Process, Rc<Cell<u32>>, Rc<Cell<bool>>) {
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let (acknowledged, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (own, count, over) = (process.clone(), acknowledged.clone(), is_over.clone());
    process.runtime().spawn(Box::pin(async move {
        own.runtime().sleep(100_000_000).await;
        let port = own.port(CLIENT_COMPLETIONS).unwrap();
        let client = Client::connect(port, own.runtime(), ADDRESS).await.unwrap();
        while client
            .put(&key(number, count.get()), &[number; 1000])
            .await
            .is_ok()
        {
            count.set(count.get() + 1);
        }
        over.set(true);
        // The client keeps its leases.
        own.runtime().sleep(Nanoseconds::MAX / 2).await;
    }));
    (process, acknowledged, is_over)
}

fn key(number: u8, n: u32) -> [u8; 5] {
    let [a, b, c, d] = n.to_be_bytes();
    [number, a, b, c, d]
}

/// Runs until the server knows that its only client is gone, and then until that client holds no
/// lease.
fn reclaim(world: &World, stat: &Cell<Stat>, seed: u64) {
    while stat.get().clients == 1 {
        assert!(world.step());
    }
    let known_at = world.now();
    while stat.get().segments_taken > 0 {
        assert!(
            world.now() - known_at <= RECLAIM_NS_MAX,
            "seed {seed}: {:?}",
            stat.get()
        );
        assert!(world.step());
    }
}

/// Fails without the short pause of a server while leases end (`wait`): an idle server would check for returned leases
/// only every 20 ms, and may just have checked.
#[test]
fn leases_of_a_dead_client_are_free_within_20_ms_of_virtual_time() {
    for seed in 0..20 {
        let world = World::new(seed);
        let (server, stat) = start(&world);
        let (dead, kept) = write(&world, 1, 200);
        while kept.borrow().is_none() {
            assert!(world.step());
        }
        let before = stat.get();
        assert!(
            before.segments_taken >= 1 && before.clients == 1,
            "{before:?}"
        );
        // The server learns of the death together with its NIC.
        dead.break_peers();
        dead.kill();
        reclaim(&world, &stat, seed);
        // All its acknowledged writes are there, and its segments take the writes of others.
        let (_, kept) = write(&world, 2, 200);
        while kept.borrow().is_none() {
            assert!(world.step());
        }
        assert_eq!(
            (stat.get().keys, stat.get().clients),
            (400, 1),
            "seed {seed}"
        );
        drop(server);
    }
}

/// Fails without the same pause, and unless the session of a client ends with the server's side of the connection,
/// whatever the client believes. The fabric promises that a failed connection and its windows stay shut.
#[test]
fn leases_of_a_client_that_is_cut_off_are_free_within_20_ms_and_its_later_writes_have_no_effect() {
    for seed in 0..20 {
        let world = World::new(seed);
        let (server, stat) = start(&world);
        let (cut_off, acknowledged, is_over) = write_on(&world, 1);
        while acknowledged.get() < 100 + seed as u32 {
            assert!(world.step());
        }
        // The server's side of the connection fails; the client does not notice, and continues to write.
        cut_off.break_peers();
        reclaim(&world, &stat, seed);
        let reader = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
        let (_, kept) = write(&world, 2, 200);
        while kept.borrow().is_none() || !is_over.get() {
            assert!(world.step());
        }
        let done = Rc::new(Cell::new(false));
        let (own, count, ended) = (reader.clone(), acknowledged.get(), done.clone());
        reader.runtime().spawn(Box::pin(async move {
            let port = own.port(CLIENT_COMPLETIONS).unwrap();
            let client = Client::connect(port, own.runtime(), ADDRESS).await.unwrap();
            let mut value = Vec::new();
            for n in 0..count {
                assert!(
                    client.get(&key(1, n), &mut value).await.unwrap().is_some(),
                    "put {n} of {count} was acknowledged"
                );
                assert_eq!(value, [1; 1000]);
            }
            for n in 0..200_u32 {
                assert!(
                    client
                        .get(&[2, n as u8], &mut value)
                        .await
                        .unwrap()
                        .is_some()
                );
                assert_eq!(value, [2; 1000]);
            }
            ended.set(true);
        }));
        while !done.get() {
            assert!(world.step());
        }
        // The put in flight at the cut is done or not; no later put is.
        let keys = stat.get().keys;
        assert!(
            (u64::from(count) + 200..=u64::from(count) + 201).contains(&keys),
            "seed {seed}: {keys} keys, {count} acknowledged"
        );
        drop(server);
    }
}
