//! [`Port::change`](crate::Port::change) keeps the promises of a posted batch, even if the provider executes the batch
//! at once. A provider may do so from the second time on, so each story repeats its steps.

use std::future::Future as _;
use std::rc::Rc;

use super::end::End;
use super::operations::{send, write};
use super::scene::{ALL_ACCESS, BUFFER_SIZE};
use super::{Scene, Setup};
use crate::{Access, ChangeNow, RemoteAddress, Status};

pub(super) async fn changes_are_executed_in_order_and_return_the_words_found(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    server.set_word(8, u64::MAX);
    let mut before = 0;
    for round in 1..=16u64 {
        let (mut swapped, mut kept, mut added) = (0, 0, 0);
        let word = (round << 32).to_ne_bytes();
        let status = change(
            &client,
            &mut [
                ChangeNow::Write {
                    remote: server.remote(0),
                    from: &word,
                },
                ChangeNow::CompareAndSwap {
                    remote: server.remote(0),
                    expected: round << 32,
                    swap: round,
                    found: &mut swapped,
                },
                ChangeNow::CompareAndSwap {
                    remote: server.remote(0),
                    expected: round << 32,
                    swap: 7,
                    found: &mut kept,
                },
                ChangeNow::FetchAndAdd {
                    remote: server.remote(8),
                    add: 2,
                    found: &mut added,
                },
            ],
        )
        .await;
        assert_eq!(status, Status::Success);
        assert_eq!((swapped, kept), (round << 32, round), "round {round}");
        assert_eq!(
            (server.word(0), added),
            (round, u64::MAX.wrapping_add(before)),
            "round {round}"
        );
        before += 2;
        assert_eq!(
            server.word(8),
            u64::MAX.wrapping_add(before),
            "round {round}"
        );
    }
}

pub(super) async fn changing_writes_exactly_its_bytes(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    for (round, size) in (0..).zip([1usize, 7, 8, 63, 64, 65, 200, 4000]) {
        server.fill(0, &[0; 8192]);
        let bytes: Vec<u8> = (0..size).map(|index| (index + 1) as u8 | 1).collect();
        let status = change(
            &client,
            &mut [ChangeNow::Write {
                remote: server.remote(100 + round),
                from: &bytes,
            }],
        )
        .await;
        assert_eq!(status, Status::Success);
        let mut expected = vec![0; 8192];
        expected[100 + round as usize..][..size].copy_from_slice(&bytes);
        assert_eq!(server.bytes(0, 8192), expected, "{size} bytes");
    }
}

pub(super) async fn changing_comes_after_every_earlier_write_of_its_queue_pair(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        scene
            .node(0)
            .post(client.qp, [write(&client, 0, 16_000, &server, 0)])
            .expect("the batch is accepted");
        let mut found = 0;
        let add = ChangeNow::FetchAndAdd {
            remote: server.remote(15_992),
            add: 1,
            found: &mut found,
        };
        assert_eq!(change(&client, &mut [add]).await, Status::Success);
        assert_eq!(found, u64::from_ne_bytes([round; 8]), "round {round}");
        assert_eq!(server.word(15_992), found + 1);
    }
}

pub(super) async fn changing_comes_after_the_payload_of_an_earlier_send(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    add(&client, server.remote(64)).await;
    client.set_word(0, 7);
    scene
        .node(0)
        .post(client.qp, [send(&client, 0, 8)])
        .expect("the batch is accepted");
    let mut found = 0;
    let mut changes = [ChangeNow::FetchAndAdd {
        remote: server.remote(64),
        add: 1,
        found: &mut found,
    }];
    let mut changing = Box::pin(change(&client, &mut changes));
    // The SEND waits for its buffer, and the change after it waits, too.
    let early = std::future::poll_fn(|context| {
        std::task::Poll::Ready(changing.as_mut().poll(context).is_ready())
    })
    .await;
    scene.quiet().await;
    assert!(!early && server.word(64) == 1, "nothing overtakes a SEND");
    server.receive(1, 64, 64);
    assert_eq!(changing.await, Status::Success);
    assert_eq!((found, server.word(64)), (7, 8));
}

pub(super) async fn changes_of_two_queue_pairs_on_one_word_are_never_lost(scene: Rc<Scene>) {
    let (first, server) = changers(&scene, ALL_ACCESS).await;
    let cq = scene.node(2).send_cq();
    let second = scene
        .connect(Setup {
            client: 2,
            client_send_cq: Some(cq),
            ..Setup::default()
        })
        .await
        .client;
    let mut won = [0, 0];
    for round in 0..50u64 {
        for (index, client) in [&first, &second].into_iter().enumerate() {
            add(client, server.remote(0)).await;
            let mut found = 0;
            let swap = round << 8 | index as u64 | 1 << 63;
            let claim = ChangeNow::CompareAndSwap {
                remote: server.remote(8),
                expected: round,
                swap,
                found: &mut found,
            };
            assert_eq!(change(client, &mut [claim]).await, Status::Success);
            won[index] += u64::from(found == round);
        }
        server.set_word(8, round + 1);
    }
    assert_eq!(
        (server.word(0), won[0] + won[1]),
        (100, 50),
        "one of two swaps of the same word succeeds"
    );
}

pub(super) async fn changing_without_the_right_is_refused_and_changes_nothing(scene: Rc<Scene>) {
    let word = [1; 8];
    for (access, kind) in [
        (Access::REMOTE_READ.and(Access::REMOTE_ATOMIC), 0),
        (Access::REMOTE_READ.and(Access::REMOTE_WRITE), 1),
        (Access::REMOTE_READ.and(Access::REMOTE_WRITE), 2),
    ] {
        let (client, server) = changers(&scene, access).await;
        let mut found = 0;
        let remote = server.remote(0);
        let status = match kind {
            0 => {
                change(
                    &client,
                    &mut [ChangeNow::Write {
                        remote,
                        from: &word,
                    }],
                )
                .await
            }
            1 => {
                change(
                    &client,
                    &mut [ChangeNow::CompareAndSwap {
                        remote,
                        expected: 0,
                        swap: 1,
                        found: &mut found,
                    }],
                )
                .await
            }
            _ => {
                change(
                    &client,
                    &mut [ChangeNow::FetchAndAdd {
                        remote,
                        add: 1,
                        found: &mut found,
                    }],
                )
                .await
            }
        };
        assert_eq!(
            (status, server.word(0)),
            (Status::RemoteAccess, 0),
            "kind {kind}"
        );
    }
}

pub(super) async fn changing_beyond_the_region_is_refused_and_changes_nothing(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    add(&client, server.remote(0)).await;
    let status = change(
        &client,
        &mut [ChangeNow::Write {
            remote: server.remote(BUFFER_SIZE - 7),
            from: &[1; 8],
        }],
    )
    .await;
    assert_eq!(
        (status, server.word(BUFFER_SIZE - 8)),
        (Status::RemoteAccess, 0)
    );
}

pub(super) async fn a_misaligned_word_is_not_changed(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    add(&client, server.remote(0)).await;
    let mut found = 0;
    let misaligned = ChangeNow::FetchAndAdd {
        remote: server.remote(12),
        add: u64::MAX,
        found: &mut found,
    };
    assert_eq!(
        change(&client, &mut [misaligned]).await,
        Status::RemoteInvalidRequest
    );
    assert_eq!((server.word(0), server.word(8), server.word(16)), (1, 0, 0));
}

pub(super) async fn changing_through_a_revoked_key_is_refused_and_changes_nothing(
    scene: Rc<Scene>,
) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    for _ in 0..4 {
        add(&client, server.remote(0)).await;
    }
    let revoked = scene
        .finish(
            "an invalidation",
            scene.node(1).invalidate(server.buffer.rkey),
        )
        .await;
    revoked.expect("a live peer leaves the memory");
    let mut found = 0;
    let mut changes = [
        ChangeNow::Write {
            remote: server.remote(64),
            from: &[1; 64],
        },
        ChangeNow::FetchAndAdd {
            remote: server.remote(0),
            add: 1,
            found: &mut found,
        },
    ];
    assert_eq!(change(&client, &mut changes).await, Status::RemoteAccess);
    assert_eq!((server.word(0), server.word(64)), (4, 0));
}

pub(super) async fn no_change_of_a_batch_that_fails_is_done_twice(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    for _ in 0..4 {
        add(&client, server.remote(0)).await;
    }
    let mut found = 0;
    let mut changes = [
        ChangeNow::FetchAndAdd {
            remote: server.remote(0),
            add: 1,
            found: &mut found,
        },
        ChangeNow::Write {
            remote: server.remote(BUFFER_SIZE),
            from: &[1; 8],
        },
    ];
    assert_eq!(change(&client, &mut changes).await, Status::RemoteAccess);
    assert!(
        [4, 5].contains(&server.word(0)),
        "{} after 4, and 1 that may have been done",
        server.word(0)
    );
}

/// Needs the hold on the memory: if the memory is lent again while an abandoned change is still sent from it, the
/// change sends foreign bytes.
pub(super) async fn an_abandoned_change_holds_its_memory_until_it_has_ended(scene: Rc<Scene>) {
    let (client, server) = changers(&scene, ALL_ACCESS).await;
    let port = scene.node(0).clone();
    // Requests after a SEND without a buffer stay outstanding.
    port.post(client.qp, [send(&client, 0, 8)])
        .expect("the batch is accepted");
    let held = Rc::new(());
    {
        let mut changes = [ChangeNow::Write {
            remote: server.remote(128),
            from: &7u64.to_ne_bytes(),
        }];
        let scratch = client.local(32_768, 8);
        let mut changing =
            std::pin::pin!(port.change(client.qp, &mut changes, scratch, Some(held.clone())));
        let is_over = std::future::poll_fn(|context| {
            std::task::Poll::Ready(changing.as_mut().poll(context).is_ready())
        })
        .await;
        assert!(!is_over, "nothing overtakes a SEND");
    }
    scene.quiet().await;
    assert_eq!(Rc::strong_count(&held), 2, "the change is outstanding");
    server.receive(1, 64, 64);
    scene
        .wait_for("the end of the change", || {
            (Rc::strong_count(&held) == 1).then_some(())
        })
        .await;
    assert_eq!(server.word(128), 7);
}

/// A pair whose client completes into its port.
async fn changers(scene: &Rc<Scene>, access: Access) -> (End, End) {
    let cq = scene.node(0).send_cq();
    let pair = scene
        .connect(Setup {
            access,
            client_send_cq: Some(cq),
            ..Setup::default()
        })
        .await;
    (pair.client, pair.server)
}

/// Adds 1 to a word.
async fn add(client: &End, remote: RemoteAddress) {
    let mut found = 0;
    assert_eq!(
        change(
            client,
            &mut [ChangeNow::FetchAndAdd {
                remote,
                add: 1,
                found: &mut found
            }]
        )
        .await,
        Status::Success
    );
}

/// Executes the changes, and returns their status.
async fn change(client: &End, changes: &mut [ChangeNow<'_>]) -> Status {
    let port = client.scene().node(client.node);
    let scratch = client.local(32_768, 32_768);
    client
        .scene()
        .finish("changes", port.change(client.qp, changes, scratch, None))
        .await
        .expect("the changes are accepted")
}
