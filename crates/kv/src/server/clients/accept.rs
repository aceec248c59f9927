//! Accepts a client: gives it a place, memory, a queue pair, and the facts of the pool that it must know.

use std::rc::Rc;

use stonecast_base::hash;
use stonecast_fabric::{ConnectionRequest, DeviceError, PeerIdentity, Port, ReceiveQueue, Runtime};
use stonecast_log::LogFormat;
use stonecast_media::Pool;
use stonecast_session::{Making, Queues, accept};
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

use super::answers::Answers;
use super::receives::{OWN_RECEIVES, Receives};
use super::sessions::{Session, Sessions, Staging};
use super::terms::Terms;
use super::windows::Windows;
use crate::metrics::ClientPath;
use crate::server::journal::Sequences;
use crate::server::noted::Noted;
use crate::server::options::{ClientPolicy, ServerOptions};
use crate::server::recovery::survey::keys_of;
use crate::wire::limits::{IN_FLIGHT_MAX, STAGING_SIZE};
use crate::wire::{Hello, KeyMap, Welcome};

/// RNR retries of answers. The client posts a receive for each operation in flight, so an answer always finds a
/// receive.
const RNR_RETRY_COUNT: u32 = 100;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

pub(in crate::server) struct Admission {
    port: Rc<Port>,
    options: ServerOptions,
    format: LogFormat,
    keys: KeyMap,
    opening: u32,
    secret: [u64; 2],
    /// Whether a persist is a sync of a file. A sync write-protects each page that a client has written, with an
    /// interrupt of the client's processor, and the client's next store to the page faults. That costs more than
    /// copying the client's records.
    syncs_files: bool,
    receives: Receives,
    /// Connections accepted so far.
    begun: u64,
    /// The errors for which clients were not accepted because the server lacked a resource.
    pub refused: Noted<DeviceError>,
}

impl Admission {
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        options: ServerOptions,
        pool: &Pool,
        (format, syncs_files): (LogFormat, bool),
        receives: Receives,
    ) -> Self {
        Self {
            port,
            options,
            format,
            keys: keys_of(pool),
            opening: pool.opening(),
            secret: pool.secret(),
            syncs_files,
            receives,
            begun: 0,
            refused: Noted::new(runtime),
        }
    }

    /// Accepts the client that sent `hello`, or refuses it with a reason. `sequences` are the sequences of the log.
    pub fn admit(
        &mut self,
        sessions: &mut Sessions,
        (request, peer): (ConnectionRequest, &PeerIdentity),
        hello: &[u8],
        sequences: &Sequences,
    ) {
        let admitted = self.try_admit(sessions, (request, peer), hello, sequences);
        // A client that vanished meanwhile needs no answer.
        if let Err(error @ DeviceError::System { .. }) = admitted {
            self.refused.note(error);
        }
    }

    fn try_admit(
        &mut self,
        sessions: &mut Sessions,
        (request, peer): (ConnectionRequest, &PeerIdentity),
        hello: &[u8],
        sequences: &Sequences,
    ) -> Result<(), DeviceError> {
        let refusal = Hello::refusal(hello)
            .map(|mismatch| mismatch.to_string())
            .or_else(|| self.lack_of_place(sessions, peer));
        if let Some(reason) = refusal {
            return self.port.device().reject(request, &reason);
        }
        let path = Hello::path(hello);
        let port = self.port.clone();
        let (qp, session) = accept(&port, request, |making| {
            self.welcome(making, (peer, path), sequences)
        })?;
        sessions.add(qp, session);
        Ok(())
    }

    /// The reason why the server has no place for another client; `None`: it has one.
    fn lack_of_place(&self, sessions: &Sessions, newcomer: &PeerIdentity) -> Option<String> {
        let here = sessions.iter().map(|session| &session.peer);
        let ServerOptions {
            places, process, ..
        } = self.options;
        places.refusal(here, newcomer, process)
    }

    /// Makes the resources of a client, and its welcome.
    fn welcome(
        &mut self,
        making: &mut Making<'_>,
        (peer, path): (&PeerIdentity, ClientPath),
        sequences: &Sequences,
    ) -> Result<(Vec<u8>, Session), DeviceError> {
        let copying =
            self.options.clients == ClientPolicy::Copying || !peer.same_user || self.syncs_files;
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
        let sequence = sequences.next() - 1;
        let id = self.next_id();
        let mut welcome = Welcome::new();
        welcome.opening = U32::new(self.opening);
        welcome.uuid = self.format.uuid.to_le_bytes();
        welcome.segment_size = U64::new(self.format.segment_size);
        welcome.segment_count = U32::new(self.format.segment_count);
        welcome.staging_size = U32::new(staging.map_or(0, |region| region.size as u32));
        welcome.tag_key = U64::new(self.format.tag_key);
        welcome.sequence = U64::new(sequence);
        welcome.session = U64::new(id);
        welcome.publication = U16::new((self.options.publishes() && !copying).into());
        let shards = u16::try_from(self.keys.shards).expect("at most 64");
        welcome.shards = U16::new(shards);
        welcome.key_seed = U64::new(self.keys.seed);
        let session = Session {
            id,
            peer: peer.clone(),
            path,
            windows: Windows::default(),
            terms: Terms::default(),
            leases: Default::default(),
            rights: None,
            staging: staging.map(|region| Staging {
                region,
                memory: self.port.device().memory(region),
            }),
            receives,
            answers,
        };
        Ok((welcome.as_bytes().to_vec(), session))
    }

    /// A number that names a connection and cannot be guessed by any other client.
    fn next_id(&mut self) -> u64 {
        self.begun += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&u64::from(self.opening).to_le_bytes());
        bytes[8..].copy_from_slice(&self.begun.to_le_bytes());
        hash::siphash24(self.secret, &bytes)
    }
}

const _: () = assert!(STAGING_SIZE <= u32::MAX as u64);
