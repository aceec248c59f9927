//! Partitions between a server and its clients, and how long troubles last.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric_sim::{Machine, World};

/// Draws a duration, which may be shorter than a round trip or longer than every deadline.
pub(crate) fn duration_ns(random: &mut Random) -> Nanoseconds {
    const LONGEST: [Nanoseconds; 4] = [20_000, 1_000_000, 50_000_000, 1_500_000_000];
    let longest = LONGEST[random.random_range(0..4)];
    random.random_range(1000..longest)
}

/// Puts a partition between `server` and `clients`. Returns its kind.
pub(crate) fn partition(
    world: &World,
    server: Machine,
    clients: &[Machine],
    random: &mut Random,
) -> &'static str {
    let client = clients[random.random_range(0..clients.len())];
    let duration = duration_ns(random);
    match random.random_range(0..5) {
        0 => {
            world.block(Some(server), Some(client), 0, duration);
            world.block(Some(client), Some(server), 0, duration);
            "both ways between the server and a client"
        }
        1 => {
            world.block(Some(server), Some(client), 0, duration);
            "from the server to a client"
        }
        2 => {
            world.block(Some(client), Some(server), 0, duration);
            "from a client to the server"
        }
        3 => {
            world.block(Some(server), None, 0, duration);
            world.block(None, Some(server), 0, duration);
            "around the server"
        }
        _ => {
            // The links clog one after the other, and clear in another order.
            for &client in clients {
                let (pause, lasts) = (duration_ns(random), duration_ns(random));
                world.block(Some(client), Some(server), pause, lasts);
                world.block(Some(server), Some(client), pause / 2, lasts);
            }
            "of one link after the other"
        }
    }
}
