//! CAS, FAA and ATOMIC_WRITE: whole, exact, aligned.

use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::operations::{compare_and_swap, fetch_and_add, read, write};
use super::{Scene, Setup};
use crate::{DeviceError, Operation, Status};

pub(super) async fn a_compare_and_swap_that_matches_swaps_and_returns_the_word_found(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, 7);
    let status = client
        .execute(compare_and_swap(
            client.local(0, 8),
            server.remote(64),
            7,
            u64::MAX - 1,
        ))
        .await;
    assert_eq!(status, Status::Success);
    assert_eq!((client.word(0), server.word(64)), (7, u64::MAX - 1));
}

pub(super) async fn a_compare_and_swap_that_does_not_match_changes_nothing_and_returns_the_word_found(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, 7 << 32);
    let status = client
        .execute(compare_and_swap(
            client.local(0, 8),
            server.remote(64),
            7,
            8,
        ))
        .await;
    assert_eq!(status, Status::Success, "a mismatch is not a failure");
    assert_eq!((client.word(0), server.word(64)), (7 << 32, 7 << 32));
}

pub(super) async fn a_fetch_and_add_returns_the_word_found_and_wraps(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, u64::MAX - 1);
    server.set_word(72, 5);
    let status = client
        .execute(fetch_and_add(client.local(0, 8), server.remote(64), 3))
        .await;
    assert_eq!(status, Status::Success);
    assert_eq!((client.word(0), server.word(64)), (u64::MAX - 1, 1));
    assert_eq!(server.word(72), 5, "the carry is dropped");
}

pub(super) async fn additions_from_two_queue_pairs_are_never_lost(scene: Rc<Scene>) {
    let first = scene.pair().await;
    let second = scene
        .connect(Setup {
            client: 2,
            ..Setup::default()
        })
        .await;
    const EACH: u64 = 50;
    let target = first.server.remote(0);
    for index in 0..EACH {
        first.client.post(&[signalled(
            index,
            fetch_and_add(first.client.local(0, 8), target, 1),
        )]);
        second.client.post(&[signalled(
            index,
            fetch_and_add(second.client.local(0, 8), target, 1 << 32),
        )]);
    }
    let expected: Vec<_> = (0..EACH).map(|wr_id| (wr_id, Status::Success)).collect();
    first.client.expect_sent(&expected).await;
    second.client.expect_sent(&expected).await;
    assert_eq!(first.server.word(0), EACH | EACH << 32);
}

pub(super) async fn a_misaligned_compare_and_swap_is_invalid_and_changes_nothing(scene: Rc<Scene>) {
    misaligned(scene, |client, server| {
        compare_and_swap(client.local(0, 8), server.remote(68), 0, u64::MAX)
    })
    .await;
}

pub(super) async fn a_misaligned_fetch_and_add_is_invalid_and_changes_nothing(scene: Rc<Scene>) {
    misaligned(scene, |client, server| {
        fetch_and_add(client.local(0, 8), server.remote(65), u64::MAX)
    })
    .await;
}

async fn misaligned(scene: Rc<Scene>, operation: fn(&End, &End) -> Operation) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    assert_eq!(
        client.execute(operation(client, server)).await,
        Status::RemoteInvalidRequest
    );
    assert_eq!(
        server.bytes(56, 32),
        [0; 32],
        "nothing near the address changed"
    );
}

pub(super) async fn an_atomic_sees_earlier_writes_of_its_queue_pair(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.set_word(8, 41);
    client.post(&[unsignalled(0, write(client, 8, 8, server, 64))]);
    assert_eq!(
        client
            .execute(fetch_and_add(client.local(0, 8), server.remote(64), 1))
            .await,
        Status::Success
    );
    assert_eq!((client.word(0), server.word(64)), (41, 42));
}

pub(super) async fn exactly_one_of_two_queue_pairs_that_swap_the_same_word_succeeds(
    scene: Rc<Scene>,
) {
    let first = scene.pair().await;
    let second = scene
        .connect(Setup {
            client: 2,
            ..Setup::default()
        })
        .await;
    let target = first.server.remote(0);
    for round in 0..50u64 {
        for (client, mine) in [
            (&first.client, 2 * round + 1),
            (&second.client, 2 * round + 2),
        ] {
            client.post(&[signalled(
                round,
                compare_and_swap(client.local(0, 8), target, 0, mine),
            )]);
        }
        first.client.expect_sent(&[(round, Status::Success)]).await;
        second.client.expect_sent(&[(round, Status::Success)]).await;
        let found = (first.client.word(0), second.client.word(0));
        let winner = first.server.word(0);
        let expected = if winner == 2 * round + 1 {
            (0, winner)
        } else {
            (winner, 0)
        };
        assert_eq!(
            found, expected,
            "round {round}: the loser finds what the winner stored"
        );
        first.server.set_word(0, 0);
    }
}

pub(super) async fn an_atomic_whose_result_is_not_eight_bytes_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for size in [0, 4, 16] {
        let operation = fetch_and_add(client.local(0, size), server.remote(0), 1);
        let refused = client
            .device()
            .post_send(client.qp, &[signalled(0, operation)]);
        assert!(
            matches!(refused, Err(DeviceError::Malformed { .. })),
            "{size} bytes: {refused:?}"
        );
    }
    assert_eq!(
        client.execute(read(client, 8, 8, server, 0)).await,
        Status::Success,
        "the queue pair is unharmed"
    );
    assert_eq!(server.word(0), 0);
}

pub(super) async fn an_atomic_write_takes_effect_whole_and_after_everything_before_it(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u64 {
        let value = round * 0x0101_0101_0101_0101;
        client.fill(0, &[round as u8; 16_000]);
        client.post(&[
            unsignalled(0, read(client, 32_768, 8, server, 64)),
            unsignalled(1, write(client, 0, 16_000, server, 64)),
            signalled(
                2,
                Operation::AtomicWrite {
                    remote: server.remote(0),
                    value,
                },
            ),
        ]);
        let seen = scene.wait_for("the word of an ATOMIC_WRITE", || {
            let word = server.word(0);
            assert!(
                word == value || word == value - 0x0101_0101_0101_0101,
                "the word is old or new: {word:#x}"
            );
            (word == value).then(|| server.bytes(64, 16_000))
        });
        assert!(
            seen.await.iter().all(|&byte| byte == round as u8),
            "round {round}: a reader that sees the word sees the WRITE before it"
        );
        client.expect_sent(&[(2, Status::Success)]).await;
    }
}

pub(super) async fn a_misaligned_atomic_write_is_invalid_and_changes_nothing(scene: Rc<Scene>) {
    misaligned(scene, |_, server| Operation::AtomicWrite {
        remote: server.remote(68),
        value: u64::MAX,
    })
    .await;
}
