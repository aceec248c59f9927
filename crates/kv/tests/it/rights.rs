//! The memory that a client can read, and the time for which it can.

use std::rc::Rc;

use stonecast_fabric::{Port, ReadInto, Rkey, Status};
use stonecast_kv::{Client, Yardstick};

use crate::fabric::on_every_provider;
use crate::world::World;

/// Reads 64 bytes of index and log of `of` over the connection of `over`.
async fn statuses(port: &Rc<Port>, over: &Yardstick, of: &Yardstick) -> Vec<bool> {
    let device = port.device().clone();
    let region = device
        .allocate(4096, stonecast_fabric::Access::NONE)
        .unwrap();
    let span = stonecast_fabric::LocalSpan {
        region,
        offset: 0,
        size: 4096,
    };
    let mut opened = Vec::new();
    for remote in [of.index, of.log] {
        let mut bytes = [0; 64];
        let status = port
            .read(
                over.queue_pair,
                &mut [ReadInto {
                    remote,
                    into: &mut bytes,
                }],
                span,
                None,
            )
            .await;
        opened.push(matches!(status, Ok(Status::Success)));
        if !opened[opened.len() - 1] {
            break;
        }
    }
    opened
}

async fn client_with_port(world: &World) -> (Rc<Port>, Client) {
    let (port, runtime) = world.port();
    let client = Client::connect(port.clone(), runtime, &world.address())
        .await
        .unwrap();
    (port, client)
}

/// Fails without a window for each client: a key of the region opens the region to every peer that knows the number.
#[test]
fn the_keys_of_one_client_open_nothing_to_another() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (port, client) = client_with_port(world).await;
            let (_, other) = client_with_port(world).await;
            let (mine, theirs) = (client.yardstick().unwrap(), other.yardstick().unwrap());
            assert_ne!(
                (mine.index.rkey, mine.log.rkey),
                (theirs.index.rkey, theirs.log.rkey)
            );
            assert_eq!(statuses(&port, &mine, &mine).await, [true, true]);
            assert_eq!(statuses(&port, &mine, &theirs).await, [false]);
        });
    });
}

/// Fails unless the regions are registered without rights: beside windows, the region's own key is a number like any
/// other.
#[test]
fn no_key_that_was_not_given_to_a_client_opens_index_or_log() {
    on_every_provider(|| {
        World::default().run(async |world| {
            // Regions are registered before there are clients, so their keys have the lowest numbers.
            for number in 0..24 {
                for log in [false, true] {
                    // A READ that is refused ends its connection.
                    let (port, client) = client_with_port(world).await;
                    let mine = client.yardstick().unwrap();
                    let rkey = Rkey(mine.index.rkey.0 & !0xffff | number);
                    let mut guess = if log {
                        Yardstick {
                            index: mine.log,
                            ..mine
                        }
                    } else {
                        mine
                    };
                    guess.index.rkey = rkey;
                    let own = rkey == mine.index.rkey || rkey == mine.log.rkey;
                    assert!(
                        own || statuses(&port, &mine, &guess).await == [false],
                        "key {number}, log {log}"
                    );
                }
            }
        });
    });
}
