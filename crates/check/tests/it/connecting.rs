//! Clients whose connection breaks during its setup, and clients that lose completions.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric_sim::{Faults, MachineOptions, MachineProfile, SimBacking, Survivor, World};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, Server, ServerOptions, StoreError};
use stonecast_media::{Durability, Pool, PoolOptions};

/// A queue pair that breaks while it connects returns its receive buffers and gives no event. Fails without the check
/// of these buffers in `welcome`: the client waits for an event forever, and nothing else in its process runs.
#[test]
fn a_client_whose_nic_is_reset_while_it_connects_is_refused() {
    let world = World::new(1);
    let [here, there] =
        [(); 2].map(|()| world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let listener = world.process(there);
    let port = listener.port(64).unwrap();
    port.device().listen("sim:nobody-answers").unwrap();
    let process = world.process(here);
    let outcome = Rc::new(RefCell::new(None));
    let (told, client) = (outcome.clone(), process.clone());
    process.runtime().spawn(Box::pin(async move {
        let port = client.port(CLIENT_COMPLETIONS).unwrap();
        let result = Client::connect(port, client.runtime(), "sim:nobody-answers").await;
        *told.borrow_mut() = Some(result.map(drop));
    }));
    let quiet = (0..1_000).any(|_| !world.step());
    assert!(quiet && outcome.borrow().is_none(), "nobody answers");
    world.reset_nic(here);
    for _ in 0..100 {
        if outcome.borrow().is_some() || !world.step() {
            break;
        }
    }
    assert!(
        matches!(*outcome.borrow(), Some(Err(StoreError::Refused { .. }))),
        "{:?}",
        outcome.borrow()
    );
}

/// A completion queue that loses a completion breaks its queue pairs, and delivers nothing more for them. Fails unless
/// the queue pair is destroyed at the end of the connection: a READ waits for its completion forever.
#[test]
fn a_read_whose_completion_is_lost_ends_with_the_connection() {
    let world = World::new(1);
    let [here, there] =
        [(); 2].map(|()| world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let module = world.module(there, Survivor::default());
    let options = PoolOptions {
        capacity: 4 << 18,
        segment_size: 1 << 18,
        shards: 1,
        cluster_seed: None,
        platform: MachineOptions::new(MachineProfile::MODERN).platform,
        durability: Durability::Power,
        entropy: [7; 64],
    };
    let pool = Pool::create(Rc::new(SimBacking::new(&module)), options).unwrap();
    let (server, process) = (world.process(there), world.process(here));
    let serving = server.clone();
    server.runtime().spawn(Box::pin(async move {
        let port = serving.port(65_536).unwrap();
        let device = port.device().clone();
        let (server, _) = Server::open(pool, port, serving.runtime(), ServerOptions::default())
            .await
            .unwrap();
        device.listen("sim:lossy").unwrap();
        server.run(&|| false).await.unwrap();
    }));
    let (connected, outcome) = (Rc::new(RefCell::new(false)), Rc::new(RefCell::new(None)));
    let (is_connected, told, client) = (connected.clone(), outcome.clone(), process.clone());
    process.runtime().spawn(Box::pin(async move {
        client.runtime().sleep(100_000_000).await;
        let port = client.port(CLIENT_COMPLETIONS).unwrap();
        let store = Client::connect(port, client.runtime(), "sim:lossy")
            .await
            .unwrap();
        *is_connected.borrow_mut() = true;
        client.runtime().sleep(1_000_000).await;
        *told.borrow_mut() = Some(store.get(b"key", &mut Vec::new()).await);
    }));
    while !*connected.borrow() {
        assert!(world.step());
    }
    world.set_faults(Faults {
        completion_lost_per_million: 1_000_000,
        ..Faults::default()
    });
    for _ in 0..10_000 {
        if outcome.borrow().is_some() || !world.step() {
            break;
        }
    }
    assert!(
        matches!(
            *outcome.borrow(),
            Some(Err(StoreError::Disconnected { .. }))
        ),
        "{:?}",
        outcome.borrow()
    );
    assert!(world.fault_hits()["completion_lost"] > 0);
}
