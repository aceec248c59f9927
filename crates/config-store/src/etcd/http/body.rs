//! The body of an answer: the bytes that belong to it.

use std::io::{self, BufRead, ErrorKind, Read as _};

use httparse::Status;

use super::error::garbage;

/// Longest line in bytes with the size of a chunk, or with a field after the last chunk.
const LINE_SIZE_MAX: u64 = 1 << 10;
/// Most fields after the last chunk.
const TRAILER_COUNT_MAX: usize = 64;

/// The part of a body that has not been read yet.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// These many bytes.
    Sized(u64),
    /// The size of a chunk, and all that follows.
    ChunkSize,
    /// These many bytes of a chunk, the end of a line, and all that follows.
    Chunk(u64),
    /// Everything up to the end of the connection.
    UntilEnd,
}

impl Body {
    /// Whether the whole body has been read, and the next answer follows.
    pub fn has_ended(&self) -> bool {
        *self == Self::Sized(0)
    }

    /// Reads some bytes of the body from its connection; 0 at its end.
    pub fn read(&mut self, from: &mut dyn BufRead, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Sized(0) => return Ok(0),
                Self::Chunk(0) => {
                    if read_line(from)? != b"\r\n" {
                        return Err(garbage("a chunk is longer than its size"));
                    }
                    *self = Self::ChunkSize;
                }
                Self::Sized(left) | Self::Chunk(left) => return read_within(left, from, into),
                Self::ChunkSize => *self = after_size(from)?,
                Self::UntilEnd => return from.read(into),
            }
        }
    }
}

/// Reads some of the `left` bytes.
fn read_within(left: &mut u64, from: &mut dyn BufRead, into: &mut [u8]) -> io::Result<usize> {
    let size = into.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    let read = from.read(&mut into[..size])?;
    if read == 0 && size > 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    *left -= read as u64;
    Ok(read)
}

/// The body behind the size of a chunk; a size of 0 says that no chunk follows.
fn after_size(from: &mut dyn BufRead) -> io::Result<Body> {
    let line = read_line(from)?;
    // The parser takes a line without digits for a size of 0.
    let size = match httparse::parse_chunk_size(&line) {
        Ok(Status::Complete((_, size))) if line[0].is_ascii_hexdigit() => size,
        _ => return Err(garbage("the size of a chunk is not a number")),
    };
    if size > 0 {
        return Ok(Body::Chunk(size));
    }
    for _ in 0..=TRAILER_COUNT_MAX {
        if read_line(from)? == b"\r\n" {
            return Ok(Body::Sized(0));
        }
    }
    Err(garbage("too many fields follow the last chunk"))
}

/// A line with its end.
fn read_line(from: &mut dyn BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LINE_SIZE_MAX).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(line),
        _ if (line.len() as u64) < LINE_SIZE_MAX => Err(ErrorKind::UnexpectedEof.into()),
        _ => Err(garbage("a line between chunks is too long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the body at the start of `text`, and the rest of `text`.
    fn read(mut body: Body, mut text: &[u8]) -> io::Result<(Vec<u8>, &[u8])> {
        let mut bytes = Vec::new();
        // Small steps: a chunk is read in parts.
        let mut part = [0; 3];
        loop {
            match body.read(&mut text, &mut part)? {
                0 => return Ok((bytes, text)),
                read => bytes.extend_from_slice(&part[..read]),
            }
        }
    }

    #[test]
    fn a_body_ends_where_the_next_answer_begins() {
        let chunks = b"5\r\nabcde\r\nA;x=y\r\n0123456789\r\n0\r\nfield: z\r\n\r\nHTTP";
        let (bytes, rest) = read(Body::ChunkSize, chunks).unwrap();
        assert_eq!((&bytes[..], rest), (&b"abcde0123456789"[..], &b"HTTP"[..]));
        let (bytes, rest) = read(Body::Sized(4), b"abcdHTTP").unwrap();
        assert_eq!((&bytes[..], rest), (&b"abcd"[..], &b"HTTP"[..]));
        let (bytes, rest) = read(Body::UntilEnd, b"abcd").unwrap();
        assert_eq!((&bytes[..], rest), (&b"abcd"[..], &b""[..]));
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error_and_not_a_shorter_body() {
        for text in ["", "5", "5\r\n", "5\r\nabcde", "5\r\nabcde\r\n", "0\r\n"] {
            let error = read(Body::ChunkSize, text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{text:?}");
        }
        let error = read(Body::Sized(5), b"abcd").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn chunks_that_break_the_rules_are_refused() {
        let long = "1".repeat(5_000);
        let fields = "0\r\n".to_owned() + &"a: b\r\n".repeat(100) + "\r\n";
        for text in [
            "x\r\n",
            "\r\n",
            "-1\r\n",
            "fffffffffffffffff\r\n",
            "3\r\nabcde\r\n",
            "3\r\nabc\n0\r\n\r\n",
            &long,
            &fields,
        ] {
            let error = read(Body::ChunkSize, text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{text:?}");
        }
    }
}
