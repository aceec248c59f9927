//! Nodes that lead shards, and the entries that they write.

use std::rc::Rc;

use stonecast_backup::{BackupLink, LinkEnded, LinkOptions, NotLinked, NotSent, StreamName};
use stonecast_cluster::{Epoch, NodeName};
use stonecast_fabric::{Port, Runtime};
use stonecast_fabric_sim::{Machine, Process, World};
use stonecast_replication::{AppendKey, Entry, HEADER_SIZE, Kind, Lineage, Point};

use super::{ADDRESS, COMPLETIONS, KEY, NONCE, Setup, hello};

pub fn name(node: &str) -> NodeName {
    node.parse().unwrap()
}

/// A node that may lead shards.
pub struct Primary {
    pub world: Rc<World>,
    pub machine: Machine,
    pub process: Process,
    pub port: Rc<Port>,
    pub runtime: Rc<dyn Runtime>,
    pub options: LinkOptions,
}

impl Primary {
    pub fn start(world: &Rc<World>, setup: &Setup, node: &str) -> Self {
        let machine = world.machine(setup.machine());
        let process = world.process(machine);
        let (port, runtime) = (process.port(COMPLETIONS).unwrap(), process.runtime());
        Self {
            world: world.clone(),
            machine,
            process,
            port,
            runtime,
            options: LinkOptions {
                hello: hello(node),
                durability: setup.durability,
                entries_max: 128,
                staging_size: 64 * 1024,
                patience_ns: 20_000_000,
                rnr_retry_count: 4,
                rnr_retry_delay_ns: 10_000,
            },
        }
    }

    pub fn try_link(&self) -> Result<BackupLink, NotLinked> {
        let connect = BackupLink::connect(&self.port, &self.runtime, ADDRESS, &self.options);
        self.world.block_on(connect)
    }

    pub fn link(&self) -> BackupLink {
        self.try_link().expect("the backup takes it")
    }

    /// Waits for the credits for `size` bytes, as long as a sound backup may take.
    pub fn credited(&self, link: &mut BackupLink, size: u32) {
        let credited = link.credited(&self.runtime, size, 5_000_000);
        self.world
            .block_on(credited)
            .expect("a link that waits gets credit");
    }

    /// Appends one entry and sends it, once there are credits for it.
    pub fn write(&self, link: &mut BackupLink, writer: &mut Writer, body_size: usize) {
        self.credited(link, (HEADER_SIZE + body_size) as u32);
        writer.append(link, body_size).unwrap();
        link.flush().unwrap();
    }

    /// Waits for the report of the last entry of `writer`.
    pub fn hear_last(&self, link: &mut BackupLink, writer: &Writer) {
        while self.reported(link) != Ok(writer.last) {}
    }

    /// The version of the next report.
    pub fn reported(&self, link: &mut BackupLink) -> Result<u64, LinkEnded> {
        self.world
            .block_on(link.report())
            .map(|report| report.version)
    }

    /// Lets time pass.
    pub fn sleep(&self, duration_ns: u64) {
        self.world
            .block_on(self.world.observer().sleep(duration_ns));
    }
}

/// The history of a shard in term 1, in which everything up to `version` is settled.
pub fn settled(version: u64) -> Lineage {
    let term = Epoch(1);
    Lineage {
        term,
        floor: Point { term, version },
        ..Lineage::new(NONCE)
    }
}

/// Makes the entries of a shard's primary in one term.
#[derive(Clone, Debug)]
pub struct Writer {
    pub stream: StreamName,
    pub last: u64,
}

impl Writer {
    pub fn of(shard: u32) -> Self {
        let stream = StreamName {
            shard,
            term: Epoch(1),
            join: 0,
        };
        Self { stream, last: 0 }
    }

    /// Appends the next entry, with a body that tells its version.
    pub fn append(&mut self, link: &mut BackupLink, body_size: usize) -> Result<(), NotSent> {
        let entry = self.entry(self.last + 1, self.last);
        link.append(self.stream.join, &entry, &body_of(entry.version, body_size))?;
        self.last = entry.version;
        Ok(())
    }

    pub fn entry(&self, version: u64, previous: u64) -> Entry {
        Entry {
            shard: self.stream.shard,
            term: self.stream.term,
            version,
            previous,
            horizon: 0,
            kind: Kind::Record,
        }
    }
}

/// The bytes of an entry, as a link makes them.
pub fn bytes_of(entry: &Entry, body_size: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    bytes.extend(body_of(entry.version, body_size));
    entry.write_header(&AppendKey::new(KEY, NONCE), &mut bytes);
    bytes
}

fn body_of(version: u64, size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| (version as usize * 31 + at) as u8)
        .collect()
}
