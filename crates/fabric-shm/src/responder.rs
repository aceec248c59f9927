//! Takes the entries that a peer put into the ring: the only work of a responder's processor.

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Opcode, Placement, QueuePair, ReceiveRequest, Status, WorkCompletion};

use crate::clock;
use crate::connection::Verdict;
use crate::doorbell;
use crate::memory_region::local;
use crate::queue_pair::{QueuePairState, Surroundings};
use crate::ring::{Entry, EntryKind};
use crate::shared_receive_queue::Buffers;

/// The outcome of the entry at the front.
enum Taken {
    Yes,
    /// The entry has no buffer at this moment.
    Refused,
    /// The entry ends the connection; the peer learns the reason.
    Failed(Verdict),
    /// The receive buffer is not in its region.
    LostBuffer,
}

impl QueuePairState {
    /// Matches arrived messages with posted buffers. Returns whether there were any.
    pub(crate) fn progress_receives(&mut self, around: &mut Surroundings) -> bool {
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if connection.consumer.is_empty(&*connection.area) {
            return false;
        }
        let mut worked = false;
        let ended = loop {
            let connection = self
                .connection
                .as_mut()
                .expect("a connected queue pair has a connection");
            let entry = match connection.consumer.peek(&*connection.area) {
                Ok(Some(entry)) => entry,
                Ok(None) => break None,
                Err(_) => break Some(None),
            };
            match self.take(around, entry) {
                Taken::Yes => worked = true,
                Taken::Refused if self.is_patient() => break None,
                Taken::Refused => break Some(Some(Verdict::NoBuffer)),
                Taken::Failed(verdict) => break Some(Some(verdict)),
                Taken::LostBuffer => break Some(None),
            }
        };
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if let Some(Some(verdict)) = ended {
            connection.pronounce(verdict);
        }
        let acknowledged = connection.consumer.publish(&*connection.area);
        if acknowledged || ended.is_some() {
            connection.wake(doorbell::ACKNOWLEDGEMENTS);
        }
        if ended.is_some() {
            self.fail_here(around, Status::WorkRequestFlushed);
        }
        worked || ended.is_some()
    }

    /// Takes one entry into the next buffer.
    fn take(&mut self, around: &mut Surroundings, entry: Entry) -> Taken {
        let Some(receive) = self.next_buffer(around) else {
            return Taken::Refused;
        };
        self.refused_since = None;
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if entry.kind == EntryKind::Send {
            if entry.size > receive.local.size {
                self.complete_receive(&mut around.cqs, receive.wr_id, Status::LocalLength);
                return Taken::Failed(Verdict::Invalid);
            }
            let Some(memory) = local(&around.regions, receive.local) else {
                self.complete_receive(&mut around.cqs, receive.wr_id, Status::LocalProtection);
                return Taken::LostBuffer;
            };
            let size = entry.size as usize;
            if around.scratch.len() < size {
                around.scratch.resize(size, 0);
            }
            connection
                .consumer
                .payload(&*connection.area, &mut around.scratch[..size]);
            memory.write(receive.local.offset, &around.scratch[..size]);
            crate::step::step("responder: payload placed");
        }
        connection.consumer.advance();
        let opcode = match entry.kind {
            EntryKind::Send => Opcode::Receive,
            EntryKind::WriteWithImmediate => Opcode::ReceiveWriteWithImmediate,
        };
        let completion = WorkCompletion {
            wr_id: receive.wr_id,
            status: Status::Success,
            opcode,
            qp: QueuePair(self.handle),
            immediate: entry.immediate,
            placement: Placement {
                offset: 0,
                size: entry.size,
            },
        };
        around.cqs.push(self.options.receive_cq.0, completion);
        Taken::Yes
    }

    fn next_buffer(&mut self, around: &mut Surroundings) -> Option<ReceiveRequest> {
        let Some(srq) = self.options.shared_receive_queue else {
            return self.receives.pop_front();
        };
        match &mut around.srqs.get_mut(srq.0)?.buffers {
            Buffers::Single(buffers) => buffers.pop_front(),
            // Peers append to this queue directly; a message in the ring finds no buffer.
            Buffers::Multi(_) => None,
        }
    }

    /// Whether the peer's retries are not used up yet. Called at each refusal; the first refusal starts the count.
    fn is_patient(&mut self) -> bool {
        let connection = self
            .connection
            .as_ref()
            .expect("a connected queue pair has a connection");
        let patience = retry_time(
            connection.peer.rnr_retry_count,
            connection.peer.rnr_retry_delay_ns,
        );
        let now = clock::now();
        let since = *self.refused_since.get_or_insert(now);
        now.saturating_sub(since) < patience
    }
}

/// The duration of `count` retries, one every `delay_ns`.
pub(crate) fn retry_time(count: u32, delay_ns: Nanoseconds) -> Nanoseconds {
    delay_ns.saturating_mul(u64::from(count))
}
