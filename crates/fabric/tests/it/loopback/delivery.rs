//! Receive queues: own, shared, multi-packet.

use stonecast_fabric::{LocalSpan, Opcode, Placement, ReceiveRequest, Status, WorkCompletion};
use stonecast_media::Region as _;

use super::engine::completion;
use super::{Fault, Net, Posted};

impl Net {
    /// Delivers a SEND: `Ok(false)` while there is no buffer and retries are left.
    pub(super) fn deliver(
        &mut self,
        from: (usize, u32),
        to: (usize, u32),
        local: LocalSpan,
        posted: &mut Posted,
    ) -> Result<bool, Status> {
        let own = self.local(from.0, local).ok_or(Status::LocalProtection)?;
        let mut bytes = vec![0; local.size as usize];
        own.read(local.offset, &mut bytes);
        if self.stride(to).is_some() {
            return self.append(from, to, &bytes, posted);
        }
        let Some(buffer) = self.take_buffer(to) else {
            return self.not_ready(from, posted);
        };
        let cut = self.fault == Fault::LongMessagesCut;
        if local.size > buffer.local.size && !cut {
            self.arrive(
                to,
                completion(buffer.wr_id, Status::LocalLength, Opcode::Receive, to.1),
            );
            return Err(Status::RemoteInvalidRequest);
        }
        bytes.truncate(buffer.local.size as usize);
        self.local(to.0, buffer.local)
            .expect("checked when it was posted")
            .write(buffer.local.offset, &bytes);
        let size = if self.fault == Fault::MessageLengthLost {
            buffer.local.size
        } else {
            local.size
        };
        self.arrive(to, received(buffer.wr_id, to.1, 0, size));
        Ok(true)
    }

    /// Consumes a receive for a WRITE_WITH_IMM whose bytes are placed.
    pub(super) fn deliver_immediate(
        &mut self,
        from: (usize, u32),
        to: (usize, u32),
        immediate: u32,
        size: u32,
        posted: &mut Posted,
    ) -> Result<bool, Status> {
        let buffer = match self.fault {
            Fault::ImmediateTakesNoReceive => Some(ReceiveRequest {
                wr_id: 0,
                local: LocalSpan {
                    region: dummy(),
                    offset: 0,
                    size: 0,
                },
            }),
            _ => self.take_buffer(to),
        };
        let Some(buffer) = buffer else {
            return self.not_ready(from, posted);
        };
        let immediate = if self.fault == Fault::ImmediateLost {
            0
        } else {
            immediate
        };
        let opcode = Opcode::ReceiveWriteWithImmediate;
        self.arrive(
            to,
            WorkCompletion {
                immediate,
                opcode,
                ..received(buffer.wr_id, to.1, 0, size)
            },
        );
        Ok(true)
    }

    pub(super) fn refuse_multi_packet(&self, to: usize, to_qp: u32) -> Result<(), Status> {
        if self.stride((to, to_qp)).is_some() {
            Err(Status::RemoteInvalidRequest)
        } else {
            Ok(())
        }
    }

    /// Appends a message to the first buffer of a multi-packet queue that has room.
    fn append(
        &mut self,
        from: (usize, u32),
        to: (usize, u32),
        bytes: &[u8],
        posted: &mut Posted,
    ) -> Result<bool, Status> {
        let stride = self.stride(to).expect("multi-packet");
        let needed = (bytes.len() as u32).div_ceil(stride).max(1);
        loop {
            let queue = self.shared_queue(to).expect("multi-packet");
            let Some(&buffer) = queue.buffers.front() else {
                return self.not_ready(from, posted);
            };
            let strides = buffer.local.size / stride;
            if needed > strides {
                return Err(Status::RemoteInvalidRequest);
            }
            let taken = queue.taken;
            if taken + needed > strides {
                self.consume(to, buffer.wr_id);
                continue;
            }
            queue.taken += needed;
            let offset = if self.fault == Fault::StrideIgnored {
                taken * stride + 4 * taken.min(1)
            } else {
                taken * stride
            };
            let memory = self
                .local(to.0, buffer.local)
                .expect("checked when it was posted");
            memory.write(buffer.local.offset + u64::from(offset), bytes);
            if self.tells(to) {
                self.arrive(to, received(buffer.wr_id, to.1, offset, bytes.len() as u32));
            }
            if taken + needed == strides {
                self.consume(to, buffer.wr_id);
            }
            return Ok(true);
        }
    }

    /// Gives the first buffer of a multi-packet queue back to its owner.
    fn consume(&mut self, to: (usize, u32), wr_id: u64) {
        let times = if self.fault == Fault::BufferConsumedTwice {
            2
        } else {
            1
        };
        let queue = self.shared_queue(to).expect("multi-packet");
        queue.buffers.pop_front();
        queue.taken = 0;
        let told = std::iter::repeat_n((wr_id, to.1), times);
        queue.consumed.extend(told);
    }

    fn not_ready(&mut self, (node, qp): (usize, u32), posted: &mut Posted) -> Result<bool, Status> {
        let options = self.nodes[node].qps[&qp].options;
        let patient = self.fault == Fault::ReceiverNotReadyForEver;
        if self.fault == Fault::NoReceiverNotReady
            || (posted.refusals == options.rnr_retry_count && !patient)
        {
            return Err(Status::RnrRetryExceeded);
        }
        posted.refusals += 1;
        posted.not_before = self.clock.now() + options.rnr_retry_delay_ns;
        Ok(false)
    }

    fn take_buffer(&mut self, to: (usize, u32)) -> Option<ReceiveRequest> {
        let backwards = self.fault == Fault::SharedBuffersBackwards;
        match self.shared_queue(to) {
            Some(queue) if backwards => queue.buffers.pop_back(),
            Some(queue) => queue.buffers.pop_front(),
            None => self.nodes[to.0].qps.get_mut(&to.1)?.receive.pop_front(),
        }
    }

    /// A request was refused after a device may have taken a buffer for it.
    pub(super) fn take_back_buffer(&mut self, to: (usize, u32)) {
        if self.fault == Fault::RefusedBufferPostedAgain
            && let Some(queue) = self.shared_queue(to)
            && let Some(buffer) = queue.buffers.pop_front()
        {
            queue.buffers.push_back(buffer);
        }
    }

    fn arrive(&mut self, (node, qp): (usize, u32), completion: WorkCompletion) {
        let cq = self.nodes[node].qps[&qp].options.receive_cq.0;
        self.complete(node, cq, completion);
    }

    fn shared_queue(&mut self, (node, qp): (usize, u32)) -> Option<&mut super::SharedQueue> {
        let node = &mut self.nodes[node];
        let queue = node.qps.get(&qp)?.options.shared_receive_queue?;
        node.shared.get_mut(queue.0 as usize)
    }

    fn stride(&self, (node, qp): (usize, u32)) -> Option<u32> {
        let node = &self.nodes[node];
        let queue = node.qps.get(&qp)?.options.shared_receive_queue?;
        let multi_packet = node.shared[queue.0 as usize].options.multi_packet?;
        Some(multi_packet.stride)
    }

    /// Whether messages to `to`, into a multi-packet queue, make completions.
    fn tells(&mut self, to: (usize, u32)) -> bool {
        let queue = self.shared_queue(to).expect("multi-packet");
        let wanted = queue
            .options
            .multi_packet
            .expect("multi-packet")
            .completions;
        wanted || self.fault == Fault::SilentQueueTells
    }
}

fn received(wr_id: u64, qp: u32, offset: u32, size: u32) -> WorkCompletion {
    WorkCompletion {
        placement: Placement { offset, size },
        ..completion(wr_id, Status::Success, Opcode::Receive, qp)
    }
}

fn dummy() -> stonecast_fabric::MemoryRegion {
    stonecast_fabric::MemoryRegion {
        index: 0,
        address: 0,
        size: 0,
        rkey: stonecast_fabric::Rkey(0),
    }
}
