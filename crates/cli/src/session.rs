//! A connection to a server, and the loop that drives it.

use std::io;
#[cfg(feature = "verbs")]
use std::net::TcpStream;
use std::rc::Rc;
#[cfg(feature = "verbs")]
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Elapsed, Port, Runtime};
use stonecast_fabric_shm::ShmOptions;
use stonecast_kv::{CLIENT_COMPLETIONS, Client, StoreError};

use crate::fabric::{self, Opened};
use crate::failure::{Failure, Status};
use crate::flags::Connection;
use crate::values::Address;

/// How long a client looks for its answer before it sleeps. A wake-up costs some ten microseconds, a sync a hundred:
/// longer than this a command that runs once would only burn a core.
const SPIN_NS: Nanoseconds = 50_000;
/// A server accepts between two batches, and a batch is a sync at the longest.
const CONNECT_NS_MAX: Nanoseconds = 10_000_000_000;

/// How long it may take to find out whether a machine answers.
#[cfg(feature = "verbs")]
const KNOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// A connected client.
pub struct Session {
    executor: BusyPoll,
    client: Client,
}

impl Session {
    /// Connects.
    pub fn open(connection: &Connection) -> Result<Self, Failure> {
        let address = &connection.address;
        let Opened { device, park } =
            fabric::open(address, ShmOptions::default(), &connection.verbs, None)?;
        let executor = BusyPoll::new(park, SPIN_NS);
        let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS)?);
        executor.add_port(&port);
        let name = address.to_string();
        let runtime = executor.runtime();
        let client = executor.block_on(async {
            let connected = Client::connect(port, executor.runtime(), &name);
            runtime.within(CONNECT_NS_MAX, connected).await
        });
        match client {
            Ok(Ok(client)) => Ok(Self { executor, client }),
            Ok(Err(error)) => Err(refused(error, address)),
            Err(Elapsed) => Err(Failure::new(
                Status::Unreachable,
                format!("the server at {address} does not answer"),
            )),
        }
    }

    /// Time, for who waits.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.executor.runtime()
    }

    /// Runs `work` to its end.
    pub fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.executor.block_on(work(&self.client))
    }

    /// Gives back what the client holds.
    pub fn close(self) {
        self.executor.block_on(self.client.close());
    }
}

/// A connection that was not made: the server said why, or there is none.
pub fn refused(error: StoreError, address: &Address) -> Failure {
    match (&error, knock(address)) {
        (StoreError::Refused(_), Err(reason)) => match reason.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::new(
                Status::Unreachable,
                format!("{error}. Is `stonecast serve` running there?"),
            ),
            // The last two: a server takes nobody from its full backlog; a name is longer than any file's.
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::TimedOut
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::InvalidFilename => {
                Failure::new(Status::Unreachable, error.to_string())
            }
            _ => error.into(),
        },
        _ => error.into(),
    }
}

/// Whether anybody listens at `address`.
fn knock(address: &Address) -> io::Result<()> {
    match address {
        Address::SharedMemory(path) => stonecast_fabric_shm::knock(path),
        #[cfg(feature = "verbs")]
        Address::Verbs(address) => {
            let text = address.to_string();
            let host = text.trim_start_matches("verbs:").trim_start_matches("//");
            let mut answer = Err(io::ErrorKind::NotFound.into());
            for address in std::net::ToSocketAddrs::to_socket_addrs(host)? {
                answer = TcpStream::connect_timeout(&address, KNOCK_TIME_MAX).map(drop);
                if answer.is_ok() {
                    break;
                }
            }
            answer
        }
    }
}
