//! READs whose end the thread awaits in the call.
//!
//! ```text
//!   ordinary     post -> note the posts -> poll -> success of the last READ -> done
//!   all else     as if the READs had been posted and the queue polled: their completions are kept for later polls
//! ```
//!
//! Between the end of one READ and the post of the next, the thread does only work that cannot be done earlier or
//! concurrently: it allocates no memory, searches no table of queue pairs, and notes the posts while the READs are in
//! progress.
//!
//! Invariant: this code concludes exactly what [`State::collect`] would conclude: the successful completion of the last
//! READ of a queue pair means that the earlier READs have succeeded, too.

use stonecast_base::Span;
use stonecast_fabric::{DeviceError, LocalSpan, Opcode, QueuePair, RemoteAddress, WorkRequest};

use super::State;
use super::completions::{WorkId, status_of};
use super::posting::place;
use super::queue_pair::{Phase, Posted};
use crate::verbs::posting::{Posting, Stamp};

impl State {
    /// See [`stonecast_fabric::Device::read_soon`].
    pub(super) fn read_soon(
        &mut self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
        wr_id: u64,
        looks: u32,
    ) -> Result<bool, DeviceError> {
        let Some(last) = reads.len().checked_sub(1) else {
            return Ok(true);
        };
        if !self.is_ordinary(qp, reads)? {
            return self
                .post_send(qp, &WorkRequest::reads(reads, wr_id))
                .map(|()| false);
        }
        let (state, regions) = (self.qps.get_mut(qp.0)?, &mut self.regions);
        let first = state.sends.next();
        let end = WorkId::Send(first + last as u64).encode();
        let mut posting = Posting::begin(&state.hardware);
        for (index, &(local, remote)) in reads.iter().enumerate() {
            let stamp = Stamp {
                wr_id: WorkId::Send(first + index as u64).encode(),
                signalled: index == last,
                fence: false,
            };
            posting.read(
                stamp,
                regions
                    .get_mut(local.region.index)?
                    .raw(local, &state.domain)?,
                place(remote, local.size.into()),
            );
        }
        posting.commit().map_err(|source| DeviceError::System {
            doing: "posting READs",
            source,
        })?;
        for index in 0..reads.len() {
            state.sends.give(Posted {
                wr_id,
                opcode: Opcode::Read,
                signalled: index == last,
                outside: false,
            });
        }
        let (cq, number) = (state.options.send_cq.0, state.hardware.number());
        let queue = self.cqs.get(cq)?.hardware.clone();
        for _ in 0..looks {
            // An error of the call itself means that the device is gone, which its event reports.
            let Ok(found) = queue.poll_one() else {
                return Ok(false);
            };
            let Some(raw) = found else { continue };
            if raw.wr_id == end
                && raw.qp_number == number
                && raw.status == rdma_mummy_sys::ibv_wc_status::IBV_WC_SUCCESS
            {
                self.qps.get_mut(qp.0)?.sends.finish(first + last as u64);
                return Ok(true);
            }
            self.take(cq, raw);
            if status_of(raw.status) != stonecast_fabric::Status::Success {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether READs can be given to the NIC without further checks: connected, with room, and with bytes inside their
    /// regions.
    fn is_ordinary(
        &self,
        qp: QueuePair,
        reads: &[(LocalSpan, RemoteAddress)],
    ) -> Result<bool, DeviceError> {
        let state = self.qps.get(qp.0)?;
        if !matches!(state.phase, Phase::Connected(_))
            || state.sends.len() + reads.len() > state.options.send_capacity as usize
        {
            return Ok(false);
        }
        for (local, _) in reads {
            let region = self.regions.get(local.region.index)?;
            if !region.holds(Span::new(local.offset, local.size.into()))
                || local.size > self.hardware.port.message_size_max
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
