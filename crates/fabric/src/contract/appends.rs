//! Receiver-placed appends on any device: packed by the device, or in slots.

use std::cell::RefCell;
use std::rc::Rc;

use super::end::End;
use super::{Pair, Scene, Setup};
use crate::append::{AppendError, AppendOptions, AppendQueue, Appender};
use crate::{DisconnectCause, Status};

const OPTIONS: AppendOptions = AppendOptions {
    buffers: 4,
    buffer_size_max: BUFFER,
    grain: 64,
    message_size_max: 4096,
};
const BUFFER: u32 = 16_384;
/// More strides than the device may need.
const PLENTY: u64 = 1 << 20;

pub(super) async fn entries_of_one_sender_lie_in_order_whatever_their_sizes(scene: Rc<Scene>) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    stage.post(1);
    let sizes = [4096u32, 16, 65, 2000, 64, 17];
    for (sequence, size) in (1..).zip(sizes) {
        assert_eq!(stage.append(0, sequence, size).await, Status::Success);
    }
    let found = stage.entries_of(0, sizes.len()).await;
    let expected: Vec<_> = (1..).zip(sizes).collect();
    assert_eq!(found, expected);
}

pub(super) async fn entries_of_two_senders_lie_next_to_each_other_and_whole(scene: Rc<Scene>) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    stage.post(1);
    let size = |sequence: u64, sender: u64| (sequence * 331 + sender * 977) as u32 % 3000 + 16;
    for sequence in 1..=3 {
        for sender in [0, 1] {
            let status = stage.append(sender, sequence, size(sequence, sender as u64));
            assert_eq!(status.await, Status::Success);
        }
    }
    for sender in [0, 1] {
        let expected: Vec<_> = (1..=3)
            .map(|sequence| (sequence, size(sequence, sender as u64)))
            .collect();
        assert_eq!(stage.entries_of(sender, 3).await, expected);
    }
}

pub(super) async fn an_entry_longer_than_a_message_lies_in_consecutive_messages(scene: Rc<Scene>) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    assert_eq!(stage.append(0, 1, 9000).await, Status::Success);
    // The fragments are 4096, 4096 and 808 bytes, each whole grains, so here they lie one after the other.
    let entry = stage.entry(0, 1, 9000);
    stage
        .pair(0)
        .server
        .scene()
        .wait_for("the fragments", || {
            stage.collect();
            (stage.memory(0, 9000) == entry).then_some(())
        })
        .await;
}

pub(super) async fn an_append_without_credit_is_refused_and_sends_nothing(scene: Rc<Scene>) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    let appender = &stage.appenders[0];
    appender.add_credits(appender.cost(4096) - 1);
    let (client, left) = (&stage.pair(0).client, appender.credits());
    client.fill(0, &[7; 8192]);
    let refused = scene
        .finish("an append", appender.append(client.local(0, 8192)))
        .await;
    assert!(
        matches!(refused, Err(AppendError::NoCredit { left: found, .. }) if found == left),
        "{refused:?}"
    );
    assert_eq!(appender.credits(), left, "no credit was used");
    scene.quiet().await;
    stage.collect();
    assert_eq!(stage.memory(0, BUFFER), vec![0; BUFFER as usize]);
}

pub(super) async fn a_sender_that_pays_always_finds_room_and_credits_end_with_the_room(
    scene: Rc<Scene>,
) {
    let stage = Appends::new(&scene).await;
    (0..4).for_each(|wr_id| stage.post(wr_id));
    // The sizes that waste most: each leaves a rest too small for the next.
    let sizes = [2112, 4096, 64, 4096];
    let mut sequence = 0;
    for sender in [0, 1].into_iter().cycle() {
        let (size, appender) = (sizes[sequence as usize % 4], &stage.appenders[sender]);
        let missing = appender.cost(size).saturating_sub(appender.credits());
        let qp = stage.pair(sender).server.qp;
        let granted = stage.queue.borrow_mut().grant(qp, missing);
        appender.add_credits(granted);
        if granted < missing {
            break;
        }
        sequence += 1;
        assert_eq!(
            stage.append_paid(sender, sequence, size).await,
            Status::Success,
            "no sender that pays finds the receiver not ready"
        );
        stage.collect();
    }
    assert!(sequence >= 10, "four buffers take more than {sequence}");
    let none = stage
        .queue
        .borrow_mut()
        .grant(stage.pair(0).server.qp, PLENTY);
    assert!(
        none < 64,
        "the credits left are fewer than a longest message costs: {none}"
    );
}

pub(super) async fn a_full_buffer_of_appends_comes_back_and_can_be_posted_again(scene: Rc<Scene>) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    let mut sequence = 0;
    for round in 0..5 {
        stage.post(round + 1);
        // A buffer takes four entries.
        for _ in 0..4 {
            sequence += 1;
            assert_eq!(stage.append(0, sequence, 4096).await, Status::Success);
        }
        let mut consumed = Vec::new();
        let look = || {
            stage.collect();
            stage.queue.borrow_mut().take_consumed(&mut consumed);
            (!consumed.is_empty()).then_some(())
        };
        scene.wait_for("a buffer", look).await;
        assert_eq!(consumed, [round]);
        let taken = 4 * stage.appenders[0].cost(4096);
        stage.queue.borrow_mut().settle(round, taken);
    }
}

pub(super) async fn credits_that_a_quiet_sender_did_not_use_are_granted_to_others(
    scene: Rc<Scene>,
) {
    let stage = Appends::new(&scene).await;
    stage.post(0);
    let server = &stage.pair(0).server;
    let all = stage.queue.borrow_mut().grant(server.qp, PLENTY);
    stage.appenders[0].add_credits(all);
    let used = stage.appenders[0].cost(4096);
    assert_eq!(stage.append_paid(0, 1, 4096).await, Status::Success);
    let other = stage.pair(1).server.qp;
    assert_eq!(stage.queue.borrow_mut().grant(other, 1), 0);
    let quiet = scene.node(1).quiesce(server.qp);
    scene
        .finish("quiet", quiet)
        .await
        .expect("a live peer becomes quiet");
    assert_eq!(
        scene.disconnected(1, server.qp).await,
        DisconnectCause::Requested
    );
    stage.collect();
    stage.queue.borrow_mut().forget(server.qp, used);
    let granted = stage.queue.borrow_mut().grant(other, PLENTY);
    assert_eq!(granted, all - used);
}

/// Two senders and the memory that they append to.
struct Appends {
    queue: RefCell<AppendQueue>,
    pairs: [Pair; 2],
    appenders: [Appender; 2],
}

impl Appends {
    async fn new(scene: &Rc<Scene>) -> Self {
        let device = scene.node(1).device().clone();
        let queue = AppendQueue::new(device.clone(), OPTIONS).expect("a queue");
        let cq = device
            .create_completion_queue(256)
            .expect("a completion queue");
        let setup = Setup {
            server_queue: Some(queue.shared_queue()),
            server_receive_cq: Some(cq),
            // A sender that pays needs no retry.
            rnr_retry_count: 0,
            ..Setup::default()
        };
        let connect = async |client: usize| {
            let port = scene.node(client);
            let client_send_cq = Some(port.send_cq());
            scene
                .connect(Setup {
                    client,
                    client_send_cq,
                    ..setup
                })
                .await
        };
        let pairs = [connect(0).await, connect(2).await];
        let appender = |node: usize, pair: &Pair| {
            Appender::new(scene.node(node).clone(), pair.client.qp, queue.terms())
        };
        let appenders = [appender(0, &pairs[0]), appender(2, &pairs[1])];
        Self {
            queue: RefCell::new(queue),
            pairs,
            appenders,
        }
    }

    fn pair(&self, sender: usize) -> &Pair {
        &self.pairs[sender]
    }

    /// The end whose buffer holds the memory.
    fn end(&self) -> &End {
        &self.pairs[0].server
    }

    /// Posts a quarter of the memory.
    fn post(&self, wr_id: u64) {
        let local = self.end().local(wr_id % 4 * u64::from(BUFFER), BUFFER);
        let posted = self.queue.borrow_mut().post(wr_id, local);
        posted.expect("room for a buffer");
    }

    /// Entry `sequence` of `sender`: names itself, and has no zero byte after its head.
    fn entry(&self, sender: usize, sequence: u64, size: u32) -> Vec<u8> {
        let fill = (sequence as u8) << 1 | sender as u8 | 0x80;
        let mut bytes = vec![fill; size as usize];
        let name = sequence << 8 | sender as u64 | 0x80;
        bytes[..8].copy_from_slice(&name.to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::from(size).to_le_bytes());
        bytes
    }

    /// Appends with credits that are granted on demand.
    async fn append(&self, sender: usize, sequence: u64, size: u32) -> Status {
        let appender = &self.appenders[sender];
        let (qp, cost) = (self.pair(sender).server.qp, appender.cost(size));
        let granted = self.queue.borrow_mut().grant(qp, cost);
        assert_eq!(granted, cost, "the buffers have room");
        appender.add_credits(granted);
        self.append_paid(sender, sequence, size).await
    }

    async fn append_paid(&self, sender: usize, sequence: u64, size: u32) -> Status {
        let client = &self.pair(sender).client;
        client.fill(0, &self.entry(sender, sequence, size));
        let append = self.appenders[sender].append(client.local(0, size));
        let appended = client.scene().finish("an append", append).await;
        appended.expect("paid and accepted")
    }

    /// Hands the completions of arrivals to the queue.
    fn collect(&self) {
        while let Some(arrival) = self.end().poll_received() {
            assert_eq!(arrival.status, Status::Success);
            assert!(self.queue.borrow_mut().note_arrival(&arrival));
        }
    }

    fn memory(&self, offset: u64, size: u32) -> Vec<u8> {
        self.end().bytes(offset, size as usize)
    }

    /// Sequences and sizes of the entries of `sender` in the order of their places, once there are `count`. Each entry
    /// is whole.
    async fn entries_of(&self, sender: usize, count: usize) -> Vec<(u64, u32)> {
        let look = || {
            self.collect();
            let found = self.find(sender);
            (found.len() == count).then_some(found)
        };
        self.end().scene().wait_for("the entries", look).await
    }

    fn find(&self, sender: usize) -> Vec<(u64, u32)> {
        let (grain, all) = (
            self.queue.borrow().terms().grain,
            self.memory(0, 4 * BUFFER),
        );
        let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().expect("8 bytes"));
        let mut found = Vec::new();
        let mut at = 0;
        while at < all.len() {
            let (name, size) = (word(at), word(at + 8) as u32);
            let sequence = name >> 8;
            let whole = (16..=4096).contains(&size)
                && [0, 1]
                    .into_iter()
                    .any(|sender| all[at..].starts_with(&self.entry(sender, sequence, size)));
            if !whole {
                at += grain as usize;
                continue;
            }
            if name as u8 & 1 == sender as u8 {
                found.push((sequence, size));
            }
            at += size.next_multiple_of(grain) as usize;
        }
        found
    }
}
