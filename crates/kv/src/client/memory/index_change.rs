//! The memory that the server has opened to this client, and the switch to a newer index.
//!
//! A reader that finds a bucket marked as moved asks for the newer index. The old index is given back once none of its reads is
//! in flight.

use std::rc::Rc;

use super::ServerMemory;
use crate::error::StoreError;
use crate::wire::limits::READ_RETRIES_MAX;
use crate::wire::{Accesses, Answer, Request, Verdict};

/// Pause before the client asks again for access that the server cannot give at the moment.
const BUSY_PAUSE_NS: u64 = 1_000_000;
/// Interval at which a client checks whether its reads of an old index have ended.
const LEAVE_LOOK_NS: u64 = 1_000_000;

impl ServerMemory {
    /// Asks for access, and checks the server's answer.
    pub(super) async fn ask_access(&self) -> Result<Accesses, StoreError> {
        let connection = &*self.connection;
        for _ in 0..READ_RETRIES_MAX {
            match connection.request(Request::Access).await? {
                Answer::Access(accesses) => {
                    let log_size =
                        connection.format.segment_size * u64::from(connection.format.segment_count);
                    return match accesses
                        .fault(log_size, connection.welcome.staging_size.get().into())
                    {
                        Some(what) => Err(StoreError::Protocol { what }),
                        None => Ok(accesses),
                    };
                }
                Answer::Verdict {
                    verdict: Verdict::Busy,
                    ..
                } => connection.runtime.sleep(BUSY_PAUSE_NS).await,
                _ => break,
            }
        }
        Err(StoreError::Protocol {
            what: "the server gives no access",
        })
    }

    /// Switches to the server's present index, because a bucket of index `seen` was marked as moved.
    pub async fn adopt_index(&self, seen: u32) -> Result<(), StoreError> {
        let _turn = self.adopting.lock().await;
        if !self.has_index(seen) {
            // Another read was faster.
            return Ok(());
        }
        let access = self.ask_access().await?;
        if access.table == seen {
            return Err(StoreError::Protocol {
                what: "the server marks its index as moved, and names no newer one",
            });
        }
        self.access.set(access);
        let old = self.index_in_use.replace(Rc::default());
        let connection = self.connection.clone();
        self.connection.runtime.spawn(Box::pin(async move {
            while Rc::strong_count(&old) > 1 {
                connection.runtime.sleep(LEAVE_LOOK_NS).await;
            }
            // A server that is gone takes nothing back.
            let _ = connection
                .request(Request::LeaveIndex { table: seen })
                .await;
        }));
        Ok(())
    }
}
