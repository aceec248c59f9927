//! What a client can read, and for how long.

use std::rc::Rc;

use stonecast_fabric::{Port, ReadInto, Rkey, Status};
use stonecast_store_direct::{Client, Yardstick};

use crate::fabric::on_every_provider;
use crate::world::World;

/// Reads 64 bytes of index and log of `of` over the connection of `over`.
async fn statuses(port: &Rc<Port>, over: &Yardstick, of: &Yardstick) -> Vec<bool> {
    let device = port.device().clone();
    let region = device.allocate(4096, stonecast_fabric::Access::NONE).unwrap();
    let span = stonecast_fabric::LocalSpan { region, offset: 0, size: 4096 };
    let mut opened = Vec::new();
    for remote in [of.index, of.log] {
        let mut bytes = [0; 64];
        let status = port.read(over.queue_pair, &mut [ReadInto { remote, into: &mut bytes }], span).await;
        opened.push(matches!(status, Ok(Status::Success)));
        if !opened[opened.len() - 1] {
            break;
        }
    }
    opened
}

async fn client_with_port(world: &World) -> (Rc<Port>, Client) {
    let (port, runtime) = world.port();
    let client = Client::connect(port.clone(), runtime, &world.address()).await.unwrap();
    (port, client)
}

/// Needs a window for each client: a key of the region opens it to everybody who knows the number.
#[test]
fn the_keys_of_one_client_open_nothing_to_another() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (port, client) = client_with_port(world).await;
            let (_, other) = client_with_port(world).await;
            let (mine, theirs) = (client.yardstick(), other.yardstick());
            assert_ne!((mine.index.rkey, mine.log.rkey), (theirs.index.rkey, theirs.log.rkey));
            assert_eq!(statuses(&port, &mine, &mine).await, [true, true]);
            assert_eq!(statuses(&port, &mine, &theirs).await, [false]);
        });
    });
}

/// Needs the regions registered without rights: where windows are made, the region's own key is a number like any other.
#[test]
fn no_key_near_those_that_were_given_opens_index_or_log() {
    on_every_provider(|| {
        World::default().run(async |world| {
            for step in 1..6u32 {
                for log in [false, true] {
                    let (port, client) = client_with_port(world).await;
                    let mine = client.yardstick();
                    let mut guess = mine;
                    for remote in [&mut guess.index, &mut guess.log] {
                        remote.rkey = Rkey(mine.index.rkey.0.wrapping_sub(step));
                    }
                    if log {
                        guess.index = guess.log;
                    }
                    let allowed = guess.index.rkey == mine.index.rkey || guess.index.rkey == mine.log.rkey;
                    assert!(allowed || statuses(&port, &mine, &guess).await == [false], "key {:?}", guess.index.rkey);
                }
            }
        });
    });
}
