//! Accepting a client: a place for it, memory, queue pair, and what it must know of the pool.

use stonecast_fabric::{ConnectionRequest, DeviceError, PeerIdentity, ReceiveQueue};
use stonecast_session::{Making, Queues, accept};
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::little_endian::{U32, U64};

use super::answers::Answers;
use super::{Session, Windows};
use crate::metrics::ClientPath;
use crate::server::receives::OWN_RECEIVES;
use crate::server::{ClientPolicy, Server, ServerOptions};
use crate::wire::limits::{IN_FLIGHT_MAX, STAGING_SIZE};
use crate::wire::{Hello, Welcome};

/// RNR retries of answers: the client posts a receive for each operation in flight, so there is always one.
const RNR_RETRY_COUNT: u32 = 100;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

impl Server {
    /// Accepts the client that asks with `hello`, or tells it why not. An error is one of this side.
    pub(in crate::server) fn admit(
        &self,
        request: ConnectionRequest,
        peer: &PeerIdentity,
        hello: &[u8],
    ) -> Result<(), DeviceError> {
        let refusal = Hello::refusal(hello)
            .map(|mismatch| mismatch.to_string())
            .or_else(|| self.lack_of_place(peer));
        if let Some(reason) = refusal {
            return self.port.device().reject(request, &reason);
        }
        let path = Hello::path(hello);
        let (qp, session) = accept(&self.port, request, |making| {
            self.welcome(making, peer, path)
        })?;
        self.state.borrow_mut().sessions.all.insert(qp, session);
        Ok(())
    }

    /// Why there is no place for another client, if there is none.
    fn lack_of_place(&self, newcomer: &PeerIdentity) -> Option<String> {
        let state = self.state.borrow();
        let here = state.sessions.iter().map(|session| &session.peer);
        let ServerOptions {
            places, process, ..
        } = self.options;
        places.refusal(here, newcomer, process)
    }

    /// Makes what a client needs, and says what it must know.
    fn welcome(
        &self,
        making: &mut Making<'_>,
        peer: &PeerIdentity,
        path: ClientPath,
    ) -> Result<(Vec<u8>, Session), DeviceError> {
        // Where the log is a file that is synced, a page that a client has written is taken from its mapping at each sync,
        // with an interrupt of its processor, and faults at its next store: more than copying its records costs.
        let copying =
            self.options.clients == ClientPolicy::Copying || !peer.same_user || self.syncs_files();
        let answers = Answers::new(making.allocate(Answers::SIZE)?);
        let staging = match copying {
            true => Some(making.allocate(STAGING_SIZE)?),
            false => None,
        };
        let receives = self.receives.allocate_own(making)?;
        let qp = making.queue_pair(Queues {
            send_capacity: IN_FLIGHT_MAX as u32 * 2,
            receive_capacity: receives.map_or(1, |_| OWN_RECEIVES),
            shared_receive_queue: self.receives.shared_queue(),
            windows: true,
            rnr_retry_count: RNR_RETRY_COUNT,
            rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
        })?;
        if let Some(buffers) = receives {
            buffers.post_all(&**self.port.device(), ReceiveQueue::Own(qp), OWN_RECEIVES)?;
        }
        let (opening, sequence) = (
            self.pool.opening(),
            self.state.borrow().sequences.next() - 1,
        );
        let id = {
            let sessions = &mut self.state.borrow_mut().sessions;
            sessions.next_id(opening, self.pool.secret())
        };
        let mut welcome = Welcome::new();
        welcome.opening = U32::new(opening);
        welcome.uuid = self.format.uuid.to_le_bytes();
        welcome.segment_size = U64::new(self.format.segment_size);
        welcome.segment_count = U32::new(self.format.segment_count);
        welcome.staging_size = U32::new(staging.map_or(0, |region| region.size as u32));
        welcome.tag_key = U64::new(self.format.tag_key);
        welcome.sequence = U64::new(sequence);
        welcome.session = U64::new(id);
        welcome.publication = U32::new((self.options.publishes() && !copying).into());
        let session = Session {
            id,
            peer: peer.clone(),
            path,
            windows: Windows::default(),
            leases: Default::default(),
            rights: None,
            staging,
            receives,
            answers,
        };
        Ok((welcome.as_bytes().to_vec(), session))
    }
}

const _: () = assert!(STAGING_SIZE <= u32::MAX as u64);
