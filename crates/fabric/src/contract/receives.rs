//! Receive buffers, messages and immediates.

use std::rc::Rc;

use super::end::{signalled, unsignalled};
use super::failure::hopeless;
use super::operations::{read, send, write, write_immediate};
use super::{Scene, Setup};
use crate::{
    Access, LocalSpan, Opcode, Operation, Placement, ReceiveQueue, ReceiveRequest, Status,
};

pub(super) async fn an_arrival_reports_opcode_place_and_length(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(77, 512, 64);
    client.fill(3, b"thirteen byte");
    client.post(&[unsignalled(0, send(client, 3, 13))]);
    let arrival = server.received().await;
    assert_eq!(
        (arrival.wr_id, arrival.status, arrival.opcode),
        (77, Status::Success, Opcode::Receive)
    );
    assert_eq!(
        arrival.placement,
        Placement {
            offset: 0,
            size: 13
        }
    );
    assert_eq!(server.bytes(512, 13), b"thirteen byte");
    assert_eq!(
        server.bytes(525, 51),
        [0; 51],
        "the rest of the buffer is untouched"
    );
}

pub(super) async fn completions_report_their_opcode(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(0, 0, 64);
    client.post(&[
        signalled(1, write(client, 0, 8, server, 0)),
        signalled(2, send(client, 0, 8)),
        signalled(3, read(client, 0, 8, server, 0)),
        signalled(
            4,
            super::operations::compare_and_swap(client.local(0, 8), server.remote(0), 0, 0),
        ),
        signalled(
            5,
            super::operations::fetch_and_add(client.local(0, 8), server.remote(0), 0),
        ),
    ]);
    let opcodes = [
        Opcode::Write,
        Opcode::Send,
        Opcode::Read,
        Opcode::CompareAndSwap,
        Opcode::FetchAndAdd,
    ];
    for (wr_id, opcode) in (1..).zip(opcodes) {
        let completion = client.sent().await;
        assert_eq!(
            (completion.wr_id, completion.status, completion.opcode),
            (wr_id, Status::Success, opcode)
        );
    }
}

pub(super) async fn a_message_may_fill_its_buffer(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 64]);
    server.receive(1, 0, 64);
    assert_eq!(client.execute(send(client, 0, 64)).await, Status::Success);
    server.expect_received(&[(1, Status::Success)]).await;
    assert_eq!(server.bytes(0, 64), [7; 64]);
}

pub(super) async fn an_empty_message_takes_a_buffer(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(1, 0, 0);
    server.receive(2, 0, 64);
    client.post(&[
        unsignalled(0, send(client, 0, 0)),
        unsignalled(0, send(client, 0, 0)),
    ]);
    for wr_id in [1, 2] {
        let arrival = server.received().await;
        assert_eq!(
            (arrival.wr_id, arrival.status, arrival.placement.size),
            (wr_id, Status::Success, 0)
        );
    }
}

pub(super) async fn the_longest_message_arrives_whole(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    // If a device sends gigabytes, a megabyte is enough.
    let size = client.device().capabilities().send_size_max.min(1 << 20);
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let from = client
        .device()
        .allocate(u64::from(size), Access::NONE)
        .expect("memory");
    let to = server
        .device()
        .allocate(u64::from(size), Access::NONE)
        .expect("memory");
    client.device().memory(from).write(0, &bytes);
    let buffer = ReceiveRequest {
        wr_id: 1,
        local: LocalSpan {
            region: to,
            offset: 0,
            size,
        },
    };
    server
        .device()
        .post_receive(ReceiveQueue::Own(server.qp), &[buffer])
        .expect("room in the receive queue");
    client.post(&[signalled(
        2,
        Operation::Send {
            local: LocalSpan {
                region: from,
                offset: 0,
                size,
            },
        },
    )]);
    server.expect_received(&[(1, Status::Success)]).await;
    client.expect_sent(&[(2, Status::Success)]).await;
    let mut found = vec![0; size as usize];
    server.device().memory(to).read(0, &mut found);
    assert!(found == bytes, "{size} bytes arrived unchanged");
}

pub(super) async fn buffers_are_used_in_the_order_in_which_they_were_posted(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    (0..12).for_each(|wr_id| server.receive(wr_id, 1024 + wr_id * 64, 64));
    for index in 0..12u32 {
        let immediate = write_immediate(client, 0, 8, server, 0, index);
        client.post(&[unsignalled(
            0,
            if index % 3 == 0 {
                immediate
            } else {
                send(client, 0, 8)
            },
        )]);
    }
    server
        .expect_received(&std::array::from_fn::<_, 12, _>(|wr_id| {
            (wr_id as u64, Status::Success)
        }))
        .await;
}

pub(super) async fn a_send_waits_until_a_buffer_is_posted(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.set_word(0, 7);
    client.post(&[signalled(1, send(client, 0, 8))]);
    scene.quiet().await;
    assert_eq!(
        client.poll_sent(),
        None,
        "without a buffer the SEND is not done"
    );
    server.receive(2, 64, 64);
    server.expect_received(&[(2, Status::Success)]).await;
    client.expect_sent(&[(1, Status::Success)]).await;
    assert_eq!(server.word(64), 7);
}

pub(super) async fn requests_behind_a_waiting_send_wait_with_it(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.set_word(0, 7);
    client.post(&[
        unsignalled(1, send(client, 0, 8)),
        signalled(2, write(client, 0, 8, server, 128)),
    ]);
    client.post(&[signalled(3, read(client, 8, 8, server, 64))]);
    scene.quiet().await;
    assert_eq!(server.word(128), 0, "the WRITE does not overtake the SEND");
    server.receive(4, 64, 64);
    client
        .expect_sent(&[(2, Status::Success), (3, Status::Success)])
        .await;
    server.expect_received(&[(4, Status::Success)]).await;
    assert_eq!(client.word(8), 7, "the READ sees the payload of the SEND");
}

pub(super) async fn a_send_gives_up_after_its_retries_and_not_before(scene: Rc<Scene>) {
    let setup = Setup {
        rnr_retry_count: 3,
        rnr_retry_delay_ns: 2_000_000,
        ..Setup::default()
    };
    let pair = scene.connect(setup).await;
    let client = &pair.client;
    let start = scene.runtime().now();
    client.post(&[
        signalled(1, send(client, 0, 8)),
        signalled(2, send(client, 0, 8)),
    ]);
    client
        .expect_sent(&[
            (1, Status::RnrRetryExceeded),
            (2, Status::WorkRequestFlushed),
        ])
        .await;
    let waited = scene.runtime().now() - start;
    assert!(
        waited >= 3 * 2_000_000,
        "three pauses of 2 ms do not fit into {waited} ns"
    );
}

pub(super) async fn a_send_without_retries_fails_when_there_is_no_buffer(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            rnr_retry_count: 0,
            ..Setup::default()
        })
        .await;
    assert_eq!(
        pair.client.execute(send(&pair.client, 0, 8)).await,
        Status::RnrRetryExceeded
    );
}

pub(super) async fn a_write_with_immediate_takes_a_buffer_and_carries_its_number_and_length(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 200]);
    // The buffer is smaller than the written range: an immediate uses the buffer up but does not touch it.
    server.receive(1, 4096, 16);
    client.post(&[signalled(
        2,
        write_immediate(client, 0, 200, server, 1000, 0xfedc_ba98),
    )]);
    let arrival = server.received().await;
    assert_eq!(
        (arrival.wr_id, arrival.status, arrival.opcode),
        (1, Status::Success, Opcode::ReceiveWriteWithImmediate)
    );
    assert_eq!(
        (arrival.immediate, arrival.placement.size),
        (0xfedc_ba98, 200)
    );
    assert_eq!(
        (server.bytes(1000, 200), server.bytes(4096, 16)),
        (vec![7; 200], vec![0; 16])
    );
    client.expect_sent(&[(2, Status::Success)]).await;
}

pub(super) async fn an_empty_write_with_immediate_is_only_a_number(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(1, 0, 0);
    client.post(&[signalled(2, write_immediate(client, 0, 0, server, 0, 5))]);
    let arrival = server.received().await;
    assert_eq!(
        (arrival.wr_id, arrival.immediate, arrival.placement.size),
        (1, 5, 0)
    );
    client.expect_sent(&[(2, Status::Success)]).await;
}

pub(super) async fn a_write_with_immediate_waits_until_a_buffer_is_posted(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&[signalled(1, write_immediate(client, 0, 8, server, 0, 5))]);
    scene.quiet().await;
    assert_eq!(
        client.poll_sent(),
        None,
        "without a buffer the WRITE_WITH_IMM is not done"
    );
    server.receive(2, 64, 0);
    server.expect_received(&[(2, Status::Success)]).await;
    client.expect_sent(&[(1, Status::Success)]).await;
}

pub(super) async fn a_write_with_immediate_that_is_refused_takes_no_buffer(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(1, 0, 64);
    let Operation::Write { local, remote } = hopeless(client) else {
        unreachable!("it is a WRITE")
    };
    assert_eq!(
        client
            .execute(Operation::WriteWithImmediate {
                local,
                remote,
                immediate: 1
            })
            .await,
        Status::RemoteAccess
    );
    server
        .expect_received(&[(1, Status::WorkRequestFlushed)])
        .await;
}
