//! The requester's half of a plan.
//!
//! ```text
//!   steps    write(a)  flush  write_atomic(b)  flush  await(flush)
//!   posted   [-------------- one batch ---------------]   |
//!                                                         '-- waits for the completion of the last flush
//! ```
//!
//! Steps are posted in order, as many as possible with one doorbell: a batch ends where a step waits for a completion.
//!
//! Invariants:
//! - The requester waits for no completion that the plan does not name, so an execution costs exactly the plan's cost.
//! - After a failure, or after an execution was abandoned half-way, the session does nothing more: outstanding requests
//!   may still read its buffer, and the state of the responder is unknown.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    ConnectionEvent, DisconnectCause, Opcode, Port, ReceiveQueue, Received, Status,
};
use stonecast_session::{ConnectError, Endpoint, Queues, ReceiveBuffers};

use crate::execute::error::ExecuteError;
use crate::execute::halves::Halves;
use crate::execute::message::{self, HEADER_SIZE, Kind};
use crate::execute::outbox::Outbox;
use crate::execute::payload::{PLACE_GRAIN, Payload};
use crate::execute::posting::Posting;
use crate::execute::session::{self, Peer};
use crate::execute::witness::Concluded;
use crate::step::{Item, Step};

/// Bytes of a buffer for an acknowledgement.
const ACKNOWLEDGEMENT_SIZE: u32 = 64;
const _: () = assert!(HEADER_SIZE <= ACKNOWLEDGEMENT_SIZE as usize);
/// The most outstanding acknowledgements: more than a plan has.
const ACKNOWLEDGEMENTS: u32 = 8;
/// Bytes of all their buffers.
const ACKNOWLEDGEMENTS_SIZE: u64 = ACKNOWLEDGEMENTS as u64 * ACKNOWLEDGEMENT_SIZE as u64;
/// Posted operations of one execution: more than a plan has.
const SEND_CAPACITY: u32 = 64;
/// Retries towards a responder that is slow to post receive buffers.
const RNR_RETRY_COUNT: u32 = 1_000;
const RNR_RETRY_DELAY_NS: u64 = 10_000;

/// Completions that the port of a requester must hold.
pub const REQUESTER_COMPLETIONS: u32 = 2 * SEND_CAPACITY;

/// A requester's end of a session.
pub(crate) struct RequesterEnd {
    port: Rc<Port>,
    endpoint: Endpoint,
    halves: Halves,
    /// Buffers for acknowledgements.
    acknowledgements: ReceiveBuffers,
    outbox: Outbox,
    acknowledged: u64,
    /// Whether an execution began and did not succeed.
    spent: bool,
}

impl RequesterEnd {
    /// Connects to the responder at `address`, which must run the same program.
    pub async fn connect(
        port: &Rc<Port>,
        address: &str,
        halves: Halves,
        update_size_max: u32,
    ) -> Result<Self, ExecuteError> {
        halves.check(port.device().capabilities())?;
        let device = port.device();
        let endpoint = Endpoint::new(
            port,
            Queues {
                send_capacity: SEND_CAPACITY,
                receive_capacity: ACKNOWLEDGEMENTS,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: RNR_RETRY_COUNT,
                rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
            },
        )?;
        let size = ACKNOWLEDGEMENTS_SIZE + Outbox::size(update_size_max);
        let buffer = endpoint.allocate(size)?;
        let acknowledgements = ReceiveBuffers::new(buffer, ACKNOWLEDGEMENT_SIZE);
        let queue = ReceiveQueue::Own(endpoint.qp());
        acknowledgements.post_all(&**device, queue, ACKNOWLEDGEMENTS)?;
        let greeting = halves.greeting();
        let hello = session::request(&greeting, halves.fingerprint());
        let rejected = |reason: String| ExecuteError::Rejected {
            address: address.to_owned(),
            reason,
        };
        let said = match endpoint.connect(address, &hello).await {
            Ok(said) => said,
            Err(ConnectError::Device(error)) => return Err(error.into()),
            Err(other) => return Err(rejected(other.to_string())),
        };
        let peer = match Peer::parse(&greeting, &said) {
            Ok(peer) => peer.ok_or(ExecuteError::Protocol {
                what: "the responder's answer",
            })?,
            Err(mismatch) => return Err(rejected(mismatch.to_string())),
        };
        let outbox = Outbox::new(port.clone(), buffer, ACKNOWLEDGEMENTS_SIZE, peer, &halves);
        Ok(Self {
            port: port.clone(),
            endpoint,
            halves,
            acknowledgements,
            outbox,
            acknowledged: 0,
            spent: false,
        })
    }

    /// Bytes of the responder's data.
    pub fn data_size(&self) -> u64 {
        self.outbox.peer().data_size
    }

    /// Runs the requester's steps once.
    pub async fn run(&mut self, update: &Payload<'_>) -> Result<Concluded, ExecuteError> {
        if self.spent {
            return Err(ExecuteError::Spent);
        }
        self.check(update)?;
        self.spent = true;
        let mut posting = Posting::new(self.port.clone(), self.endpoint.qp());
        let staged = self.outbox.stage(update);
        let steps = self.halves.requester.clone();
        for (index, step) in steps.iter().enumerate() {
            let result = match *step {
                Step::Await(_) => posting.wait(self.halves.awaited_at(index)).await,
                Step::ReceiveAck => match posting.post() {
                    Ok(()) => self.acknowledgement(index).await,
                    Err(error) => Err(error),
                },
                post => {
                    let operations = self.outbox.operations(post, update, &staged);
                    posting.gather(operations);
                    if self.halves.is_awaited(index) {
                        posting.submit(index).await
                    } else {
                        Ok(())
                    }
                }
            };
            if let Err(error) = result {
                return Err(self.failed(error, index, &posting));
            }
        }
        if let Err(error) = posting.post() {
            return Err(self.failed(error, steps.len().saturating_sub(1), &posting));
        }
        self.spent = false;
        Ok(Concluded::at_the_end())
    }

    /// The meaning of a failure at step `index`: once anything was handed to the device, it is unknown whether the
    /// responder has the update.
    fn failed(&mut self, error: ExecuteError, index: usize, posting: &Posting) -> ExecuteError {
        match error {
            ExecuteError::Device(_) if !posting.has_begun() => {
                self.spent = false;
                error
            }
            ExecuteError::Device(source) => ExecuteError::Unknown {
                step: self.name(index),
                cause: source.to_string(),
            },
            ExecuteError::Completion(status) => ExecuteError::Unknown {
                step: self.name(index),
                cause: status.to_string(),
            },
            other => other,
        }
    }

    /// Refuses an update that does not fit, before anything is posted.
    fn check(&self, update: &Payload<'_>) -> Result<(), ExecuteError> {
        let refuse = |reason: String| Err(ExecuteError::Update { reason });
        let peer = self.outbox.peer();
        let parts = update.parts().count();
        let expected = if self.halves.is_compound() { 2 } else { 1 };
        // A rehearsal may have lost the steps of a part.
        if parts < expected || parts > expected && !self.halves.is_rehearsal() {
            return refuse(format!(
                "the plan is for an update of {expected} part(s), and this update has {parts}"
            ));
        }
        for (offset, bytes) in update.parts() {
            if !Span::new(offset, bytes.len() as u64).fits(peer.data_size) || bytes.is_empty() {
                let size = peer.data_size;
                return refuse(format!(
                    "{} bytes at {offset} are not in the responder's {size} bytes",
                    bytes.len()
                ));
            }
        }
        for (item, (offset, bytes)) in [Item::A, Item::B].into_iter().zip(update.parts()) {
            if self.halves.posts(Step::WriteImmediate(item)) && !nameable(offset) {
                return refuse(format!(
                    "a WRITE_WITH_IMM names places by multiples of {PLACE_GRAIN}, not {offset}"
                ));
            }
            if self.halves.posts(Step::WriteAtomic(item))
                && (bytes.len() != 8 || !offset.is_multiple_of(8))
            {
                return refuse(format!(
                    "an ATOMIC_WRITE takes 8 aligned bytes, not {} at {offset}",
                    bytes.len()
                ));
            }
        }
        let message = message::values_size(update.parts().map(|(_, bytes)| bytes.len()));
        if self.halves.sends_values() && message > peer.message_size_max as usize {
            let limit = peer.message_size_max;
            return refuse(format!(
                "a message of {message} bytes does not fit the responder's buffers of {limit} bytes"
            ));
        }
        let bytes: usize = update
            .parts()
            .map(|(_, bytes)| bytes.len().next_multiple_of(8))
            .sum();
        if (bytes + message + 64) as u64 > self.outbox.room() {
            return refuse(format!(
                "{bytes} bytes are more than the session was made for"
            ));
        }
        Ok(())
    }

    fn name(&self, index: usize) -> String {
        self.halves
            .requester
            .get(index)
            .map(Step::to_string)
            .unwrap_or_default()
    }

    /// Waits for the responder's next acknowledgement.
    async fn acknowledgement(&mut self, index: usize) -> Result<(), ExecuteError> {
        loop {
            if let Some(arrival) = self.endpoint.inbox().take_received() {
                return self.acknowledged_by(&arrival, index);
            }
            while let Some(event) = self.endpoint.inbox().take_event() {
                if let ConnectionEvent::Disconnected { cause, .. } = event {
                    let cause = match cause {
                        DisconnectCause::Requested => "the responder ended the connection",
                        DisconnectCause::PeerDied => "the responder is gone",
                        DisconnectCause::QueuePairError => "the connection failed",
                    };
                    return Err(ExecuteError::Unknown {
                        step: self.name(index),
                        cause: cause.to_owned(),
                    });
                }
            }
            self.endpoint.inbox().activity().await;
        }
    }

    /// Takes an arrival, which must be the next acknowledgement.
    fn acknowledged_by(&mut self, arrival: &Received, index: usize) -> Result<(), ExecuteError> {
        if arrival.status != Status::Success {
            return Err(ExecuteError::Completion(arrival.status));
        }
        let (device, buffers) = (self.port.device(), self.acknowledgements);
        let mut bytes = Vec::new();
        buffers.copy_out(&**device, arrival, &mut bytes);
        let expected = self.acknowledged + 1;
        let right = |message: message::Framed| {
            message.kind == Kind::Acknowledgement && message.number == expected
        };
        if arrival.opcode != Opcode::Receive || !message::parse(&bytes).is_some_and(right) {
            let cause =
                "the responder sent something that is not the next acknowledgement".to_owned();
            return Err(ExecuteError::Unknown {
                step: self.name(index),
                cause,
            });
        }
        self.acknowledged = expected;
        let queue = ReceiveQueue::Own(self.endpoint.qp());
        Ok(buffers.post(&**device, queue, arrival.wr_id)?)
    }
}

/// Whether 32 bits can name the place.
fn nameable(offset: u64) -> bool {
    offset.is_multiple_of(PLACE_GRAIN) && u32::try_from(offset / PLACE_GRAIN).is_ok()
}
