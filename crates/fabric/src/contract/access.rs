//! A key opens the bytes that it covers, in the ways that it grants, and nothing else.

use std::rc::Rc;

use super::end::End;
use super::operations::{compare_and_swap, read, write};
use super::scene::BUFFER_SIZE;
use super::{Scene, Setup};
use crate::{Access, Operation, RemoteAddress, Rkey, Status};

pub(super) async fn a_write_without_the_right_is_refused_and_changes_nothing(scene: Rc<Scene>) {
    let pair = scene.connect(Setup { access: Access::REMOTE_READ.and(Access::REMOTE_ATOMIC), ..Setup::default() }).await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 64]);
    assert_eq!(client.execute(write(client, 0, 64, server, 0)).await, Status::RemoteAccess);
    assert_eq!(server.bytes(0, 64), [0; 64]);
}

pub(super) async fn a_read_without_the_right_is_refused(scene: Rc<Scene>) {
    let pair = scene.connect(Setup { access: Access::REMOTE_WRITE.and(Access::REMOTE_ATOMIC), ..Setup::default() }).await;
    let (client, server) = (&pair.client, &pair.server);
    server.fill(0, &[7; 64]);
    assert_eq!(client.execute(read(client, 0, 64, server, 0)).await, Status::RemoteAccess);
}

pub(super) async fn an_atomic_without_the_right_is_refused_and_changes_nothing(scene: Rc<Scene>) {
    let pair = scene.connect(Setup { access: Access::REMOTE_READ.and(Access::REMOTE_WRITE), ..Setup::default() }).await;
    let (client, server) = (&pair.client, &pair.server);
    let operation = compare_and_swap(client.local(0, 8), server.remote(0), 0, 9);
    assert_eq!(client.execute(operation).await, Status::RemoteAccess);
    assert_eq!(server.word(0), 0);
}

pub(super) async fn a_write_that_ends_beyond_the_region_is_refused_whole(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 64]);
    assert_eq!(client.execute(write(client, 0, 64, server, BUFFER_SIZE - 63)).await, Status::RemoteAccess);
    assert_eq!(server.bytes(BUFFER_SIZE - 64, 64), [0; 64], "also the bytes inside are untouched");
}

pub(super) async fn a_write_that_begins_before_the_region_is_refused_whole(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 64]);
    let before = RemoteAddress { address: server.buffer.address.wrapping_sub(1), rkey: server.buffer.rkey };
    refused(client, Operation::Write { local: client.local(0, 64), remote: before }).await;
    assert_eq!(server.bytes(0, 64), [0; 64], "also the bytes inside are untouched");
}

pub(super) async fn an_address_that_wraps_around_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let last = RemoteAddress { address: u64::MAX - 7, rkey: server.buffer.rkey };
    refused(client, Operation::Read { local: client.local(0, 4096), remote: last }).await;
}

pub(super) async fn an_unknown_key_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let unknown = RemoteAddress { rkey: Rkey(server.buffer.rkey.0 ^ 0x0800_0000), ..server.remote(0) };
    refused(client, Operation::Write { local: client.local(0, 64), remote: unknown }).await;
}

async fn refused(client: &End, operation: Operation) {
    assert_eq!(client.execute(operation).await, Status::RemoteAccess);
}
