//! The futures of a [`Port`](crate::Port): each ends with the status of its own requests.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use super::end::End;
use super::failure::hopeless;
use super::operations::{read, send, write};
use super::{Scene, Setup};
use crate::{Fenceable, Status};

pub(super) async fn a_submission_ends_with_the_status_of_its_first_failure(scene: Rc<Scene>) {
    let (client, server) = submitters(&scene).await;
    let good = write(&client, 0, 8, &server, 0);
    let batch = [good, hopeless(&client), good, good];
    let status = scene
        .finish("a submission", scene.node(0).submit(client.qp, &batch))
        .await;
    assert_eq!(status.expect("the batch is accepted"), Status::RemoteAccess);
}

pub(super) async fn a_fenced_operation_of_a_submission_waits_for_an_earlier_read(scene: Rc<Scene>) {
    let (client, server) = submitters(&scene).await;
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        let batch = [
            read(&client, 32_768, 16_000, &server, 0).into(),
            write(&client, 0, 16_000, &server, 0).fenced(),
        ];
        let submitted = scene.node(0).submit::<Fenceable>(client.qp, &batch);
        let status = scene.finish("a submission", submitted).await;
        assert_eq!(status.expect("the batch is accepted"), Status::Success);
        assert_eq!(
            client.bytes(32_768, 16_000),
            vec![round - 1; 16_000],
            "the READ came before the WRITE of round {round}"
        );
    }
}

pub(super) async fn submissions_of_many_tasks_end_with_their_own_results(scene: Rc<Scene>) {
    let (client, server) = submitters(&scene).await;
    let (client, server) = (Rc::new(client), Rc::new(server));
    (0..32).for_each(|index| server.set_word(index * 8, 100 + index));
    let results = Rc::new(RefCell::new(Vec::new()));
    for index in 0..32u64 {
        let (client, server, results, port) = (
            client.clone(),
            server.clone(),
            results.clone(),
            scene.node(0).clone(),
        );
        scene.runtime().spawn(Box::pin(async move {
            let operation = read(&client, 4096 + index * 8, 8, &server, index * 8);
            let status = port
                .submit(client.qp, &[operation])
                .await
                .expect("room in the send queue");
            results
                .borrow_mut()
                .push((status, client.word(4096 + index * 8) - 100 == index));
        }));
    }
    scene
        .wait_for("32 submissions", || {
            (results.borrow().len() == 32).then_some(())
        })
        .await;
    assert!(
        results
            .borrow()
            .iter()
            .all(|result| *result == (Status::Success, true)),
        "{:?}",
        results.borrow()
    );
}

pub(super) async fn dropping_an_outstanding_submission_is_harmless(scene: Rc<Scene>) {
    let (client, server) = submitters(&scene).await;
    let port = scene.node(0);
    for round in 1..=40u64 {
        client.set_word(0, round);
        {
            // Without a receive buffer the submission cannot end before it is dropped.
            let batch = [send(&client, 0, 8)];
            let mut submission = pin!(port.submit(client.qp, &batch));
            let outcome =
                poll_fn(|context| Poll::Ready(submission.as_mut().poll(context).is_ready())).await;
            assert!(!outcome, "round {round}: a SEND without a buffer waits");
        }
        server.receive(round, 64, 64);
        let status = scene
            .finish(
                "a submission",
                port.submit(client.qp, &[write(&client, 0, 8, &server, 128)]),
            )
            .await;
        assert_eq!(status.expect("room in the send queue"), Status::Success);
        server.expect_received(&[(round, Status::Success)]).await;
        assert_eq!(
            (server.word(64), server.word(128)),
            (round, round),
            "both took effect"
        );
    }
}

pub(super) async fn a_submission_on_a_destroyed_queue_pair_ends(scene: Rc<Scene>) {
    let (client, _server) = submitters(&scene).await;
    let port = scene.node(0).clone();
    let ended = Rc::new(RefCell::new(None));
    let (result, qp, operation, waiting) =
        (ended.clone(), client.qp, send(&client, 0, 8), port.clone());
    scene.runtime().spawn(Box::pin(async move {
        *result.borrow_mut() = Some(
            waiting
                .submit(qp, &[operation])
                .await
                .expect("room in the send queue"),
        );
    }));
    scene.quiet().await;
    assert_eq!(*ended.borrow(), None, "a SEND without a buffer waits");
    port.destroy_queue_pair(client.qp).expect("it exists");
    let status = scene.wait_for("the submission", || *ended.borrow()).await;
    assert_eq!(status, Status::WorkRequestFlushed);
}

/// A pair whose client completes into its port.
async fn submitters(scene: &Rc<Scene>) -> (End, End) {
    let cq = scene.node(0).send_cq();
    let pair = scene
        .connect(Setup {
            client_send_cq: Some(cq),
            ..Setup::default()
        })
        .await;
    (pair.client, pair.server)
}
