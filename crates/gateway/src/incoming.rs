//! Computes the memory that rustls may hold for bytes that have arrived and are not yet consumed, which rustls does not
//! report.
//!
//! ```text
//!   socket --READ_SIZE at a time--> records, incomplete ones included --deciphered--> plaintext --> input
//!                                   `------------ silent -----------'                `- plaintext -'
//! ```
//!
//! Invariant: `size` is at least the memory that rustls holds. Messages of a handshake may be joined from many records,
//! so bytes that have brought no plaintext count as held until plaintext comes.

use std::io::{self, Read};

/// The bytes that one call reads: as many as rustls makes room for.
pub const READ_SIZE: usize = 4 << 10;
/// The most bytes that rustls holds of messages that it cannot decipher yet.
const SILENT_MAX: usize = 64 << 10;
/// Bytes of the longest record of TLS.
const RECORD_SIZE_MAX: usize = (18 << 10) + HEADER_SIZE;
/// The most bytes that rustls holds.
pub const INCOMING_SIZE_MAX: usize = SILENT_MAX + READ_SIZE + RECORD_SIZE_MAX;
/// The bytes of a record's header; the last two are the record's length.
const HEADER_SIZE: usize = 5;

/// The memory that rustls may hold for bytes that have arrived and are not yet consumed.
#[derive(Debug, Default)]
pub struct Incoming {
    header: [u8; HEADER_SIZE],
    header_len: usize,
    /// Bytes that the record under way still lacks.
    missing: usize,
    /// Bytes of the record under way that have arrived, header included.
    record: usize,
    /// Bytes since plaintext last came.
    silent: usize,
    plaintext: usize,
}

/// A reader that notes in `incoming` the bytes that it reads.
pub struct Noted<'a, R> {
    pub reader: R,
    pub incoming: &'a mut Incoming,
}

impl Incoming {
    /// The bytes that are held at the moment.
    pub fn size(&self) -> usize {
        match self.silent {
            0 => self.plaintext,
            silent => silent.min(SILENT_MAX) + READ_SIZE + self.plaintext,
        }
    }

    /// The bytes that may be held after the next call, before any plaintext is taken.
    pub fn size_after_read(&self) -> usize {
        let wire = self.silent.min(SILENT_MAX) + READ_SIZE;
        let is_known = self.header_len == HEADER_SIZE;
        wire + self.plaintext
            + match is_known {
                // Records may begin and end within the bytes that are read.
                false => READ_SIZE,
                true if self.missing <= READ_SIZE => self.record + READ_SIZE,
                true => 0,
            }
    }

    /// Notes the size of the plaintext that waits to be taken.
    pub fn note_plaintext(&mut self, size: usize) {
        if size > self.plaintext {
            self.silent = self.record;
        }
        self.plaintext = size;
    }

    /// Notes that `size` bytes of plaintext were taken.
    pub fn note_taken(&mut self, size: usize) {
        self.plaintext -= size;
    }

    fn note(&mut self, mut bytes: &[u8]) {
        self.silent += bytes.len();
        while let Some(&first) = bytes.first() {
            if self.header_len < HEADER_SIZE {
                self.header[self.header_len] = first;
                self.header_len += 1;
                self.record += 1;
                self.missing = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                bytes = &bytes[1..];
            } else {
                let size = self.missing.min(bytes.len());
                self.missing -= size;
                self.record += size;
                bytes = &bytes[size..];
            }
            if self.header_len == HEADER_SIZE && self.missing == 0 {
                (self.header_len, self.record) = (0, 0);
            }
        }
    }
}

impl<R: Read> Read for Noted<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = room.len().min(READ_SIZE);
        let size = self.reader.read(&mut room[..size])?;
        self.incoming.note(&room[..size]);
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(size: u16) -> Vec<u8> {
        let [high, low] = size.to_be_bytes();
        let mut record = vec![23, 3, 3, high, low];
        record.resize(HEADER_SIZE + usize::from(size), 0);
        record
    }

    fn read(incoming: &mut Incoming, bytes: &[u8]) {
        let mut noted = Noted {
            reader: bytes,
            incoming,
        };
        let mut room = [0; 64 << 10];
        while noted.read(&mut room).unwrap() > 0 {}
    }

    #[test]
    fn an_incomplete_record_counts_as_far_as_it_has_arrived() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.size(), 0);
        let bytes = [record(100), record(16_000)].concat();
        read(&mut incoming, &bytes[..105 + 9_000]);
        // The complete record has become plaintext, which was taken.
        incoming.note_plaintext(80);
        incoming.note_taken(80);
        assert_eq!(incoming.size(), 9_000 + READ_SIZE);
        assert_eq!(incoming.size_after_read(), 9_000 + READ_SIZE);
        read(&mut incoming, &bytes[105 + 9_000..105 + 12_000]);
        // The next call brings the record's end, and the plaintext lies beside the record.
        assert!(incoming.size_after_read() > 16_000 + 12_000);
        read(&mut incoming, &bytes[105 + 12_000..]);
        incoming.note_plaintext(15_980);
        assert_eq!(incoming.size(), 15_980);
        incoming.note_taken(15_980);
        assert_eq!(incoming.size(), 0);
    }

    /// Needs `silent`: a message of a handshake is held until its last record has arrived, although each of its records
    /// is complete.
    #[test]
    fn records_without_plaintext_count_until_plaintext_comes() {
        let mut incoming = Incoming::default();
        for _ in 0..50 {
            read(&mut incoming, &record(1_000));
        }
        assert_eq!(incoming.size(), 50 * 1_005 + READ_SIZE);
        for _ in 0..50 {
            read(&mut incoming, &record(1_000));
        }
        assert_eq!(incoming.size(), SILENT_MAX + READ_SIZE);
        incoming.note_plaintext(10);
        assert_eq!(incoming.size(), 10);
    }

    #[test]
    fn a_header_may_come_byte_by_byte() {
        let mut incoming = Incoming::default();
        for byte in record(3) {
            read(&mut incoming, &[byte]);
        }
        assert_eq!((incoming.header_len, incoming.record), (0, 0));
    }
}
