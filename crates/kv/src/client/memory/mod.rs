//! The server's memory as one client sees it: the addresses of indexes and log, and READs.
//!
//! A READ is executed in one of three ways ([`Execution`]): *in the call*, by the provider; *soon*, posted and waited
//! for in the call ([`soon`]); or *posted*, with a future that waits ([`read_room`], [`scratch`]).

mod era;
mod indexes;
mod read_room;
mod scratch;
mod soon;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt as _};
use stonecast_base::{Corruption, LINE_SIZE};
use stonecast_fabric::{DeviceError, ReadInto, RemoteAddress, Rkey, Status};
use stonecast_lineage::Term;

use super::connection::Connection;
use super::fair_lock::FairLock;
use crate::error::StoreError;
use crate::index::{LookUp, LookUpStep, Wanted, first_read_size};
use crate::wire::{Accesses, Word};

use era::Era;
use indexes::Indexes;
pub(super) use indexes::OpenIndex;
use read_room::{POSTED_READS_MAX, ReadRoom};
use scratch::Scratch;

pub(super) use scratch::{Lent, SCRATCH_SIZE};
use soon::SoonReads;

/// The most READs of one batch that are posted together, so that other batches have room too.
const POSTED_TOGETHER_MAX: usize = POSTED_READS_MAX as usize / 4;

/// Parts of one long record that are read together. With four chunks of a value at a time, they take a megabyte of
/// scratch memory.
const PARTS_TOGETHER: usize = 4;

/// The execution of a client's READs while the client waits for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Execution {
    /// The provider executes READs in the call.
    InCall,
    /// READs are posted, and the client waits for them in the call.
    Soon,
    /// READs are posted, and a future waits for them.
    Posted,
}

pub(super) struct ServerMemory {
    pub connection: Rc<Connection>,
    pub execution: Execution,
    /// The first access that the server gave: log and staging memory stay where they are.
    first: Accesses,
    indexes: Indexes,
    /// Held by the one task that asks for an index.
    asking: FairLock,
    /// Every posted READ holds a clone, so that the end of the last READ of an earlier index is known.
    era: RefCell<Rc<Era>>,
    /// Memory for READs that the provider cannot execute in the call.
    scratch: Scratch,
    /// Room for posted READs in the send queue.
    read_room: ReadRoom,
    soon: SoonReads,
}

impl ServerMemory {
    /// The memory that the server opens to the client of `connection`, a new connection. The server leads the shard
    /// `first` in `term`.
    pub async fn open(
        connection: Rc<Connection>,
        (first_shard, term): (u32, Term),
    ) -> Result<Self, StoreError> {
        let execution = match connection.port.device().capabilities() {
            can if can.read_now => Execution::InCall,
            can if can.read_soon => Execution::Soon,
            _ => Execution::Posted,
        };
        let shards = connection.welcome.keys().shards;
        if first_shard >= shards {
            return Err(StoreError::Invalid);
        }
        let first = connection.ask_access(first_shard, term).await?;
        let memory = Self {
            connection,
            execution,
            first,
            indexes: Indexes::new(shards),
            asking: FairLock::default(),
            era: RefCell::default(),
            scratch: Scratch::default(),
            read_room: ReadRoom::default(),
            soon: SoonReads::default(),
        };
        memory.indexes.note(first_shard, &first);
        Ok(memory)
    }

    /// The addresses of log and staging memory, as given by the server.
    pub fn access(&self) -> &Accesses {
        &self.first
    }

    /// The remote address of a byte of the log.
    #[inline(always)]
    pub fn log_address(&self, position: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.first.log_address + position,
            rkey: Rkey(self.first.log_rkey),
        }
    }

    /// Bytes to read first of the record behind `word`; 0 if the word points outside the log.
    pub fn first_read_size(&self, word: Word) -> usize {
        first_read_size(&self.connection.format, word)
    }

    /// The error for the bytes `found` in place of the record behind `word`.
    pub fn damage(&self, word: Word, found: String) -> StoreError {
        StoreError::from(Corruption {
            what: "record".into(),
            file: "log".into(),
            offset: word.position(),
            found,
            expected: "a record that carries the tag of its place".to_owned(),
        })
    }

    /// Reads the bytes that `look_up` asks for, until the look-up in `index` ends. `record` then holds the record that
    /// was found.
    pub async fn drive<W: Wanted>(
        &self,
        index: &OpenIndex,
        look_up: &mut LookUp<W>,
        mut step: LookUpStep<W::Found>,
        record: &mut Vec<u8>,
    ) -> Result<LookUpStep<W::Found>, StoreError> {
        let mut line = [0; LINE_SIZE];
        loop {
            step = match step {
                LookUpStep::Bucket(bucket) => {
                    // The index may have changed during the previous READ, or during this one.
                    if !self.reads(index) {
                        return Ok(LookUpStep::Moved);
                    }
                    let (remote, into) = (index.address(bucket), &mut line);
                    self.read(&mut [ReadInto { remote, into }]).await?;
                    if !self.reads(index) {
                        return Ok(LookUpStep::Moved);
                    }
                    look_up.bucket(&line)
                }
                LookUpStep::Record { position, size } => {
                    record.resize(size, 0);
                    self.read_long(position, record).await?;
                    look_up.record(record)
                }
                LookUpStep::Rest { position, size } => {
                    let read = record.len();
                    record.resize(size, 0);
                    let rest = &mut record[read..];
                    self.read_long(position + read as u64, rest).await?;
                    look_up.record(record)
                }
                end => return Ok(end),
            };
        }
    }

    /// Reads a long piece of the log, in parts of which some are in flight together.
    pub async fn read_long(&self, position: u64, into: &mut [u8]) -> Result<(), StoreError> {
        if (1..=SCRATCH_SIZE).contains(&(into.len() as u64)) {
            let remote = self.log_address(position);
            return self.read(&mut [ReadInto { remote, into }]).await;
        }
        let positions = (position..).step_by(SCRATCH_SIZE as usize);
        let parts = positions.zip(into.chunks_mut(SCRATCH_SIZE as usize));
        let reads = parts.map(|(position, part)| self.read_part(self.log_address(position), part));
        let mut reads = pin!(stream::iter(reads).buffered(PARTS_TOGETHER));
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok(())
    }

    async fn read_part(&self, remote: RemoteAddress, into: &mut [u8]) -> Result<(), StoreError> {
        self.read(&mut [ReadInto { remote, into }]).await
    }

    /// Executes READs in the call, if the provider can at the moment.
    #[inline(always)]
    pub fn read_in_call(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        let size = reads.iter().map(|read| read.into.len()).sum();
        let connection = &*self.connection;
        let status = connection.port.device().read_now(connection.qp, reads)?;
        connection.meter.note_reads(size);
        (status == Status::Success).then_some(())
    }

    /// Executes READs with one doorbell, in the way that the provider offers. Each READ is at most `SCRATCH_SIZE` long.
    #[inline]
    pub async fn read(&self, reads: &mut [ReadInto<'_>]) -> Result<(), StoreError> {
        let connection = &*self.connection;
        connection
            .meter
            .note_reads(reads.iter().map(|read| read.into.len()).sum());
        let status = match connection.port.device().read_now(connection.qp, reads) {
            Some(status) => {
                connection.port.take_turn().await;
                status
            }
            None => self.read_posted(reads).await?,
        };
        if status == Status::Success {
            return Ok(());
        }
        connection.end();
        Err(StoreError::Disconnected { unknown: false })
    }

    /// A piece of memory from which changes are posted, held until their batch has ended.
    pub fn lend(&self) -> Result<Rc<Lent>, DeviceError> {
        let era = Rc::clone(&self.era.borrow());
        self.scratch.lend(&self.connection.resources, era)
    }

    async fn read_posted(&self, reads: &mut [ReadInto<'_>]) -> Result<Status, StoreError> {
        let connection = &*self.connection;
        let era = Rc::clone(&self.era.borrow());
        let mut start = 0;
        while start < reads.len() {
            let mut size = 0;
            let mut fits = |read: &ReadInto<'_>| {
                size += (read.into.len() as u64).next_multiple_of(8);
                size <= SCRATCH_SIZE
            };
            let count = reads[start..]
                .iter()
                .take(POSTED_TOGETHER_MAX)
                .take_while(|read| fits(read))
                .count();
            assert!(count > 0, "each READ fits the scratch memory");
            let lent = self.scratch.lend(&connection.resources, era.clone())?;
            let posted = self.read_room.take(&connection.runtime, count).await;
            let reads = &mut reads[start..start + count];
            let status = connection
                .port
                .read(connection.qp, reads, lent.span(), Some(lent.clone()))
                .await;
            self.read_room.completed(posted);
            self.soon.note_completed(&self.read_room);
            let status = status?;
            if status != Status::Success {
                return Ok(status);
            }
            start += count;
        }
        Ok(Status::Success)
    }
}
