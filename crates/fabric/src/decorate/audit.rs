//! A running hash of the traffic of a device. If two runs of the same seed end with different hashes, they were not the
//! same run.

use std::cell::Cell;

use stonecast_base::hash::xxh3_64;

use super::Observer;
use crate::{
    ChangeNow, CompletionQueue, ConnectionEvent, DisconnectCause, FlushPlacement, LocalSpan,
    Operation, QueuePair, ReadInto, ReceiveQueue, ReceiveRequest, RemoteAddress,
    SharedReceiveQueue, Status, WorkCompletion, WorkRequest,
};

/// Hashes every post, completion and connection event, in order. Only numbers are hashed: different payload shows in
/// later actions, and hashing payload would cost as much as moving it.
#[derive(Debug, Default)]
pub struct Audit {
    hash: Cell<u64>,
}

impl Audit {
    /// XXH3 over all traffic so far, each piece seeded with the hash of those before it.
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
            let place =
                u64::from(completion.placement.offset) << 32 | u64::from(completion.placement.size);
            let kinds = (completion.status as u64) << 32 | completion.opcode as u64;
            let immediate = u64::from(completion.immediate);
            self.note(
                6,
                &[
                    u64::from(cq.0),
                    completion.wr_id,
                    kinds,
                    u64::from(completion.qp.0),
                    immediate,
                    place,
                ],
            );
        }
    }

    fn consumed(&self, queue: SharedReceiveQueue, buffers: &[u64]) {
        self.note(17, &[u64::from(queue.0)]);
        self.note(18, buffers);
    }

    fn read_now(&self, qp: QueuePair, reads: &[ReadInto<'_>], status: Status) {
        self.note(7, &[u64::from(qp.0), reads.len() as u64, status as u64]);
        for read in reads {
            let [address, rkey] = remote_words(read.remote);
            self.note(8, &[address, rkey, read.into.len() as u64]);
        }
    }

    fn read_soon(&self, qp: QueuePair, reads: &[(LocalSpan, RemoteAddress)], succeeded: bool) {
        self.note(
            13,
            &[u64::from(qp.0), reads.len() as u64, u64::from(succeeded)],
        );
        for &(local, remote) in reads {
            self.note_transfer(24, local, remote);
        }
    }

    fn changed_now(&self, qp: QueuePair, changes: &[ChangeNow<'_>]) {
        for change in changes {
            let (remote, words) = match change {
                ChangeNow::Write { remote, from } => (*remote, [14, from.len() as u64, 0]),
                ChangeNow::CompareAndSwap {
                    remote,
                    expected,
                    found,
                    ..
                } => (*remote, [15, *expected, **found]),
                ChangeNow::FetchAndAdd { remote, add, found } => (*remote, [16, *add, **found]),
            };
            let ([address, rkey], [kind, first, second]) = (remote_words(remote), words);
            self.note(kind, &[u64::from(qp.0), address, rkey, first, second]);
        }
    }

    fn happened(&self, event: &ConnectionEvent) {
        match event {
            ConnectionEvent::Request {
                request,
                private_data,
                ..
            } => {
                self.note(9, &[request.0]);
                self.note_bytes(private_data);
            }
            ConnectionEvent::Established { qp, private_data } => {
                self.note(10, &[u64::from(qp.0)]);
                self.note_bytes(private_data);
            }
            ConnectionEvent::Rejected { qp, reason, .. } => {
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
            Operation::WriteWithImmediate {
                local,
                remote,
                immediate,
            } => {
                self.note_transfer(21, local, remote);
                self.note(22, &[u64::from(immediate)]);
            }
            Operation::Send { local } => self.note(23, &local_words(local)),
            Operation::Read { local, remote } => self.note_transfer(24, local, remote),
            Operation::CompareAndSwap {
                local,
                remote,
                expected,
                swap,
            } => {
                self.note_transfer(25, local, remote);
                self.note(26, &[expected, swap]);
            }
            Operation::FetchAndAdd { local, remote, add } => {
                self.note_transfer(27, local, remote);
                self.note(28, &[add]);
            }
            Operation::Flush {
                remote,
                size,
                placement,
            } => {
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
    [
        u64::from(local.region.index),
        local.offset,
        u64::from(local.size),
    ]
}

fn remote_words(remote: RemoteAddress) -> [u64; 2] {
    [remote.address, u64::from(remote.rkey.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryRegion, Opcode, Placement, Rkey};

    fn hash(pass: impl Fn(&Audit)) -> u64 {
        let audit = Audit::default();
        pass(&audit);
        audit.hash()
    }

    #[test]
    fn every_number_of_a_post_and_of_a_completion_changes_the_hash() {
        let region = MemoryRegion {
            index: 1,
            address: 2,
            size: 3,
            rkey: Rkey(4),
        };
        let local = LocalSpan {
            region,
            offset: 5,
            size: 6,
        };
        let remote = RemoteAddress {
            address: 7,
            rkey: Rkey(8),
        };
        let place = FlushPlacement::Global;
        let mut operations = vec![
            Operation::Send { local },
            Operation::Send {
                local: LocalSpan { offset: 9, ..local },
            },
        ];
        for local in [
            local,
            LocalSpan { offset: 9, ..local },
            LocalSpan { size: 9, ..local },
        ] {
            operations.push(Operation::Write { local, remote });
            operations.push(Operation::Read { local, remote });
        }
        for remote in [
            remote,
            RemoteAddress {
                address: 9,
                ..remote
            },
            RemoteAddress {
                rkey: Rkey(9),
                ..remote
            },
        ] {
            operations.push(Operation::WriteWithImmediate {
                local,
                remote,
                immediate: 1,
            });
            operations.push(Operation::WriteWithImmediate {
                local,
                remote,
                immediate: 2,
            });
            operations.push(Operation::CompareAndSwap {
                local,
                remote,
                expected: 1,
                swap: 2,
            });
            operations.push(Operation::CompareAndSwap {
                local,
                remote,
                expected: 2,
                swap: 1,
            });
            operations.push(Operation::FetchAndAdd {
                local,
                remote,
                add: 1,
            });
            operations.push(Operation::FetchAndAdd {
                local,
                remote,
                add: 2,
            });
            operations.push(Operation::Flush {
                remote,
                size: 1,
                placement: place,
            });
            operations.push(Operation::Flush {
                remote,
                size: 2,
                placement: place,
            });
            operations.push(Operation::Flush {
                remote,
                size: 1,
                placement: FlushPlacement::Persistent,
            });
            operations.push(Operation::AtomicWrite { remote, value: 1 });
            operations.push(Operation::AtomicWrite { remote, value: 2 });
        }
        let plain = |operation| WorkRequest {
            wr_id: 1,
            operation,
            signalled: true,
            fence: false,
        };
        let mut requests: Vec<WorkRequest> = operations.into_iter().map(plain).collect();
        let first = requests[0];
        requests.push(WorkRequest { wr_id: 2, ..first });
        requests.push(WorkRequest {
            signalled: false,
            ..first
        });
        requests.push(WorkRequest {
            fence: true,
            ..first
        });
        let mut hashes: Vec<u64> = requests
            .iter()
            .map(|request| hash(|audit| audit.sent(QueuePair(1), &[*request])))
            .collect();
        hashes.push(hash(|audit| audit.sent(QueuePair(2), &[first])));
        hashes.push(hash(|audit| audit.sent(QueuePair(1), &[first, first])));
        hashes.push(hash(|audit| {
            (
                audit.sent(QueuePair(1), &[first]),
                audit.sent(QueuePair(1), &[first]),
            )
                .0
        }));

        let done = WorkCompletion {
            wr_id: 1,
            status: Status::Success,
            opcode: Opcode::Receive,
            qp: QueuePair(1),
            immediate: 0,
            placement: Placement { offset: 0, size: 8 },
        };
        let completions = [
            done,
            WorkCompletion { wr_id: 2, ..done },
            WorkCompletion {
                status: Status::LocalLength,
                ..done
            },
            WorkCompletion {
                opcode: Opcode::ReceiveWriteWithImmediate,
                ..done
            },
            WorkCompletion {
                qp: QueuePair(2),
                ..done
            },
            WorkCompletion {
                immediate: 1,
                ..done
            },
            WorkCompletion {
                placement: Placement { offset: 8, size: 0 },
                ..done
            },
        ];
        hashes.extend(
            completions
                .iter()
                .map(|done| hash(|audit| audit.completed(CompletionQueue(1), &[*done]))),
        );
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn the_order_of_events_changes_the_hash() {
        let qp = QueuePair(1);
        let one = ConnectionEvent::Established {
            qp,
            private_data: vec![1],
        };
        let other = ConnectionEvent::Disconnected {
            qp,
            cause: DisconnectCause::Requested,
        };
        let in_order = hash(|audit| (audit.happened(&one), audit.happened(&other)).0);
        let swapped = hash(|audit| (audit.happened(&other), audit.happened(&one)).0);
        assert_ne!(in_order, swapped);
    }
}
