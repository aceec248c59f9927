//! Receive buffers by number.

use stonecast_fabric::{
    Device, DeviceError, LocalSpan, MemoryRegion, ReceiveQueue, ReceiveRequest, Received,
};

/// Receive buffers of one size that lie one after the other in a region. The `wr_id` of an arrival is the number of its
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffers {
    /// The region of the buffers.
    pub region: MemoryRegion,
    /// Offset of the first buffer in the region, in bytes.
    pub start: u64,
    /// Bytes of each buffer.
    pub size: u32,
}

impl ReceiveBuffers {
    /// Buffers of `size` bytes from the start of `region`.
    pub fn new(region: MemoryRegion, size: u32) -> Self {
        Self {
            region,
            start: 0,
            size,
        }
    }

    /// Buffer `number`, to be posted.
    pub fn request(&self, number: u64) -> ReceiveRequest {
        ReceiveRequest {
            wr_id: number,
            local: LocalSpan {
                region: self.region,
                offset: self.start + number * u64::from(self.size),
                size: self.size,
            },
        }
    }

    /// Posts the first `count` buffers with one doorbell.
    pub fn post_all(
        &self,
        device: &dyn Device,
        queue: ReceiveQueue,
        count: u32,
    ) -> Result<(), DeviceError> {
        let all: Vec<ReceiveRequest> = (0..count.into())
            .map(|number| self.request(number))
            .collect();
        device.post_receive(queue, &all)
    }

    /// Posts buffer `number`.
    pub fn post(
        &self,
        device: &dyn Device,
        queue: ReceiveQueue,
        number: u64,
    ) -> Result<(), DeviceError> {
        device.post_receive(queue, &[self.request(number)])
    }

    /// Copies an arrival out of its buffer, and posts the buffer again.
    pub fn take(
        &self,
        device: &dyn Device,
        queue: ReceiveQueue,
        arrival: &Received,
    ) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::new();
        self.copy_out(device, arrival, &mut bytes);
        self.post(device, queue, arrival.wr_id)?;
        Ok(bytes)
    }

    /// Copies an arrival out of its buffer before the data are examined: the sender of a message in memory that a peer
    /// can reach may still change it.
    pub fn copy_out(&self, device: &dyn Device, arrival: &Received, into: &mut Vec<u8>) {
        let local = self.request(arrival.wr_id).local;
        into.resize(arrival.placement.size.min(local.size) as usize, 0);
        device.memory(self.region).read(local.offset, into);
    }
}
