//! FLUSH, where the device has it.

use std::rc::Rc;

use super::end::{signalled, unsignalled};
use super::operations::{flush_global, flush_persistent, read, write};
use super::scene::{ALL_ACCESS, BUFFER_SIZE};
use super::{Pair, Scene, Setup};
use crate::{Access, DeviceError, LocalSpan, Opcode, Operation, RemoteAddress, Status};

pub(super) async fn earlier_writes_are_visible_when_a_flush_completes(scene: Rc<Scene>) {
    let pair = flushing(&scene).await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        client.post(&[
            unsignalled(0, write(client, 0, 16_000, server, 0)),
            signalled(1, flush_global(server.remote(0), 16_000)),
        ]);
        let completion = client.sent().await;
        assert_eq!(
            (completion.wr_id, completion.status, completion.opcode),
            (1, Status::Success, Opcode::Flush)
        );
        assert!(
            server.bytes(0, 16_000).iter().all(|&byte| byte == round),
            "round {round}"
        );
    }
}

pub(super) async fn a_flush_beyond_the_region_is_refused(scene: Rc<Scene>) {
    let pair = flushing(&scene).await;
    let status = pair
        .client
        .execute(flush_global(pair.server.remote(0), BUFFER_SIZE + 1))
        .await;
    assert_eq!(status, Status::RemoteAccess);
}

pub(super) async fn a_flush_of_no_bytes_is_refused_and_harms_nothing(scene: Rc<Scene>) {
    let pair = flushing(&scene).await;
    let (client, server) = (&pair.client, &pair.server);
    let refused = client.device().post_send(
        client.qp,
        &[signalled(1, flush_global(server.remote(0), 0))],
    );
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
    assert_eq!(
        client.execute(read(client, 0, 8, server, 0)).await,
        Status::Success
    );
}

pub(super) async fn a_persistent_flush_of_persistent_memory_succeeds(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let memory = scene
        .world()
        .persistent_region(1, 8192)
        .expect("a device that flushes has memory for it");
    let access = ALL_ACCESS.and(Access::REMOTE_FLUSH);
    let region = server
        .device()
        .register_persistent(memory.clone(), access)
        .expect("persistent memory can be registered");
    let remote = RemoteAddress {
        address: region.address + 64,
        rkey: region.rkey,
    };
    client.fill(0, &[7; 100]);
    let local = LocalSpan {
        region: client.buffer,
        offset: 0,
        size: 100,
    };
    client.post(&[
        unsignalled(0, Operation::Write { local, remote }),
        signalled(1, flush_persistent(remote, 100)),
    ]);
    client.expect_sent(&[(1, Status::Success)]).await;
    let mut found = [0; 100];
    memory.read(64, &mut found);
    assert_eq!(found, [7; 100]);
}

pub(super) async fn a_persistent_flush_of_volatile_memory_is_refused_and_not_pretended(
    scene: Rc<Scene>,
) {
    let pair = flushing(&scene).await;
    let status = pair
        .client
        .execute(flush_persistent(pair.server.remote(0), 64))
        .await;
    assert_eq!(status, Status::RemoteAccess);
}

async fn flushing(scene: &Rc<Scene>) -> Pair {
    scene
        .connect(Setup {
            access: ALL_ACCESS.and(Access::REMOTE_FLUSH),
            ..Setup::default()
        })
        .await
}
