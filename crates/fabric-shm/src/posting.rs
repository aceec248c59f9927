//! Makes queues and posts to them.

use std::task::Waker;

use stonecast_fabric::{
    DeviceError, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status, WorkRequest,
};
use stonecast_media::{MappedRegion, Sealing};

use crate::append::{AppendLayout, STRIDES_MAX};
use crate::device::{State, system};
use crate::memory_region::local;
use crate::primitive::Memory;
use crate::queue_pair::{Phase, QueuePairState, Surroundings};
use crate::shared_receive_queue::{
    Buffers, MultiPacket, SLOTS, SLOTS_MAX, SharedReceiveQueueState, User,
};
use crate::table::TABLE_CAPACITY;

impl State {
    pub(crate) fn shared_receive_queue(
        &self,
        srq: SharedReceiveQueue,
    ) -> Result<&SharedReceiveQueueState, DeviceError> {
        self.around.srqs.get(srq.0).ok_or(DeviceError::NoSuch {
            what: "shared receive queue",
            index: srq.0.into(),
        })
    }

    pub(crate) fn create_shared_receive_queue(
        &mut self,
        options: SharedReceiveQueueOptions,
        multi_packet: bool,
    ) -> Result<SharedReceiveQueue, DeviceError> {
        let buffers = match options.multi_packet {
            None => Buffers::Single(Default::default()),
            Some(_) if !multi_packet => {
                return Err(self.lacks("multi-packet shared receive queues"));
            }
            Some(multi_packet) => {
                let strides = multi_packet.strides.unwrap_or(SLOTS).max(SLOTS);
                if strides > SLOTS_MAX {
                    return Err(DeviceError::Limit {
                        what: "strides of a multi-packet queue",
                        limit: SLOTS_MAX,
                    });
                }
                let layout = AppendLayout {
                    capacity: options.capacity,
                    slots: strides.next_power_of_two(),
                    stride: multi_packet.stride,
                };
                let malformed = DeviceError::Malformed {
                    reason: "a shared receive queue without capacity or stride",
                };
                let size = layout.size().ok_or(malformed)?;
                let memory = MappedRegion::create_memory("stonecast-append", size, Sealing::None);
                Buffers::Multi(Box::new(MultiPacket::new(
                    memory.map_err(system("making a shared receive queue"))?,
                    layout,
                    multi_packet.completions,
                )))
            }
        };
        let state = SharedReceiveQueueState {
            capacity: options.capacity as usize,
            buffers,
            users: Vec::new(),
        };
        let limit = DeviceError::Limit {
            what: "shared receive queues",
            limit: TABLE_CAPACITY as u64,
        };
        self.around
            .srqs
            .insert(state)
            .map(SharedReceiveQueue)
            .ok_or(limit)
    }

    pub(crate) fn create_queue_pair(
        &mut self,
        options: QueuePairOptions,
    ) -> Result<QueuePair, DeviceError> {
        for cq in [options.send_cq, options.receive_cq] {
            let no_such = DeviceError::NoSuch {
                what: "completion queue",
                index: cq.0.into(),
            };
            self.around.cqs.table.get(cq.0).ok_or(no_such)?;
            if self.around.cqs.has_overrun(cq.0) {
                return Err(DeviceError::Malformed {
                    reason: "the completion queue has overrun",
                });
            }
        }
        if let Some(srq) = options.shared_receive_queue {
            self.shared_receive_queue(srq)?;
        }
        let limit = DeviceError::Limit {
            what: "queue pairs",
            limit: TABLE_CAPACITY as u64,
        };
        let handle = self.qps.insert(QueuePairState::new(options)).ok_or(limit)?;
        self.qps.get_mut(handle).expect("just inserted").handle = handle;
        if let Some(srq) = options
            .shared_receive_queue
            .and_then(|srq| self.around.srqs.get_mut(srq.0))
        {
            srq.users.push(User {
                queue_pair: handle,
                receive_cq: options.receive_cq.0,
            });
        }
        Ok(QueuePair(handle))
    }

    pub(crate) fn post_send(
        &mut self,
        qp: QueuePair,
        requests: &[WorkRequest],
    ) -> Result<(), DeviceError> {
        let state = self.queue_pair_mut(qp)?;
        match state.phase {
            Phase::Error => {
                self.with_queue_pair(qp.0, |qp, around| {
                    for request in requests {
                        qp.complete_send(&mut around.cqs, request, Status::WorkRequestFlushed);
                    }
                });
                return Ok(());
            }
            Phase::Idle | Phase::Connecting { .. } => {
                return Err(DeviceError::Malformed {
                    reason: "a send on a queue pair that is not connected",
                });
            }
            Phase::Connected => {}
        }
        if state.sends.len() + requests.len() > state.options.send_capacity as usize {
            return Err(DeviceError::QueueFull {
                capacity: state.options.send_capacity,
            });
        }
        state.sends.push(requests);
        self.with_queue_pair(qp.0, |qp, around| {
            qp.progress_sends(around);
        });
        Ok(())
    }

    pub(crate) fn post_receive(
        &mut self,
        queue: ReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        for request in requests {
            if local(&self.around.regions, request.local).is_none() {
                return Err(DeviceError::Malformed {
                    reason: "the receive buffer is not in its region",
                });
            }
        }
        match queue {
            ReceiveQueue::Own(qp) => self.post_own(qp, requests),
            ReceiveQueue::Shared(srq) => self.post_shared(srq, requests),
        }
    }

    fn post_own(&mut self, qp: QueuePair, requests: &[ReceiveRequest]) -> Result<(), DeviceError> {
        let state = self.queue_pair_mut(qp)?;
        if state.options.shared_receive_queue.is_some() {
            return Err(DeviceError::Malformed {
                reason: "the queue pair takes from a shared receive queue",
            });
        }
        if matches!(state.phase, Phase::Error) {
            self.with_queue_pair(qp.0, |qp, around| {
                for request in requests {
                    qp.complete_receive(&mut around.cqs, request.wr_id, Status::WorkRequestFlushed);
                }
            });
            return Ok(());
        }
        if state.receives.len() + requests.len() > state.options.receive_capacity as usize {
            return Err(DeviceError::QueueFull {
                capacity: state.options.receive_capacity,
            });
        }
        state.receives.extend(requests);
        // A message may wait for a buffer, and the next sleep must not miss that.
        state.refused_since = None;
        Ok(())
    }

    fn post_shared(
        &mut self,
        srq: SharedReceiveQueue,
        requests: &[ReceiveRequest],
    ) -> Result<(), DeviceError> {
        self.shared_receive_queue(srq)?;
        let state = self.around.srqs.get_mut(srq.0).expect("just looked up");
        let full = DeviceError::QueueFull {
            capacity: state.capacity as u32,
        };
        match &mut state.buffers {
            Buffers::Single(buffers) => {
                if buffers.len() + requests.len() > state.capacity {
                    return Err(full);
                }
                buffers.extend(requests);
                for user in &state.users {
                    if let Some(qp) = self.qps.get_mut(user.queue_pair) {
                        qp.refused_since = None;
                    }
                }
            }
            Buffers::Multi(multi) => {
                let stride = multi.queue.layout().stride;
                let strides = |request: &ReceiveRequest| u64::from(request.local.size / stride);
                if requests
                    .iter()
                    .map(strides)
                    .any(|strides| strides == 0 || strides > STRIDES_MAX)
                {
                    return Err(DeviceError::Malformed {
                        reason: "the buffer is shorter than a stride or too long",
                    });
                }
                if !multi.queue.has_room(requests.iter().map(strides)) {
                    return Err(full);
                }
                self.control.with_regions(|regions| {
                    for request in requests {
                        if let Some(region) = regions.get_mut(&request.local.region.index) {
                            region.takes_appends = true;
                        }
                    }
                });
                for request in requests {
                    let span = request.local;
                    multi.queue.post(
                        &multi.memory,
                        request.wr_id,
                        span.region.index,
                        span.offset,
                        strides(request),
                    );
                }
            }
        }
        Ok(())
    }

    /// Takes the messages that were appended to the multi-packet queues. Adds the wakers of tasks that wait for
    /// messages to `woken`.
    pub(crate) fn progress_appends(&mut self, woken: &mut Vec<Waker>) {
        let mut broken = Vec::new();
        let Self {
            qps,
            around,
            leaving,
            ..
        } = self;
        let Surroundings { srqs, cqs, .. } = around;
        for (handle, srq) in srqs.iter_mut() {
            let SharedReceiveQueueState {
                buffers: Buffers::Multi(multi),
                users,
                ..
            } = srq
            else {
                continue;
            };
            if multi.queue.is_empty(&multi.memory) {
                continue;
            }
            let is_claimed = |named: u64| {
                let by_user = users
                    .iter()
                    .filter_map(|user| qps.get(user.queue_pair)?.connection.as_ref());
                let mut claims = by_user.filter(|connection| connection.may_land());
                claims.any(|connection| {
                    Memory::load(&*connection.area, connection.inward.intent()) == named
                }) || leaving.claims(handle, named)
            };
            if multi
                .take_arrivals(users, is_claimed, (cqs, woken))
                .is_err()
            {
                broken.extend(users.iter().map(|user| user.queue_pair));
            }
        }
        for handle in broken {
            self.with_queue_pair(handle, |qp, around| {
                qp.fail_here(around, Status::WorkRequestFlushed)
            });
        }
    }
}
