//! CAS, FAA and ATOMIC_WRITE: whole, exact, aligned.

use std::rc::Rc;

use super::end::{End, signalled};
use super::operations::{compare_and_swap, fetch_and_add};
use super::{Scene, Setup};
use crate::{Operation, Status};

pub(super) async fn a_compare_and_swap_that_matches_swaps_and_returns_the_word_found(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, 7);
    let status = client.execute(compare_and_swap(client.local(0, 8), server.remote(64), 7, u64::MAX - 1)).await;
    assert_eq!(status, Status::Success);
    assert_eq!((client.word(0), server.word(64)), (7, u64::MAX - 1));
}

pub(super) async fn a_compare_and_swap_that_does_not_match_changes_nothing_and_returns_the_word_found(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, 7 << 32);
    let status = client.execute(compare_and_swap(client.local(0, 8), server.remote(64), 7, 8)).await;
    assert_eq!(status, Status::Success, "not finding the word is no failure");
    assert_eq!((client.word(0), server.word(64)), (7 << 32, 7 << 32));
}

pub(super) async fn a_fetch_and_add_returns_the_word_found_and_wraps(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.set_word(64, u64::MAX - 1);
    server.set_word(72, 5);
    let status = client.execute(fetch_and_add(client.local(0, 8), server.remote(64), 3)).await;
    assert_eq!(status, Status::Success);
    assert_eq!((client.word(0), server.word(64)), (u64::MAX - 1, 1));
    assert_eq!(server.word(72), 5, "the carry goes nowhere");
}

pub(super) async fn additions_from_two_queue_pairs_are_never_lost(scene: Rc<Scene>) {
    let first = scene.pair().await;
    let second = scene.connect(Setup { client: 2, ..Setup::default() }).await;
    const EACH: u64 = 50;
    let target = first.server.remote(0);
    for index in 0..EACH {
        first.client.post(&[signalled(index, fetch_and_add(first.client.local(0, 8), target, 1))]);
        second.client.post(&[signalled(index, fetch_and_add(second.client.local(0, 8), target, 1 << 32))]);
    }
    let expected: Vec<_> = (0..EACH).map(|wr_id| (wr_id, Status::Success)).collect();
    first.client.expect_sent(&expected).await;
    second.client.expect_sent(&expected).await;
    assert_eq!(first.server.word(0), EACH | EACH << 32);
}

pub(super) async fn a_misaligned_compare_and_swap_is_invalid_and_changes_nothing(scene: Rc<Scene>) {
    misaligned(scene, |client, server| compare_and_swap(client.local(0, 8), server.remote(68), 0, u64::MAX)).await;
}

pub(super) async fn a_misaligned_fetch_and_add_is_invalid_and_changes_nothing(scene: Rc<Scene>) {
    misaligned(scene, |client, server| fetch_and_add(client.local(0, 8), server.remote(65), u64::MAX)).await;
}

async fn misaligned(scene: Rc<Scene>, operation: fn(&End, &End) -> Operation) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    assert_eq!(client.execute(operation(client, server)).await, Status::RemoteInvalidRequest);
    assert_eq!(server.bytes(56, 32), [0; 32], "nothing near the address changed");
}
