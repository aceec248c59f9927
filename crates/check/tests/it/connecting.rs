//! What a client does whose connection breaks before it is made.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric_sim::{MachineOptions, Profile, World};
use stonecast_store_direct::{CLIENT_COMPLETIONS, Client, StoreError};

/// A queue pair that breaks while it connects gives its receive buffers back and no event. Needs the look at them in
/// `welcome`: without it the client looks for an event for ever, and nothing else of its process runs.
#[test]
fn a_client_whose_nic_is_reset_while_it_connects_is_refused() {
    let world = World::new(1);
    let [here, there] = [(); 2].map(|()| world.machine(MachineOptions::new(Profile::MODERN)));
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
    for _ in 0..8 {
        assert!(world.step() && outcome.borrow().is_none(), "nobody answers");
    }
    world.reset_nic(here);
    for _ in 0..100 {
        if outcome.borrow().is_some() || !world.step() {
            break;
        }
    }
    assert!(matches!(*outcome.borrow(), Some(Err(StoreError::Refused { .. }))), "{:?}", outcome.borrow());
}
