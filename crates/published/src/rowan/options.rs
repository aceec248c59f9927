//! The parameters of a cluster.

use stonecast_base::Nanoseconds;

/// The way in which an entry reaches the backups: the difference between Rowan-KV and its rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replication {
    /// Rowan-KV: SENDs of all servers into the buffers of one log.
    Append,
    /// RPC-KV: a thread of the backup appends to its log.
    Rpc,
    /// RWrite-KV: WRITEs into a log for each remote thread.
    Write,
    /// Batch-KV: as RWrite-KV, with the entries of 5 microseconds or 256 bytes in one WRITE.
    Batch,
    /// Share-KV: WRITEs into one log, whose places FETCH_AND_ADD gives out.
    Share,
    /// A store like HermesKV: each server with a copy takes PUTs and GETs, and a PUT invalidates the other copies.
    Hermes,
    /// The same store without the messages behind a PUT: readers may have an entry as soon as a copy has it. No design
    /// is like that; it shows the cost of the messages.
    HermesUntold,
}

impl Replication {
    /// The ways of all designs, that of Rowan-KV first.
    pub const ALL: [Self; 6] = [
        Self::Append,
        Self::Rpc,
        Self::Write,
        Self::Batch,
        Self::Share,
        Self::Hermes,
    ];

    /// The name of the design.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "rowan-kv",
            Self::Rpc => "rpc-kv",
            Self::Write => "rwrite-kv",
            Self::Batch => "batch-kv",
            Self::Share => "share-kv",
            Self::Hermes => "hermes-like",
            Self::HermesUntold => "hermes-untold",
        }
    }

    /// Whether every copy of a shard takes requests.
    pub(crate) const fn is_symmetric(self) -> bool {
        matches!(self, Self::Hermes | Self::HermesUntold)
    }
}

/// The parameters of a cluster. All its servers and clients have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowanOptions {
    /// The way to the backups.
    pub replication: Replication,
    /// The addresses of seats begin with this.
    pub addresses: String,
    /// The number of servers.
    pub servers: u32,
    /// Shards of which each server is the primary.
    pub shards_each: u32,
    /// Copies of an entry, the primary's included.
    pub copies: u32,
    /// Worker threads of a server.
    pub workers: u32,
    /// Digest threads of a server.
    pub digesters: u32,
    /// Cleaning threads of a server; 0: nothing is cleaned.
    pub cleaners: u32,
    /// Bytes of a segment, and of a receive buffer.
    pub segment_size: u32,
    /// Segments of a server.
    pub segments: u32,
    /// Receive buffers that are posted at a time.
    pub append_buffers: u32,
    /// Bytes of a batch that is sent at once, and the longest wait of the first entry of a batch.
    pub batch: (u32, Nanoseconds),
    /// Keys for which the indexes have room.
    pub keys: u64,
}

impl RowanOptions {
    /// The evaluation of the paper: 6 servers, 48 shards each, 3 copies, and threads 24, 5, 6 and 1. Segments have the
    /// 64 KiB of the artefact's buffers; the paper's 4 MiB fill so rarely that a short run meets no digest.
    pub fn published(replication: Replication, addresses: &str) -> Self {
        Self {
            replication,
            addresses: addresses.to_owned(),
            servers: 6,
            shards_each: 48,
            copies: 3,
            workers: 24,
            digesters: 5,
            cleaners: 0,
            segment_size: 64 << 10,
            segments: 4096,
            append_buffers: 36,
            batch: (256, 5_000),
            keys: 1 << 16,
        }
    }

    /// The address at which a worker of a server listens.
    pub(crate) fn worker_address(&self, server: u32, worker: u32) -> String {
        format!("{}-{server}-{worker}", self.addresses)
    }

    /// The address at which the control thread of a server listens.
    pub(crate) fn control_address(&self, server: u32) -> String {
        format!("{}-{server}-control", self.addresses)
    }

    /// Bytes of persistent memory of a server.
    pub fn memory_size(&self) -> u64 {
        self.table_size() + u64::from(self.segments) * u64::from(self.segment_size)
    }

    /// Bytes before the first segment: a word for the state of each.
    pub(crate) fn table_size(&self) -> u64 {
        (u64::from(self.segments) * 8).next_multiple_of(self.segment_size.into())
    }
}
