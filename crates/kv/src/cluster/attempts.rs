//! Attempts of one call, until one attempt is decided. Each attempt goes to the node that the
//! latest map names for the shard.
//!
//! ```text
//!   refused, or the node is gone --> a later map?  at once
//!                                    none          a pause, and once more
//!   the node is silent           --> another primary or term?  once more
//!                                    none                      the attempt goes on
//!   any other error, or no time  --> the end
//! ```

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use stonecast_base::Nanoseconds;

use super::ClusterClient;
use super::map::Map;
use super::nodes::Node;
use super::options::PAUSE_NS;
use crate::error::StoreError;
use crate::wire::limits::LEASE_TURN_NS;

/// Leases for which a client waits for an answer before it looks for an heir: no heir serves before one of them is
/// over.
const LEASES_PER_LOOK: u64 = 2;
/// The time after which a call that goes on gives back the room at other nodes that its client does not use: longer
/// than the turn of a client that writes, so that a client waits only for such clients.
const UNUSED_NS: Nanoseconds = 2 * LEASE_TURN_NS;

/// The end of a call that no attempt has decided.
pub(super) struct GivenUp {
    pub shard: u32,
    /// Whether the time was over. Otherwise, another attempt would have ended in the same way.
    pub is_late: bool,
    /// The error of the last attempt.
    pub error: StoreError,
}

impl ClusterClient {
    /// The deadline of a call that begins now.
    pub(super) fn deadline(&self) -> Nanoseconds {
        self.runtime.now().saturating_add(self.options.patience_ns)
    }

    /// Opens the first session, with any primary, before the `deadline`. A primary that has died is still in the map
    /// until an heir leads, so the map is read again.
    pub(super) async fn open_first(&self, deadline: Nanoseconds) -> Result<(), GivenUp> {
        loop {
            let map = self.maps.latest();
            let Err((shard, error)) = self.nodes.open(&map, deadline).await else {
                return Ok(());
            };
            let is_of_the_map = is_of_the_map(&error);
            if is_of_the_map {
                self.look_again(&map, deadline).await;
            }
            let is_late = self.is_late(deadline);
            if is_late || !is_of_the_map {
                return Err(GivenUp {
                    shard,
                    is_late,
                    error,
                });
            }
        }
    }

    /// Whether the time until the `deadline` is too short for another attempt.
    fn is_late(&self, deadline: Nanoseconds) -> bool {
        self.runtime.now().saturating_add(PAUSE_NS) >= deadline
    }

    /// Tries `once` at the primary of `shard` until an attempt is decided, or until the `deadline`.
    pub(super) async fn attempt<T>(
        &self,
        shard: u32,
        deadline: Nanoseconds,
        mut once: impl AsyncFnMut(Rc<Node>) -> Result<T, StoreError>,
    ) -> Result<T, GivenUp> {
        loop {
            let map = self.maps.latest();
            let work = async { once(self.nodes.session(&map, shard).await?).await };
            let error = match self.while_leading(&map, shard, deadline, work).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let is_late = self.is_late(deadline);
            if is_late || !is_of_the_map(&error) {
                return Err(GivenUp {
                    shard,
                    is_late,
                    error,
                });
            }
            self.look_again(&map, deadline).await;
        }
    }

    /// Waits for an attempt as long as the configuration names the primary and the term of `map`. A silent node may be
    /// alive, so no message tells the client that an heir leads. The client therefore reads the map after each part of
    /// its patience.
    ///
    /// A write may wait for room that other clients hold. If these clients waited for the room that this one holds at
    /// other nodes and does not use, all of them would stand still.
    async fn while_leading<T>(
        &self,
        map: &Map,
        shard: u32,
        deadline: Nanoseconds,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let part_ns = self
            .options
            .attempt_ns()
            .min(LEASES_PER_LOOK * map.lease_ns());
        let left = || deadline.saturating_sub(self.runtime.now());
        let mut work = pin!(work);
        let early_ns = part_ns.min(UNUSED_NS);
        let ended = self.runtime.within(early_ns.min(left()), work.as_mut());
        if let Ok(ended) = ended.await {
            return ended;
        }
        let mut wait_ns = part_ns - early_ns;
        loop {
            self.nodes
                .give_up_unused(map.place(shard).name, LEASE_TURN_NS);
            let ended = self.runtime.within(wait_ns.min(left()), work.as_mut());
            if let Ok(ended) = ended.await {
                return ended;
            }
            wait_ns = part_ns;
            let latest = self.maps.latest();
            let look = self.maps.renew(&latest);
            // If the configuration store does not answer, the node still leads as far as the client
            // knows.
            let _ = self.runtime.within(part_ns.min(left()), look).await;
            let is_led = self
                .maps
                .latest()
                .place(shard)
                .leads_like(&map.place(shard));
            if !is_led {
                self.nodes.leave(map.place(shard).name);
            }
            if !is_led || left() == 0 {
                return Err(StoreError::Disconnected { unknown: true });
            }
        }
    }

    /// Reads the configuration again. Without a later configuration, or without an answer, the next attempt waits for a
    /// moment.
    async fn look_again(&self, seen: &Rc<Map>, deadline: Nanoseconds) {
        let left = deadline.saturating_sub(self.runtime.now());
        let renewed = self.runtime.within(left, self.maps.renew(seen)).await;
        if !matches!(renewed, Ok(Ok(true))) {
            self.runtime.sleep(PAUSE_NS).await;
        }
    }
}

/// Returns whether `error` shows that the map is old, or soon will be.
fn is_of_the_map(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotPrimary { .. }
            // A node whose lease has ended does not know what becomes of the writes that it has stamped.
            | StoreError::NotPersisted
            | StoreError::ChunkFailed { .. }
            | StoreError::Disconnected { .. }
            | StoreError::Refused(_)
            | StoreError::Device(_)
    )
}
