//! The memory that a client may access apart from its leases: index and log for reads, and staging memory for the
//! writes of a copying client.

use std::rc::Rc;

use stonecast_fabric::{Access, Device, DeviceError, MemoryRegion, Port, QueuePair, Rkey};

use crate::server::shard::SharedTable;
use crate::wire::{Accesses, Answer, Verdict};

/// Opens index, log and staging memory to clients.
pub(in crate::server) struct Doors {
    port: Rc<Port>,
    log: MemoryRegion,
}

/// Windows of one client.
#[derive(Default)]
pub(in crate::server) struct Windows {
    /// Windows on indexes, by the number of the table.
    index: Vec<(u32, Rkey)>,
    log: Option<Rkey>,
    staging: Option<Rkey>,
}

impl Doors {
    /// Doors to the memory of the log, and to everything else that clients read.
    pub fn new(port: Rc<Port>, log: MemoryRegion) -> Self {
        Self { port, log }
    }

    /// Opens the present index of a shard, the log and staging memory to the client of `qp`. The current `table` has
    /// 2^`bits` buckets, and `version` is the latest version given.
    pub fn open(
        &self,
        qp: QueuePair,
        (windows, staging): (&mut Windows, Option<MemoryRegion>),
        table: &SharedTable,
        (bits, version): (u32, u64),
    ) -> Answer {
        let device = &**self.port.device();
        let opened = windows.open(device, qp, table, self.log, staging);
        let Ok([index_rkey, log_rkey, staging_rkey]) = opened else {
            // The device has no window left. Other clients may give windows back.
            return Verdict::Busy.into();
        };
        Answer::Access(Accesses {
            table: table.number,
            index_bits: bits,
            index_address: table.region.address,
            log_address: self.log.address,
            staging_address: staging.map_or(0, |region| region.address),
            index_rkey: index_rkey.0,
            log_rkey: log_rkey.0,
            staging_rkey: staging_rkey.0,
            version,
        })
    }
}

impl Windows {
    /// Whether the client may read index `table`.
    pub fn reads_index(&self, table: u32) -> bool {
        self.index.iter().any(|&(number, _)| number == table)
    }

    /// All windows for the client's reads.
    pub fn into_read_windows(self) -> Vec<Rkey> {
        let index = self.index.into_iter().map(|(_, rkey)| rkey);
        index.chain(self.log).collect()
    }

    /// Notes that the client has left index `table`. Returns the window to close.
    pub fn leave_index(&mut self, table: u32) -> Option<Rkey> {
        let left = self.index.iter().position(|&(number, _)| number == table)?;
        Some(self.index.swap_remove(left).1)
    }

    /// Opens to the client of `qp` the memory that is not open yet. Returns the keys of index, log and
    /// staging memory.
    fn open(
        &mut self,
        device: &dyn Device,
        qp: QueuePair,
        table: &SharedTable,
        log: MemoryRegion,
        staging: Option<MemoryRegion>,
    ) -> Result<[Rkey; 3], DeviceError> {
        let window =
            |region: MemoryRegion, access| device.bind_window(qp, region, 0, region.size, access);
        let known = self
            .index
            .iter()
            .find(|(number, _)| *number == table.number);
        let index_rkey = match known {
            Some(&(_, rkey)) => rkey,
            None => {
                let rkey = window(table.region, Access::REMOTE_READ)?;
                self.index.push((table.number, rkey));
                rkey
            }
        };
        let log_rkey = match self.log {
            Some(rkey) => rkey,
            None => *self.log.insert(window(log, Access::REMOTE_READ)?),
        };
        let staging_rkey = match (self.staging, staging) {
            (None, Some(region)) => *self.staging.insert(window(region, Access::REMOTE_WRITE)?),
            (known, _) => known.unwrap_or(Rkey(0)),
        };
        Ok([index_rkey, log_rkey, staging_rkey])
    }
}
