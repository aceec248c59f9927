//! The order of effects and completions of one queue pair.

use std::rc::Rc;

use super::end::{fenced, signalled, unsignalled};
use super::operations::{read, send, write, write_immediate};
use super::{Scene, Setup};
use crate::Status;

pub(super) async fn a_write_is_visible_before_a_later_send_is_received(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=32u64 {
        server.receive(round, 4096, 64);
        client.set_word(0, round);
        client.post(&[
            unsignalled(0, write(client, 0, 4000, server, 0)),
            signalled(round, send(client, 0, 8)),
        ]);
        server.expect_received(&[(round, Status::Success)]).await;
        assert_eq!(
            server.word(0),
            round,
            "the SEND arrived, so the WRITE before it is visible"
        );
        client.expect_sent(&[(round, Status::Success)]).await;
    }
}

pub(super) async fn a_write_is_visible_before_a_later_write_with_immediate_arrives(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=32u64 {
        server.receive(round, 8192, 0);
        client.set_word(0, round);
        client.post(&[
            unsignalled(0, write(client, 0, 4000, server, 0)),
            signalled(
                round,
                write_immediate(client, 0, 8, server, 4096, round as u32),
            ),
        ]);
        server.expect_received(&[(round, Status::Success)]).await;
        assert_eq!(
            server.word(0),
            round,
            "the WRITE before the immediate is visible"
        );
        assert_eq!(
            server.word(4096),
            round,
            "the data of the WRITE_WITH_IMM itself are visible"
        );
        client.expect_sent(&[(round, Status::Success)]).await;
    }
}

pub(super) async fn sends_arrive_in_posting_order(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for index in 0..48u64 {
        client.set_word(index * 8, 1_000 + index);
        server.receive(index, index * 64, 64);
    }
    let batch: Vec<_> = (0..24)
        .map(|index| unsignalled(index, send(client, index * 8, 8)))
        .collect();
    client.post(&batch);
    for index in 24..48 {
        client.post(&[unsignalled(index, send(client, index * 8, 8))]);
    }
    for index in 0..48u64 {
        server.expect_received(&[(index, Status::Success)]).await;
        assert_eq!(
            server.word(index * 64),
            1_000 + index,
            "message {index} lies in buffer {index}"
        );
    }
}

pub(super) async fn completions_come_in_posting_order(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(0, 0, 64);
    client.post(&[
        signalled(10, write(client, 0, 30_000, server, 1024)),
        signalled(11, read(client, 32_768, 30_000, server, 1024)),
        signalled(12, send(client, 0, 8)),
        signalled(13, write(client, 0, 8, server, 1024)),
        signalled(14, read(client, 32_768, 8, server, 1024)),
        signalled(15, write(client, 0, 8, server, 1024)),
    ]);
    let expected: Vec<_> = (10..=15).map(|wr_id| (wr_id, Status::Success)).collect();
    client.expect_sent(&expected).await;
}

pub(super) async fn a_read_sees_every_earlier_write_of_its_queue_pair(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        client.post(&[
            unsignalled(0, write(client, 0, 8_000, server, 0)),
            unsignalled(1, write(client, 8_000, 8_000, server, 8_000)),
            signalled(2, read(client, 32_768, 16_000, server, 0)),
        ]);
        client.expect_sent(&[(2, Status::Success)]).await;
        assert_eq!(
            client.bytes(32_768, 16_000),
            vec![round; 16_000],
            "round {round}"
        );
    }
}

pub(super) async fn a_read_after_a_send_sees_the_placed_payload(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u64 {
        server.receive(round, 256, 64);
        client.set_word(0, round);
        client.post(&[
            unsignalled(0, send(client, 0, 8)),
            signalled(1, read(client, 8, 8, server, 256)),
        ]);
        client.expect_sent(&[(1, Status::Success)]).await;
        assert_eq!(client.word(8), round, "the READ took effect after the SEND");
        server.expect_received(&[(round, Status::Success)]).await;
    }
}

pub(super) async fn a_fenced_write_does_not_overtake_an_earlier_read(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            send_capacity: 64,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        client.post(&[
            unsignalled(0, read(client, 32_768, 16_000, server, 0)),
            fenced(1, write(client, 0, 16_000, server, 0)),
        ]);
        client.expect_sent(&[(1, Status::Success)]).await;
        assert_eq!(
            client.bytes(32_768, 16_000),
            vec![round - 1; 16_000],
            "the READ came before the WRITE of round {round}"
        );
    }
}

pub(super) async fn an_unfenced_write_leaves_each_word_of_an_earlier_read_old_or_new(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        client.post(&[
            signalled(0, read(client, 32_768, 16_000, server, 0)),
            signalled(1, write(client, 0, 16_000, server, 0)),
        ]);
        client
            .expect_sent(&[(0, Status::Success), (1, Status::Success)])
            .await;
        for (position, word) in client.bytes(32_768, 16_000).chunks(8).enumerate() {
            let whole = word.iter().all(|&byte| byte == word[0]);
            assert!(
                whole && (word[0] == round || word[0] == round - 1),
                "round {round}, word {position}: {word:?}"
            );
        }
        assert_eq!(
            server.bytes(0, 16_000),
            vec![round; 16_000],
            "the WRITE took effect whole"
        );
    }
}

pub(super) async fn aligned_words_of_a_long_write_are_never_seen_torn(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    const SIZE: usize = 30_000;
    for round in 1..=16u8 {
        client.fill(0, &[round; SIZE]);
        client.post(&[signalled(
            u64::from(round),
            write(client, 0, SIZE as u32, server, 8),
        )]);
        let done = scene.wait_for("the end of a long WRITE", || {
            for (position, word) in server.bytes(8, SIZE).chunks(8).enumerate() {
                let whole = word.iter().all(|&byte| byte == word[0]);
                assert!(
                    whole && (word[0] == round || word[0] == round - 1),
                    "round {round}, word {position}: {word:?}"
                );
            }
            client.poll_sent()
        });
        assert_eq!(done.await.status, Status::Success);
        // A READ posted after the WRITE ends only after the WRITE has taken effect, so that rounds do not mix.
        assert_eq!(
            client.execute(read(client, 40_000, 8, server, 8)).await,
            Status::Success
        );
    }
}

pub(super) async fn an_unsignalled_success_makes_no_completion(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(0, 0, 64);
    client.post(&[
        unsignalled(1, write(client, 0, 8, server, 1024)),
        unsignalled(2, send(client, 0, 8)),
        unsignalled(3, read(client, 8, 8, server, 1024)),
        signalled(4, write(client, 0, 8, server, 1024)),
    ]);
    client.expect_sent(&[(4, Status::Success)]).await;
    scene.quiet().await;
    assert_eq!(client.poll_sent(), None);
}
