//! Reads a backup, block by block. No byte is used before the checksum of its block was compared.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use stonecast_base::Corruption;
use stonecast_kv::Expiry;
use zerocopy::FromBytes as _;

use super::BackupError;
use super::format::{
    BLOCK_HEADER_SIZE, BLOCK_MAX, BlockHeader, END, FILE_HEADER_SIZE, FORMAT, FileEnd, FileHeader,
    Identity, MAGIC, RETAINED, RecordStart, checksum,
};
use crate::entry::Record;

/// The identity of the backup in `file`. Its content is not read.
///
/// # Errors
/// [`BackupError::Read`], [`BackupError::Format`], and [`BackupError::Corrupt`] for a file that is not a backup.
pub fn identity_of(file: &Path) -> Result<Identity, BackupError> {
    Ok(FileReader::open(file)?.identity)
}

/// A part of a backup.
pub(super) enum FilePart {
    Retained(u64),
    Record(Record),
}

/// Reads a backup from its begin to its end.
pub(super) struct FileReader {
    path: PathBuf,
    input: BufReader<File>,
    pub identity: Identity,
    of_file: u64,
    /// The current block: its offset, its kind, its content, and the place in the content.
    offset: u64,
    kind: u32,
    block: Vec<u8>,
    at: usize,
    /// The last version, and the counts so far.
    last: u64,
    retained: u64,
    records: u64,
}

impl FileReader {
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let read = |source| BackupError::Read {
            file: path.to_owned(),
            source,
        };
        let mut input = BufReader::with_capacity(1 << 20, File::open(path).map_err(read)?);
        let mut bytes = Vec::new();
        let start = Read::by_ref(&mut input).take(FILE_HEADER_SIZE as u64);
        { start }.read_to_end(&mut bytes).map_err(read)?;
        let corrupt = |found: String, expected: &str| Corruption {
            what: "backup header".into(),
            file: path.display().to_string().into(),
            offset: 0,
            found,
            expected: expected.to_owned(),
        };
        let Ok(header) = FileHeader::read_from_bytes(&bytes) else {
            let found = format!("a file of {} bytes", bytes.len());
            return Err(corrupt(found, "the header of a backup").into());
        };
        if header.magic != MAGIC {
            let found = format!("{:02x?}", header.magic);
            return Err(corrupt(found, "the magic bytes of a backup").into());
        }
        if header.format.get() != FORMAT {
            return Err(BackupError::Format {
                file: path.to_owned(),
                found: header.format.get(),
                known: FORMAT,
            });
        }
        let (found, expected) = (header.checksum.get(), header.computed());
        if found != expected {
            let found = format!("checksum {found:#018x}");
            return Err(corrupt(found, &format!("{expected:#018x}")).into());
        }
        Ok(Self {
            path: path.to_owned(),
            input,
            identity: header.identity(),
            of_file: header.checksum.get(),
            offset: FILE_HEADER_SIZE as u64,
            kind: RETAINED,
            block: Vec::new(),
            at: 0,
            last: 0,
            retained: 0,
            records: 0,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next part; `None` at the end. The file has no byte after the end.
    pub fn next(&mut self) -> Result<Option<FilePart>, BackupError> {
        while self.at == self.block.len() {
            if !self.next_block()? {
                return Ok(None);
            }
        }
        match self.kind {
            RETAINED => self.next_retained().map(|it| Some(FilePart::Retained(it))),
            _ => self.next_record().map(|it| Some(FilePart::Record(it))),
        }
    }

    /// Takes the next block. Returns false at the end.
    fn next_block(&mut self) -> Result<bool, BackupError> {
        let ended = self.kind == END;
        if !self.block.is_empty() {
            self.offset += (BLOCK_HEADER_SIZE + self.block.len()) as u64;
        }
        self.at = 0;
        let mut head = [0; BLOCK_HEADER_SIZE];
        let found = self.read_up_to(&mut head)?;
        if ended {
            self.block.clear();
            return match found {
                0 => Ok(false),
                _ => Err(self.corrupt("backup block", "more bytes", "the end of the file")),
            };
        }
        if found < BLOCK_HEADER_SIZE {
            let found = format!("the end of the file after {found} bytes");
            return Err(self.corrupt(
                "backup block",
                &found,
                "a block, up to the block that ends the backup",
            ));
        }
        let header = BlockHeader::read_from_bytes(&head).expect("the sizes are equal");
        let (kind, size) = (header.kind.get(), header.size.get() as usize);
        if !(1..=BLOCK_MAX).contains(&size) {
            let found = format!("a block of {size} bytes");
            let expected = format!("1 to {BLOCK_MAX}");
            return Err(self.corrupt("backup block", &found, &expected));
        }
        // The checksum covers these bytes of the header, followed by the content.
        let mut covered = vec![0; 8 + size];
        covered[..8].copy_from_slice(&head[8..]);
        let found = self.read_up_to(&mut covered[8..])?;
        if found < size {
            let found = format!("the end of the file after {found} bytes of its content");
            return Err(self.corrupt("backup block", &found, &format!("{size} bytes")));
        }
        let computed = checksum(self.of_file, self.offset, &covered);
        if computed != header.checksum.get() {
            let found = format!("checksum {:#018x}", header.checksum.get());
            return Err(self.corrupt("backup block", &found, &format!("{computed:#018x}")));
        }
        if kind < self.kind || kind > END {
            let found = format!("a block of kind {kind}");
            let expected = format!("a kind from {} to {END}", self.kind);
            return Err(self.corrupt("backup block", &found, &expected));
        }
        if kind != self.kind {
            self.last = self.identity.base;
        }
        self.kind = kind;
        covered.drain(..8);
        self.block = covered;
        if kind == END {
            self.check_end()?;
            self.at = self.block.len();
            return self.next_block();
        }
        Ok(true)
    }

    /// Compares the numbers of the last block with those of the records that were read.
    fn check_end(&self) -> Result<(), BackupError> {
        let Ok(end) = FileEnd::read_from_bytes(&self.block) else {
            let found = format!("{} bytes", self.block.len());
            return Err(self.corrupt("end of a backup", &found, "two numbers"));
        };
        let found = (end.retained.get(), end.records.get());
        let read = (self.retained, self.records);
        if found != read || read.0 + read.1 != self.identity.keys {
            let found = format!("{} retained and {} records", found.0, found.1);
            let expected = format!(
                "{} and {}, {} keys in all",
                read.0, read.1, self.identity.keys
            );
            return Err(self.corrupt("end of a backup", &found, &expected));
        }
        Ok(())
    }

    fn next_retained(&mut self) -> Result<u64, BackupError> {
        let (mut difference, mut shift) = (0_u64, 0);
        loop {
            let byte = self.block.get(self.at).copied();
            let Some(byte) = byte.filter(|_| shift < 63) else {
                return Err(self.corrupt("retained version", "no end of a number", "LEB128"));
            };
            self.at += 1;
            difference |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let version = self.last.checked_add(difference);
        let version = version.filter(|&it| it > self.last && it <= self.identity.base);
        let Some(version) = version else {
            let found = format!("{difference} after version {}", self.last);
            let expected = format!("ascending versions up to {}", self.identity.base);
            return Err(self.corrupt("retained version", &found, &expected));
        };
        self.last = version;
        self.retained += 1;
        Ok(version)
    }

    fn next_record(&mut self) -> Result<Record, BackupError> {
        let rest = &self.block[self.at..];
        let taken = RecordStart::read_from_prefix(rest)
            .ok()
            .and_then(|(start, rest)| {
                let (key, rest) = rest.split_at_checked(start.key_size.get() as usize)?;
                let (value, rest) = rest.split_at_checked(start.value_size.get() as usize)?;
                Some((start, key, value, rest.len()))
            });
        let Some((start, key, value, left)) = taken else {
            return Err(self.corrupt("backup record", "a part of a record", "a whole record"));
        };
        let record = Record {
            key: key.to_vec(),
            value: value.to_vec(),
            version: start.version.get(),
            expires: Expiry::at_ms(start.expires_ms.get()),
        };
        if record.version <= self.last || record.version > self.identity.version {
            let found = format!("version {} after {}", record.version, self.last);
            let expected = format!("ascending versions up to {}", self.identity.version);
            return Err(self.corrupt("backup record", &found, &expected));
        }
        self.at = self.block.len() - left;
        self.last = record.version;
        self.records += 1;
        Ok(record)
    }

    /// Reads until `into` is full, or the file ends. Returns the number of bytes.
    fn read_up_to(&mut self, into: &mut [u8]) -> Result<usize, BackupError> {
        let mut read = 0;
        while read < into.len() {
            match self.input.read(&mut into[read..]) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(BackupError::Read {
                        file: self.path.clone(),
                        source,
                    });
                }
            }
        }
        Ok(read)
    }

    fn corrupt(&self, what: &'static str, found: &str, expected: &str) -> BackupError {
        Corruption {
            what: Cow::Borrowed(what),
            file: self.path.display().to_string().into(),
            offset: self.offset,
            found: found.to_owned(),
            expected: expected.to_owned(),
        }
        .into()
    }
}
