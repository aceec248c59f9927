//! Writes a backup, block by block.

use std::io::{self, Write};

use stonecast_kv::{Entry, Expiry};
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::little_endian::{U32, U64};

use super::format::{
    BLOCK_FULL, BLOCK_HEADER_SIZE, END, FILE_HEADER_SIZE, FileEnd, FileHeader, Identity, RECORDS,
    RETAINED, RecordStart, checksum,
};

/// Writes a backup. First come all retained versions, and then all records, both in ascending order.
pub(super) struct FileWriter<W> {
    output: W,
    of_file: u64,
    offset: u64,
    kind: u32,
    /// The header of the block, without its facts, and the content so far.
    block: Vec<u8>,
    /// The retained version before.
    last: u64,
    retained: u64,
    records: u64,
}

impl<W: Write> FileWriter<W> {
    pub fn new(mut output: W, identity: &Identity) -> io::Result<Self> {
        let header = FileHeader::of(identity);
        output.write_all(header.as_bytes())?;
        Ok(Self {
            output,
            of_file: header.checksum.get(),
            offset: FILE_HEADER_SIZE as u64,
            kind: RETAINED,
            block: vec![0; BLOCK_HEADER_SIZE],
            last: 0,
            retained: 0,
            records: 0,
        })
    }

    /// Adds a version that the base has.
    pub fn retain(&mut self, version: u64) -> io::Result<()> {
        let mut rest = version - std::mem::replace(&mut self.last, version);
        while rest >= 0x80 {
            self.block.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.block.push(rest as u8);
        self.retained += 1;
        self.end_full_block()
    }

    /// Adds a record.
    pub fn record(&mut self, entry: &Entry) -> io::Result<()> {
        if self.kind != RECORDS {
            self.end_block()?;
            self.kind = RECORDS;
        }
        let start = RecordStart {
            version: U64::new(entry.version),
            expires_ms: U64::new(entry.expires.map_or(0, Expiry::ms)),
            key_size: U32::new(entry.key.len() as u32),
            value_size: U32::new(entry.value.len() as u32),
        };
        self.block.extend_from_slice(start.as_bytes());
        self.block.extend_from_slice(&entry.key);
        self.block.extend_from_slice(&entry.value);
        self.records += 1;
        self.end_full_block()
    }

    /// Ends the backup. Nothing is synced. Returns the output, and the number of bytes.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.end_block()?;
        self.kind = END;
        let end = FileEnd {
            retained: U64::new(self.retained),
            records: U64::new(self.records),
        };
        self.block.extend_from_slice(end.as_bytes());
        self.end_block()?;
        self.output.flush()?;
        Ok((self.output, self.offset))
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn end_full_block(&mut self) -> io::Result<()> {
        match self.block.len() >= BLOCK_HEADER_SIZE + BLOCK_FULL {
            true => self.end_block(),
            false => Ok(()),
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.len() > BLOCK_HEADER_SIZE {
            let size = (self.block.len() - BLOCK_HEADER_SIZE) as u32;
            self.block[8..12].copy_from_slice(&self.kind.to_le_bytes());
            self.block[12..16].copy_from_slice(&size.to_le_bytes());
            let sum = checksum(self.of_file, self.offset, &self.block[8..]);
            self.block[..8].copy_from_slice(&sum.to_le_bytes());
            self.output.write_all(&self.block)?;
            self.offset += self.block.len() as u64;
        }
        self.block.truncate(BLOCK_HEADER_SIZE);
        Ok(())
    }
}
