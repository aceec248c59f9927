//! The connection of a client, lent to one call at a time.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;

use stonecast::local::{self, Connection};

use crate::error::Error;
use crate::owner::{Owner, Right, other_thread};
use crate::status::{Effect, Status};

/// The state that a client and its iterations share.
pub struct Link {
    owner: Owner,
    state: Cell<State>,
}

enum State {
    Open(Box<Connected>),
    /// A call that is under way has it.
    Lent,
    /// A call that had it has panicked.
    Lost,
    Closed,
}

/// A connection, and memory for its reads.
pub struct Connected {
    connection: Connection,
    /// The value that was read last. Its memory serves the next read.
    pub value: Vec<u8>,
}

/// The connection, for the length of a call.
pub struct Lent<'a> {
    link: &'a Link,
    connected: Option<Box<Connected>>,
}

impl Link {
    /// The link of the calling thread.
    pub fn new(connection: Connection) -> Rc<Self> {
        let value = Vec::new();
        Rc::new(Self {
            owner: Owner::this(),
            state: Cell::new(State::Open(Box::new(Connected { connection, value }))),
        })
    }

    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Lends the connection to the owner, unless a call has it already.
    #[inline]
    pub fn lend(&self) -> Result<Lent<'_>, Error> {
        self.owner.check()?;
        match self.state.replace(State::Lent) {
            State::Open(connected) => Ok(Lent {
                link: self,
                connected: Some(connected),
            }),
            other => Err(self.refuse(other)),
        }
    }

    #[cold]
    fn refuse(&self, state: State) -> Error {
        let error = match &state {
            State::Closed => Error::new(Status::Closed, Effect::None, "the client is closed"),
            State::Lost => Error::new(
                Status::Defect,
                Effect::None,
                "a call of this client met a defect of the library; nothing was done. Close the client, and connect again",
            ),
            State::Open(_) | State::Lent => Error::misuse(
                "a call that is under way uses the client; nothing was done. Handlers of signals must not call the library",
            ),
        };
        self.state.set(state);
        error
    }

    /// Disconnects. In a process that was forked, the connection is forgotten and goes on in the other process.
    pub fn close(&self) -> Result<(), Error> {
        match self.owner.right() {
            Right::OtherThread => return Err(other_thread()),
            Right::BeforeFork => {
                mem::forget(self.state.replace(State::Closed));
                return Ok(());
            }
            Right::Own => {}
        }
        match self.state.replace(State::Closed) {
            State::Open(connected) => connected.connection.close(),
            State::Lent => return Err(self.refuse(State::Lent)),
            State::Lost | State::Closed => {}
        }
        Ok(())
    }
}

impl Lent<'_> {
    /// Waits for `work`.
    #[inline]
    pub fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&local::Client) -> Result<T, stonecast::Error>,
    ) -> Result<T, Error> {
        let connection = &self.connected().connection;
        connection.run(work).map_err(Error::from)
    }

    /// Reads the value of `key` into memory of the connection. Returns its version.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<u64>, Error> {
        let Connected { connection, value } = self.connected();
        let read = connection.run(async |client| client.get_into(key, value).await);
        read.map_err(Error::from)
    }

    pub fn connected(&mut self) -> &mut Connected {
        let connected = self.connected.as_deref_mut();
        connected.expect("it is given back at the end alone")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let connected = self.connected.take().expect("it is given back once");
        // A connection that saw a panic may not keep its invariants, not even those of its end.
        let state = if std::thread::panicking() {
            mem::forget(connected);
            State::Lost
        } else {
            State::Open(connected)
        };
        mem::forget(self.link.state.replace(state));
    }
}
