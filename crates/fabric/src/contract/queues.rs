//! Queues are bounded, and their bounds are exact.

use std::rc::Rc;

use super::end::{signalled, unsignalled};
use super::operations::{send, write};
use super::{Scene, Setup};
use crate::{DeviceError, DisconnectCause, ReceiveQueue, ReceiveRequest, Status};

pub(super) async fn a_batch_that_does_not_fit_the_send_queue_is_refused_whole(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            send_capacity: 8,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    // Without a receive buffer no request completes.
    client.post(&[0, 1, 2, 3, 4, 5].map(|wr_id| signalled(wr_id, send(client, 0, 8))));
    let refused = client.device().post_send(
        client.qp,
        &[7, 8, 9].map(|wr_id| signalled(wr_id, send(client, 0, 8))),
    );
    assert!(
        matches!(refused, Err(DeviceError::QueueFull { .. })),
        "{refused:?}"
    );
    client.post(&[10, 11].map(|wr_id| signalled(wr_id, send(client, 0, 8))));
    (0..16).for_each(|wr_id| server.receive(wr_id, 64, 64));
    client
        .expect_sent(&[0, 1, 2, 3, 4, 5, 10, 11].map(|wr_id| (wr_id, Status::Success)))
        .await;
    server
        .expect_received(&[0, 1, 2, 3, 4, 5, 6, 7].map(|wr_id| (wr_id, Status::Success)))
        .await;
    scene.quiet().await;
    assert_eq!(
        server.poll_received(),
        None,
        "nothing of the refused batch was sent"
    );
}

pub(super) async fn a_batch_may_fill_the_send_queue(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            send_capacity: 8,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    for _ in 0..4 {
        client.post(
            &[0, 1, 2, 3, 4, 5, 6, 7].map(|wr_id| signalled(wr_id, write(client, 0, 8, server, 0))),
        );
        client
            .expect_sent(&[0, 1, 2, 3, 4, 5, 6, 7].map(|wr_id| (wr_id, Status::Success)))
            .await;
    }
}

pub(super) async fn unsignalled_requests_leave_the_send_queue_by_themselves(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            send_capacity: 8,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 0..20 {
        let batch = [0; 8].map(|wr_id| unsignalled(wr_id, write(client, 0, 8, server, 0)));
        let accepted = scene.wait_for("room in the send queue", || {
            let nothing = client.poll_sent();
            assert_eq!(
                nothing, None,
                "unsignalled requests that succeed make no completion"
            );
            match client.device().post_send(client.qp, &batch) {
                Ok(()) => Some(()),
                Err(DeviceError::QueueFull { .. }) => None,
                Err(other) => panic!("round {round}: {other}"),
            }
        });
        accepted.await;
    }
}

pub(super) async fn receive_buffers_that_do_not_fit_are_refused_whole(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            receive_capacity: 4,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    (0..3).for_each(|wr_id| server.receive(wr_id, 64, 64));
    let two = [7, 8].map(|wr_id| ReceiveRequest {
        wr_id,
        local: server.local(64, 64),
    });
    let refused = server
        .device()
        .post_receive(ReceiveQueue::Own(server.qp), &two);
    assert!(
        matches!(refused, Err(DeviceError::QueueFull { .. })),
        "{refused:?}"
    );
    server.receive(3, 64, 64);
    client.post(&[0; 4].map(|wr_id| unsignalled(wr_id, send(client, 0, 8))));
    server
        .expect_received(&[0, 1, 2, 3].map(|wr_id| (wr_id, Status::Success)))
        .await;
}

pub(super) async fn a_used_receive_buffer_makes_room_for_another(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            receive_capacity: 2,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(0, 64, 64);
    for wr_id in 0..20 {
        server.receive(wr_id + 1, 64, 64);
        assert_eq!(client.execute(send(client, 0, 8)).await, Status::Success);
        server.expect_received(&[(wr_id, Status::Success)]).await;
    }
}

pub(super) async fn poll_takes_no_more_than_asked_and_keeps_the_rest(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&std::array::from_fn::<_, 10, _>(|wr_id| {
        signalled(wr_id as u64, write(client, 0, 8, server, 0))
    }));
    scene.quiet().await;
    let mut taken = Vec::new();
    scene
        .wait_for("ten completions", || {
            let before = taken.len();
            let count = client
                .device()
                .poll(client.options().send_cq, 3, &mut taken);
            assert_eq!(
                taken.len() - before,
                count,
                "poll appends, and returns the number"
            );
            assert!(count <= 3, "poll keeps to its limit");
            (taken.len() == 10).then_some(())
        })
        .await;
    assert!(
        taken.iter().map(|completion| completion.wr_id).eq(0..10),
        "in order, none lost, none twice"
    );
}

pub(super) async fn a_completion_queue_that_overruns_breaks_every_queue_pair_that_uses_it(
    scene: Rc<Scene>,
) {
    let cq = scene
        .node(0)
        .device()
        .create_completion_queue(4)
        .expect("a completion queue");
    let setup = Setup {
        send_capacity: 512,
        client_send_cq: Some(cq),
        ..Setup::default()
    };
    let (first, second) = (scene.connect(setup).await, scene.connect(setup).await);
    let bystander = scene.pair().await;
    // Far more requests than any rounding up of the capacity.
    let requests =
        [0; 512].map(|wr_id| signalled(wr_id, write(&first.client, 0, 8, &first.server, 0)));
    first.client.post(&requests);
    for pair in [&first, &second] {
        assert_eq!(
            scene.disconnected(0, pair.client.qp).await,
            DisconnectCause::QueuePairError
        );
    }
    let operation = write(&bystander.client, 0, 8, &bystander.server, 0);
    assert_eq!(
        bystander.client.execute(operation).await,
        Status::Success,
        "a queue pair that does not use it is unharmed"
    );
}

pub(super) async fn a_destroyed_queue_pair_delivers_no_completion(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.receive(0, 0, 64);
    client.post(&[0; 8].map(|wr_id| signalled(wr_id, write(client, 0, 8, server, 0))));
    scene.pump();
    client
        .device()
        .destroy_queue_pair(client.qp)
        .expect("it exists");
    scene.quiet().await;
    assert_eq!((client.poll_sent(), client.poll_received()), (None, None));
}
