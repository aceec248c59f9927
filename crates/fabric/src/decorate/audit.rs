//! A running hash of what passes through a device: two runs of the same seed end with the same hash, or they were not the
//! same run.

use std::cell::Cell;

use stonecast_base::hash::xxh3_64;

use super::Observer;
use crate::{
    CompletionQueue, ConnectionEvent, DisconnectCause, FlushPlacement, LocalSpan, Operation, QueuePair, ReadInto, ReceiveQueue,
    ReceiveRequest, RemoteAddress, Status, WorkCompletion, WorkRequest,
};

/// Hashes every post, completion and connection event, in order. Numbers only, no payload: payload that differs shows in
/// what is done next, and hashing it would cost as much as moving it.
#[derive(Debug, Default)]
pub struct Audit {
    hash: Cell<u64>,
}

impl Audit {
    /// XXH3 over all that passed so far, each piece seeded with the hash of those before it.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    fn note(&self, kind: u64, words: &[u64]) {
        let mut hash = self.hash.get();
        for word in [kind, words.len() as u64].iter().chain(words) {
            hash = xxh3_64(hash, &word.to_le_bytes());
        }
        self.hash.set(hash);
    }

    fn note_bytes(&self, bytes: &[u8]) {
        self.note(bytes.len() as u64, &[xxh3_64(0, bytes)]);
    }
}

impl Observer for Audit {
    fn sent(&self, qp: QueuePair, requests: &[WorkRequest]) {
        self.note(1, &[u64::from(qp.0), requests.len() as u64]);
        for request in requests {
            let flags = u64::from(request.signalled) | u64::from(request.fence) << 1;
            self.note(2, &[request.wr_id, flags]);
            self.note_operation(&request.operation);
        }
    }

    fn posted_receive(&self, queue: ReceiveQueue, requests: &[ReceiveRequest]) {
        let (kind, number) = match queue {
            ReceiveQueue::Own(qp) => (3, qp.0),
            ReceiveQueue::Shared(srq) => (4, srq.0),
        };
        self.note(kind, &[u64::from(number), requests.len() as u64]);
        for request in requests {
            let [region, offset, size] = local_words(request.local);
            self.note(5, &[request.wr_id, region, offset, size]);
        }
    }

    fn completed(&self, cq: CompletionQueue, completions: &[WorkCompletion]) {
        for completion in completions {
            let place = u64::from(completion.placement.offset) << 32 | u64::from(completion.placement.size);
            let kinds = (completion.status as u64) << 32 | completion.opcode as u64;
            let immediate = u64::from(completion.immediate);
            self.note(6, &[u64::from(cq.0), completion.wr_id, kinds, u64::from(completion.qp.0), immediate, place]);
        }
    }

    fn read_now(&self, qp: QueuePair, reads: &[ReadInto<'_>], status: Status) {
        self.note(7, &[u64::from(qp.0), reads.len() as u64, status as u64]);
        for read in reads {
            let [address, rkey] = remote_words(read.remote);
            self.note(8, &[address, rkey, read.into.len() as u64]);
        }
    }

    fn happened(&self, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Request { request, private_data, .. } => {
                self.note(9, &[request.0]);
                self.note_bytes(private_data);
            }
            ConnectionEvent::Established { qp, private_data } => {
                self.note(10, &[u64::from(qp.0)]);
                self.note_bytes(private_data);
            }
            ConnectionEvent::Rejected { qp, reason } => {
                self.note(11, &[u64::from(qp.0)]);
                self.note_bytes(reason.as_bytes());
            }
            ConnectionEvent::Disconnected { qp, cause } => {
                let cause = match cause {
                    DisconnectCause::Requested => 0,
                    DisconnectCause::PeerDied => 1,
                    DisconnectCause::QueuePairError => 2,
                };
                self.note(12, &[u64::from(qp.0), cause]);
            }
        }
    }
}

impl Audit {
    fn note_operation(&self, operation: &Operation) {
        match *operation {
            Operation::Write { local, remote } => self.note_transfer(20, local, remote),
            Operation::WriteWithImmediate { local, remote, immediate } => {
                self.note_transfer(21, local, remote);
                self.note(22, &[u64::from(immediate)]);
            }
            Operation::Send { local } => self.note(23, &local_words(local)),
            Operation::Read { local, remote } => self.note_transfer(24, local, remote),
            Operation::CompareAndSwap { local, remote, expected, swap } => {
                self.note_transfer(25, local, remote);
                self.note(26, &[expected, swap]);
            }
            Operation::FetchAndAdd { local, remote, add } => {
                self.note_transfer(27, local, remote);
                self.note(28, &[add]);
            }
            Operation::Flush { remote, size, placement } => {
                let [address, rkey] = remote_words(remote);
                let persistent = u64::from(placement == FlushPlacement::Persistent);
                self.note(29, &[address, rkey, size, persistent]);
            }
            Operation::AtomicWrite { remote, value } => {
                let [address, rkey] = remote_words(remote);
                self.note(30, &[address, rkey, value]);
            }
        }
    }

    fn note_transfer(&self, kind: u64, local: LocalSpan, remote: RemoteAddress) {
        let ([region, offset, size], [address, rkey]) = (local_words(local), remote_words(remote));
        self.note(kind, &[region, offset, size, address, rkey]);
    }
}

fn local_words(local: LocalSpan) -> [u64; 3] {
    [u64::from(local.region.index), local.offset, u64::from(local.size)]
}

fn remote_words(remote: RemoteAddress) -> [u64; 2] {
    [remote.address, u64::from(remote.rkey.0)]
}
