//! A caller's side of the service.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{ConfigStore, Pending, Revision, StoreError, Stored, Swap, VALUE_SIZE_MAX};
use stonecast_fabric::{
    ConnectionEvent, DeviceError, LocalSpan, Operation, Port, ReceiveQueue, Runtime, Status,
};
use stonecast_session::{Endpoint, ReceiveBuffers};

use crate::seat::QUEUES;
use crate::wire::{Answer, MESSAGE_SIZE_MAX, Request};

/// A configuration store behind the network of a world. Each call connects to the last known leader, and then to the
/// other seats.
pub struct SimConfigStore {
    name: String,
    /// Addresses of the seats.
    seats: Vec<String>,
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    patience_ns: Nanoseconds,
    /// The seat of the latest answer.
    leader: Cell<usize>,
}

/// The reason why a seat has not answered.
struct Silence {
    reason: String,
    /// Whether the seat may have taken the request.
    is_unknown: bool,
}

impl From<DeviceError> for Silence {
    fn from(error: DeviceError) -> Self {
        let reason = error.to_string();
        Self {
            reason,
            is_unknown: false,
        }
    }
}

impl SimConfigStore {
    pub(crate) fn new(
        name: String,
        seats: Vec<String>,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        patience_ns: Nanoseconds,
    ) -> Self {
        Self {
            name,
            seats,
            port,
            runtime,
            patience_ns,
            leader: Cell::new(0),
        }
    }

    /// Asks one seat after the other. A request that changes the value is not sent to a second seat if the first may
    /// have taken it.
    async fn ask(&self, request: &Request) -> Result<Answer, Silence> {
        let changes = matches!(request, Request::CompareAndSet { .. });
        let message = request.encode();
        let first = self.leader.get();
        let mut silence = None;
        for turn in 0..self.seats.len() {
            let seat = (first + turn) % self.seats.len();
            match self.ask_seat(&self.seats[seat], &message).await {
                Ok(Answer::NotLeading) => {}
                Ok(answer) => {
                    self.leader.set(seat);
                    return Ok(answer);
                }
                Err(silent) if changes && silent.is_unknown => return Err(silent),
                Err(silent) => silence = Some(silent),
            }
        }
        Err(silence.unwrap_or_else(|| Silence {
            reason: "no seat leads".to_owned(),
            is_unknown: false,
        }))
    }

    async fn ask_seat(&self, address: &str, message: &[u8]) -> Result<Answer, Silence> {
        let sent = Cell::new(false);
        let asked = self.exchange(address, message, &sent);
        match self.runtime.within(self.patience_ns, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Silence {
                reason: format!("{address} has not answered in {} ns", self.patience_ns),
                is_unknown: sent.get(),
            }),
        }
    }

    /// One connection: a request, and its answer. Notes when the request may have been sent.
    async fn exchange(
        &self,
        address: &str,
        message: &[u8],
        sent: &Cell<bool>,
    ) -> Result<Answer, Silence> {
        let endpoint = Endpoint::new(&self.port, QUEUES)?;
        let device = self.port.device();
        let region = endpoint.allocate(2 * u64::from(MESSAGE_SIZE_MAX))?;
        let buffers = ReceiveBuffers::new(region, MESSAGE_SIZE_MAX);
        let queue = ReceiveQueue::Own(endpoint.qp());
        buffers.post_all(&**device, queue, 1)?;
        let connected = endpoint.connect(address, &[]).await;
        connected.map_err(|error| Silence {
            reason: format!("{address}: {error}"),
            is_unknown: false,
        })?;
        let local = LocalSpan {
            region,
            offset: MESSAGE_SIZE_MAX.into(),
            size: message.len() as u32,
        };
        device.memory(region).write(local.offset, message);
        sent.set(true);
        self.port.post(endpoint.qp(), [Operation::Send { local }])?;
        let inbox = endpoint.inbox();
        loop {
            if let Some(arrival) = inbox.take_received()
                && arrival.status == Status::Success
            {
                let mut answer = Vec::new();
                buffers.copy_out(&**device, &arrival, &mut answer);
                return Answer::decode(&answer).ok_or_else(|| Silence {
                    reason: format!("{address} speaks another language"),
                    is_unknown: true,
                });
            }
            if let Some(ConnectionEvent::Disconnected { .. }) = inbox.take_event() {
                return Err(Silence {
                    reason: format!("{address} has gone"),
                    is_unknown: true,
                });
            }
            inbox.activity().await;
        }
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::Refused {
            store: self.name.clone(),
            reason,
        }
    }
}

impl ConfigStore for SimConfigStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            match self.ask(&Request::Read).await {
                Ok(Answer::Value(stored)) => Ok(stored),
                Ok(other) => Err(self.refused(format!("{other:?} answers no read"))),
                Err(silence) => Err(self.refused(silence.reason)),
            }
        })
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        let bytes = bytes.to_vec();
        Box::pin(async move {
            if bytes.len() > VALUE_SIZE_MAX {
                let size = bytes.len();
                return Err(self.refused(format!(
                    "{size} bytes are too many: at most {VALUE_SIZE_MAX} are stored"
                )));
            }
            // In a message, 0 stands for a store without a value.
            if expected == Some(Revision(0)) {
                return Ok(Swap::Conflict);
            }
            match self.ask(&Request::CompareAndSet { expected, bytes }).await {
                Ok(Answer::Done(revision)) => Ok(Swap::Done(revision)),
                Ok(Answer::Conflict) => Ok(Swap::Conflict),
                Ok(other) => Err(StoreError::Unknown {
                    store: self.name.clone(),
                    reason: format!("{other:?} answers no compare-and-set"),
                }),
                Err(Silence { reason, is_unknown }) if is_unknown => Err(StoreError::Unknown {
                    store: self.name.clone(),
                    reason,
                }),
                Err(silence) => Err(self.refused(silence.reason)),
            }
        })
    }

    /// Asks again whenever a seat was silent for the patience of a caller: the seat may be gone, or its answer lost.
    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        Box::pin(async move {
            loop {
                if let Ok(Answer::Value(Some(stored))) = self.ask(&Request::Changed { since }).await
                {
                    return Ok(stored);
                }
                // The pause keeps a caller from flooding a service without a leader.
                self.runtime.sleep(self.patience_ns / 10).await;
            }
        })
    }
}
