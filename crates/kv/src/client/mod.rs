//! The client: reads without the server, writes with one round trip.
//!
//! ```text
//!   calls        every public call: counted, and handed to a component
//!     reader       get       record with its bucket           one batch of READs
//!                            first: bucket -> record          two one-sided READs
//!                  multi_get all buckets -> all records       one or two batches
//!     scan         entries   buckets, then records            one-sided READs
//!     writer       put       record + notice -> answer        one WRITE_WITH_IMM
//!                  delete    request -> answer                one SEND
//!       publisher  overwrite where the client publishes       READs, FETCH_ADD, WRITE and CAS
//!       leases     extents that records are written to
//!     memory       the server's memory: addresses, and READs in the call, soon, or posted
//!     connection   requests and their answers
//!       time         of the server, for keys that expire
//!       terms        in which the server is the primary of a shard
//!       resources    queue pair and memory, made on the device
//! ```
//!
//! Each component uses those below it, and none above.
//!
//! A client belongs to one thread and may have many operations in flight: each method is a future. Dropping a future
//! abandons the operation without undoing it: a write that was sent may still take effect.

mod calls;
mod connect;
mod connection;
mod fair_lock;
mod hold;
mod leases;
mod locations;
mod memory;
mod meter;
mod observer;
mod pending;
mod publisher;
mod reader;
mod resources;
mod scan;
mod terms;
mod time;
mod touch;
mod writer;
mod yardstick;

use std::rc::Rc;

use stonecast_fabric::Boxed;

use crate::wire::limits::IN_FLIGHT_MAX;

use connection::Connection;
use leases::Leases;
use locations::Locations;
use memory::{Execution, ServerMemory};
use publisher::Publisher;
use reader::Reader;
use writer::Writer;

pub use connect::ClientOptions;
pub(crate) use fair_lock::FairLock;
pub use hold::{HeldPart, Hold};
pub use observer::Observer;
pub use reader::{FoundKey, Values};
pub use scan::{Entries, Entry};
pub(crate) use touch::touch;
pub use writer::{Applied, Batch, Pair, PutRules, Token, Written};
pub use yardstick::Yardstick;

/// A connection to a server. A clone is another handle of the same connection.
#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
}

struct Inner {
    connection: Rc<Connection>,
    memory: Rc<ServerMemory>,
    reader: Reader,
    writer: Writer,
}

/// Entries of the completion queues that a client's port needs.
pub const CLIENT_COMPLETIONS: u32 = 4 * IN_FLIGHT_MAX as u32;

impl Client {
    /// The components of a client over the server's `memory`.
    fn new(options: &ClientOptions, memory: Rc<ServerMemory>) -> Self {
        let connection = memory.connection.clone();
        let locations = Rc::new(Locations::new(match memory.execution {
            Execution::InCall => 0,
            Execution::Soon | Execution::Posted => options.locations,
        }));
        let leases = Rc::new(Leases::new(connection.clone(), memory.access()));
        let welcome = &connection.welcome;
        let may_publish =
            options.publishes && welcome.publication.get() == 1 && welcome.keys().shards == 1;
        let publisher =
            may_publish.then(|| Rc::new(Publisher::new(memory.clone(), leases.clone())));
        let reader = Reader::new(memory.clone(), locations.clone());
        let writer = Writer::new(leases, connection.clone(), locations, publisher);
        Self {
            inner: Rc::new(Inner {
                connection,
                memory,
                reader,
                writer,
            }),
        }
    }

    /// Gives back the client's leases and disconnects. Dropping the client disconnects too; the server then takes the
    /// leases back.
    pub fn close(self) -> Boxed<'static, ()> {
        Box::pin(async move {
            // No server is left to read the report.
            let _ = self.report().await;
            for slot in self.inner.writer.take_extents() {
                // A server that is gone takes nothing back.
                if self.inner.writer.leases.release(slot).await.is_err() {
                    return;
                }
            }
        })
    }
}
