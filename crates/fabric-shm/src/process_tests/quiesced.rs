//! No message of a quiesced appender is accepted, wherever it was killed or stopped, or destroyed its queue pair.
//!
//! `STONECAST_QUIESCE_TRIES=13000 cargo test -p stonecast-fabric-shm --lib quiesced` is the long run.

use std::time::Duration;

use rand::RngExt as _;
use rustix::process::Signal;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::{
    ConnectionEvent, Device, DeviceError, MultiPacketOptions, Operation, QueuePair, ReceiveQueue,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};

use super::end::{BUFFER_SIZE, End};
use super::stops::quiesce;
use super::{Peer, stage};
use crate::ShmOptions;

/// Number of tries.
const TRIES: &str = "STONECAST_QUIESCE_TRIES";
const TRIES_IN_CI: u64 = 200;
/// The seed of fates and moments.
const SEED: u64 = 16;
/// Bytes of a message, and messages of one batch.
const MESSAGE: u32 = 64;
const BATCH: u64 = 8;
/// Bytes of a posted buffer.
const BUFFER: u32 = 1 << 14;

/// Appends batch after batch to any peer that accepts, and calls again when a connection has ended. If the answer has a
/// byte, the appender posts that number of batches, and destroys its queue pair before the last of them has completed.
pub(super) fn play(address: &str) {
    let end = End::new();
    end.device
        .memory(end.buffer)
        .write(0, &[7; (BATCH * MESSAGE as u64) as usize]);
    let run: Vec<_> = (0..BATCH)
        .map(|index| Operation::Send {
            local: end.local(index * u64::from(MESSAGE), MESSAGE),
        })
        .collect();
    loop {
        let (qp, answer) = end.call(address, b"");
        let mut batches_left = answer.first().copied();
        let mut is_open = true;
        while is_open {
            end.post_all(qp, &run);
            batches_left = batches_left.map(|left| left.saturating_sub(1));
            if batches_left == Some(0) {
                break;
            }
            let sent = end.completions(end.send_cq, run.len());
            is_open = sent.iter().all(|sent| sent.status == Status::Success);
        }
        if is_open {
            end.device
                .destroy_queue_pair(qp)
                .expect("the queue pair exists");
            // Completions of the last batch and the end of the connection may have come before.
            end.poll(end.send_cq);
            end.forget(
                |event| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp),
            );
            continue;
        }
        end.disconnected(qp);
        end.device
            .destroy_queue_pair(qp)
            .expect("the queue pair exists");
    }
}

/// The end of an appender's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    Stopped,
    /// The appender destroys its queue pair in the middle of this batch.
    Destroyed(u8),
    GoesOn,
}

impl Fate {
    fn draw(random: &mut Random) -> Self {
        match random.random_range(0..10) {
            0..3 => Self::Killed,
            3..8 => Self::Stopped,
            8 => Self::Destroyed(random.random_range(1..100)),
            _ => Self::GoesOn,
        }
    }
}

/// The results of all tries.
#[derive(Debug, Default)]
struct Tally {
    killed: u64,
    stopped: u64,
    destroyed: u64,
    going_on: u64,
    /// Tries in which the first call could not promise quiet, because the appender was inside.
    unquiesced: u64,
    /// Messages that were taken, or bytes that changed, after the promise.
    accepted: u64,
}

struct Receiver {
    end: End,
    queue: SharedReceiveQueue,
}

impl Receiver {
    fn new(address: &str) -> Self {
        let options = ShmOptions {
            quiesce_timeout_ns: 300_000,
            ..ShmOptions::default()
        };
        let end = End::with(options);
        end.device.listen(address).expect("the address is free");
        let queue = end
            .device
            .create_shared_receive_queue(SharedReceiveQueueOptions {
                capacity: 16,
                multi_packet: Some(MultiPacketOptions::telling(MESSAGE)),
                in_order: false,
            })
            .expect("a queue");
        let receiver = Self { end, queue };
        for index in 0..BUFFER_SIZE / u64::from(BUFFER) {
            receiver.post(index);
        }
        receiver
    }

    fn post(&self, index: u64) {
        let offset = index * u64::from(BUFFER);
        let queue = ReceiveQueue::Shared(self.queue);
        self.end.receive(queue, index, offset, BUFFER);
    }

    /// Takes messages and gives the buffers back. Returns the number of messages of `qp`.
    fn take(&self, qp: QueuePair) -> u64 {
        let mut taken = 0;
        loop {
            let arrived = self.end.poll(self.end.receive_cq);
            let mut consumed = Vec::new();
            self.end.device.poll_consumed(self.queue, &mut consumed);
            if arrived.is_empty() && consumed.is_empty() {
                return taken;
            }
            taken += arrived.iter().filter(|arrived| arrived.qp == qp).count() as u64;
            consumed.into_iter().for_each(|index| self.post(index));
        }
    }

    /// Lets an appender append for a moment and meet its fate, and ends it.
    fn try_once(&self, peer: &Peer, fate: Fate, random: &mut Random, tally: &mut Tally) {
        let answer = match fate {
            Fate::Destroyed(batch) => vec![batch],
            Fate::Killed | Fate::Stopped | Fate::GoesOn => Vec::new(),
        };
        let (qp, _) = self.end.answer(Some(self.queue), &answer);
        for _ in 0..random.random_range(0..4) {
            std::thread::sleep(Duration::from_micros(random.random_range(0..60)));
            self.take(qp);
        }
        match fate {
            Fate::Killed => peer.signal(Signal::KILL),
            Fate::Stopped => peer.signal(Signal::STOP),
            Fate::Destroyed(_) | Fate::GoesOn => {}
        }
        let mut quiesced = quiesce(&self.end, qp);
        if matches!(quiesced, Err(DeviceError::Unquiesced { .. })) {
            // A killed appender may look like a stopped one until its death is known.
            tally.unquiesced += 1;
            peer.signal(Signal::CONT);
            while matches!(quiesced, Err(DeviceError::Unquiesced { .. })) {
                quiesced = quiesce(&self.end, qp);
            }
        }
        quiesced.expect("the promise");
        self.take(qp);
        let memory = self.end.device.memory(self.end.buffer);
        memory.write(0, &[0; BUFFER_SIZE as usize]);
        peer.signal(Signal::CONT);
        std::thread::sleep(Duration::from_micros(300));
        tally.accepted += self.take(qp);
        let changed = (0..BUFFER_SIZE / 8).filter(|&word| self.end.word(word * 8) != 0);
        tally.accepted += changed.count() as u64;
        self.end
            .device
            .destroy_queue_pair(qp)
            .expect("the queue pair exists");
        self.forget_the_end(qp);
    }

    /// Drops the event of the end, if it has come.
    fn forget_the_end(&self, qp: QueuePair) {
        self.end.forget(
            |event| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp),
        );
    }
}

#[test]
fn no_message_of_an_appender_is_accepted_after_it_was_quiesced() {
    let tries = std::env::var(TRIES).map_or(TRIES_IN_CI, |tries| {
        tries.parse().expect("a number of tries")
    });
    println!("seed {SEED}");
    let random = &mut random_from_seed(SEED);
    let stage = stage();
    let receiver = Receiver::new(&stage.address);
    let mut tally = Tally::default();
    let mut peer = Peer::start("appends again and again", &stage.address, 0);
    for _ in 0..tries {
        let fate = Fate::draw(random);
        receiver.try_once(&peer, fate, random, &mut tally);
        match fate {
            Fate::Killed => {
                tally.killed += 1;
                assert!(peer.was_killed());
                peer = Peer::start("appends again and again", &stage.address, 0);
            }
            Fate::Stopped => tally.stopped += 1,
            Fate::Destroyed(_) => tally.destroyed += 1,
            Fate::GoesOn => tally.going_on += 1,
        }
    }
    println!("{tally:?}");
    assert_eq!(tally.accepted, 0, "seed {SEED}: {tally:?}");
}
