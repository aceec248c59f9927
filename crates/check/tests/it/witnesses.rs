//! The cost of witnesses, exact to the line.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_fabric_sim::{MachineOptions, MachineProfile, World};
use stonecast_kv::{CLIENT_COMPLETIONS, Client, Metrics, Server};

use crate::one_server::{self, ADDRESS};

/// Bytes that a segment gains between two lines that are persisted for its neighbour.
const STEP: u64 = 16 << 10;
/// Lines of a put of 64 bytes.
const LINES: u64 = 2;

/// Puts that fit into half a segment. After them the client leases another segment, whose header is persisted, too.
const PUTS: u64 = 900;

/// Fails without `WITNESS_STEP`, and unless the line is part of a persist that is made anyway.
#[test]
fn a_put_costs_its_own_lines_its_fence_and_one_more_line_for_each_16_kib() {
    let world = World::new(4);
    let seen = Rc::new(Cell::new(None::<Metrics>));
    let told = seen.clone();
    one_server::start(&world, 16, async move |_| {
        move |server: &Server| told.set(Some(server.metrics()))
    });
    let count = || {
        let metrics = seen.get().expect("the server runs");
        (metrics.write_backs, metrics.fences)
    };
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    world.block_on(async {
        let runtime = process.runtime();
        runtime.sleep(100_000_000).await;
        let port = process.port(CLIENT_COMPLETIONS).unwrap();
        let client = Client::connect(port, runtime.clone(), ADDRESS)
            .await
            .unwrap();
        client.put(b"first", &[1; 64]).await.unwrap();
        runtime.sleep(100_000_000).await;
        let (lines, fences) = count();
        for n in 0..PUTS {
            client.put(&n.to_be_bytes(), &[7; 64]).await.unwrap();
        }
        runtime.sleep(100_000_000).await;
        let (lines_after, fences_after) = count();
        assert_eq!(
            fences_after - fences,
            PUTS,
            "no persist is made for a witness"
        );
        assert_eq!(
            lines_after - lines,
            PUTS * LINES + PUTS * LINES * LINE_SIZE as u64 / STEP
        );
    });
}
