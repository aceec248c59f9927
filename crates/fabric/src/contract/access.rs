//! A key opens the bytes that it covers, with the rights that it grants, and nothing else.

use std::rc::Rc;

use super::operations::{compare_and_swap, fetch_and_add, flush_global, read, write};
use super::scene::{ALL_ACCESS, BUFFER_SIZE};
use super::{Pair, Scene, Setup};
use crate::{Access, Operation, RemoteAddress, Rkey, Status};

pub(super) async fn a_write_without_the_right_is_refused_and_changes_nothing(scene: Rc<Scene>) {
    let pair = granting(&scene, Access::REMOTE_READ.and(Access::REMOTE_ATOMIC)).await;
    pair.client.fill(0, &[7; 64]);
    refused(&pair, write(&pair.client, 0, 64, &pair.server, 0)).await;
    assert_eq!(pair.server.bytes(0, 64), [0; 64]);
}

pub(super) async fn a_read_without_the_right_is_refused(scene: Rc<Scene>) {
    let pair = granting(&scene, Access::REMOTE_WRITE.and(Access::REMOTE_ATOMIC)).await;
    refused(&pair, read(&pair.client, 0, 64, &pair.server, 0)).await;
}

pub(super) async fn a_compare_and_swap_without_the_right_is_refused_and_changes_nothing(
    scene: Rc<Scene>,
) {
    let pair = granting(&scene, Access::REMOTE_READ.and(Access::REMOTE_WRITE)).await;
    refused(
        &pair,
        compare_and_swap(pair.client.local(0, 8), pair.server.remote(0), 0, 9),
    )
    .await;
    assert_eq!(pair.server.word(0), 0);
}

pub(super) async fn a_fetch_and_add_without_the_right_is_refused_and_changes_nothing(
    scene: Rc<Scene>,
) {
    let pair = granting(&scene, Access::REMOTE_READ.and(Access::REMOTE_WRITE)).await;
    refused(
        &pair,
        fetch_and_add(pair.client.local(0, 8), pair.server.remote(0), 9),
    )
    .await;
    assert_eq!(pair.server.word(0), 0);
}

pub(super) async fn an_atomic_write_without_the_right_to_write_is_refused_and_changes_nothing(
    scene: Rc<Scene>,
) {
    let pair = granting(&scene, Access::REMOTE_READ.and(Access::REMOTE_ATOMIC)).await;
    refused(
        &pair,
        Operation::AtomicWrite {
            remote: pair.server.remote(0),
            value: 9,
        },
    )
    .await;
    assert_eq!(pair.server.word(0), 0);
}

pub(super) async fn a_flush_without_the_right_is_refused(scene: Rc<Scene>) {
    let pair = granting(&scene, ALL_ACCESS).await;
    refused(&pair, flush_global(pair.server.remote(0), 64)).await;
}

pub(super) async fn a_region_for_local_use_is_closed_to_peers(scene: Rc<Scene>) {
    let pair = granting(&scene, Access::NONE).await;
    refused(&pair, read(&pair.client, 0, 8, &pair.server, 0)).await;
}

pub(super) async fn a_write_that_ends_beyond_the_region_is_refused_whole(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.client.fill(0, &[7; 64]);
    refused(
        &pair,
        write(&pair.client, 0, 64, &pair.server, BUFFER_SIZE - 63),
    )
    .await;
    assert_eq!(
        pair.server.bytes(BUFFER_SIZE - 64, 64),
        [0; 64],
        "the bytes inside are untouched, too"
    );
}

pub(super) async fn a_write_that_begins_before_the_region_is_refused_whole(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.client.fill(0, &[7; 64]);
    let before = RemoteAddress {
        address: pair.server.buffer.address.wrapping_sub(1),
        rkey: pair.server.buffer.rkey,
    };
    refused(
        &pair,
        Operation::Write {
            local: pair.client.local(0, 64),
            remote: before,
        },
    )
    .await;
    assert_eq!(
        pair.server.bytes(0, 64),
        [0; 64],
        "the bytes inside are untouched, too"
    );
}

pub(super) async fn a_read_that_ends_beyond_the_region_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    refused(
        &pair,
        read(&pair.client, 0, 64, &pair.server, BUFFER_SIZE - 63),
    )
    .await;
}

pub(super) async fn an_atomic_beyond_the_region_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    refused(
        &pair,
        fetch_and_add(pair.client.local(0, 8), pair.server.remote(BUFFER_SIZE), 1),
    )
    .await;
}

pub(super) async fn a_range_that_wraps_around_the_address_space_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let last = RemoteAddress {
        address: u64::MAX - 7,
        rkey: pair.server.buffer.rkey,
    };
    refused(
        &pair,
        Operation::Read {
            local: pair.client.local(0, 4096),
            remote: last,
        },
    )
    .await;
}

pub(super) async fn an_unknown_key_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let unknown = RemoteAddress {
        rkey: Rkey(pair.server.buffer.rkey.0 ^ 0x0800_0000),
        ..pair.server.remote(0)
    };
    refused(
        &pair,
        Operation::Write {
            local: pair.client.local(0, 64),
            remote: unknown,
        },
    )
    .await;
}

pub(super) async fn a_key_does_not_open_another_region(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let other = pair
        .server
        .device()
        .allocate(4096, ALL_ACCESS)
        .expect("memory");
    let crossed = RemoteAddress {
        address: other.address,
        rkey: pair.server.buffer.rkey,
    };
    refused(
        &pair,
        Operation::Write {
            local: pair.client.local(0, 64),
            remote: crossed,
        },
    )
    .await;
}

async fn granting(scene: &Rc<Scene>, access: Access) -> Pair {
    scene
        .connect(Setup {
            access,
            ..Setup::default()
        })
        .await
}

async fn refused(pair: &Pair, operation: Operation) {
    assert_eq!(
        pair.client.execute(operation).await,
        Status::RemoteAccess,
        "{operation:?}"
    );
}
