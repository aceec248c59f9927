//! A memory node, which opens its memory to clients, and does nothing else.

use std::rc::Rc;

use stonecast_fabric::{Access, Port, Runtime};
use stonecast_media::PersistentRegion;

use super::CloverOptions;
use crate::PublishedError;
use crate::rowan::serving::Serving;

/// A memory node.
pub struct CloverNode;

impl CloverNode {
    /// Opens `memory` to clients that connect through `port`, and accepts them on `runtime`.
    ///
    /// # Errors
    ///
    /// A device refused an object.
    pub fn open(
        options: &CloverOptions,
        node: u32,
        memory: Rc<dyn PersistentRegion>,
        port: Rc<Port>,
        runtime: &dyn Runtime,
    ) -> Result<(), PublishedError> {
        let access = Access::REMOTE_READ
            .and(Access::REMOTE_WRITE)
            .and(Access::REMOTE_ATOMIC);
        let region = port.device().register_persistent(memory, access)?;
        let welcome = [region.address, region.rkey.0.into()].map(u64::to_le_bytes);
        let serving = Serving::open(port, &options.node_address(node))?;
        runtime.spawn(Box::pin(async move {
            loop {
                serving.port().activity().await;
                serving.take_events(|_| Ok((welcome.concat(), None)));
                // A node answers no requests.
                while serving.take_request().is_some() {}
            }
        }));
        Ok(())
    }
}
