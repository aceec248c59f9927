//! A server's side of a new connection.

use stonecast_fabric::{Access, ConnectionRequest, DeviceError, MemoryRegion, Port, QueuePair};

use crate::Queues;
use crate::endpoint::{close, free};

/// Makes the objects that one peer needs.
pub struct Making<'a> {
    port: &'a Port,
    qp: Option<QueuePair>,
    regions: Vec<MemoryRegion>,
}

impl Making<'_> {
    /// Memory of this side alone, `size` bytes.
    pub fn allocate(&mut self, size: u64) -> Result<MemoryRegion, DeviceError> {
        let region = self.port.device().allocate(size, Access::NONE)?;
        self.regions.push(region);
        Ok(region)
    }

    /// The queue pair, once.
    pub fn queue_pair(&mut self, queues: Queues) -> Result<QueuePair, DeviceError> {
        assert!(self.qp.is_none(), "a connection has one queue pair");
        let qp = queues.create(self.port)?;
        self.qp = Some(qp);
        Ok(qp)
    }
}

/// Accepts a peer with the objects that `make` makes: a queue pair, memory, and the private data to send. Returns the
/// queue pair and the other result of `make`.
///
/// After an error nothing of the connection is left, and the peer has been told the reason: a peer without an answer
/// would wait.
pub fn accept<T>(
    port: &Port,
    request: ConnectionRequest,
    make: impl FnOnce(&mut Making<'_>) -> Result<(Vec<u8>, T), DeviceError>,
) -> Result<(QueuePair, T), DeviceError> {
    let mut making = Making {
        port,
        qp: None,
        regions: Vec::new(),
    };
    let accepted = make(&mut making).and_then(|(welcome, made)| {
        let qp = making.qp.expect("`make` has made a queue pair");
        port.device().accept(request, qp, &welcome)?;
        Ok((qp, made))
    });
    if let Err(error) = &accepted {
        let reason = format!("the server cannot take another client: {error}");
        let _ = port.device().reject(request, &reason);
        match making.qp {
            Some(qp) => close(port, qp, making.regions),
            None => free(port, making.regions),
        }
    }
    accepted
}
