//! Heads of requests and answers.

use std::io::{self, BufRead, ErrorKind};

use httparse::{Header, Status};

use super::body::Body;
use super::error::garbage;

/// Longest head of an answer in bytes.
const HEAD_SIZE_MAX: usize = 64 << 10;
/// Most fields in the head of an answer.
const FIELD_COUNT_MAX: usize = 100;

/// A POST of JSON to `endpoint`, with its body. `token` must fit into a header.
pub fn request(endpoint: &str, path: &str, token: Option<&str>, body: &str) -> Vec<u8> {
    let size = body.len();
    let token = token.map_or(String::new(), |token| format!("authorization: {token}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {endpoint}\r\nuser-agent: stonecast\r\naccept: */*\r\n\
         content-type: application/json\r\ncontent-length: {size}\r\n{token}\r\n"
    );
    (head + body).into_bytes()
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// The status of HTTP.
    pub status: u16,
    /// The body that follows.
    pub body: Body,
    /// Whether the server takes another request over the connection after the body.
    pub is_kept: bool,
}

impl Head {
    /// Reads the head of an answer. Heads of provisional answers (1xx) are passed over.
    pub fn read(from: &mut dyn BufRead) -> io::Result<Self> {
        loop {
            let head = read_one(from)?;
            if !(100..200).contains(&head.status) {
                return Ok(head);
            }
        }
    }
}

fn read_one(from: &mut dyn BufRead) -> io::Result<Head> {
    let mut bytes = Vec::new();
    loop {
        let arrived = from.fill_buf()?;
        if arrived.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (before, count) = (bytes.len(), arrived.len());
        bytes.extend_from_slice(arrived);
        match parse(&bytes)? {
            Some((head, size)) if size <= HEAD_SIZE_MAX => {
                from.consume(size - before);
                return Ok(head);
            }
            _ if bytes.len() > HEAD_SIZE_MAX => {
                return Err(garbage("the head of its answer is too long"));
            }
            _ => from.consume(count),
        }
    }
}

/// The head at the start of `bytes`, and its size. `None`: the head is not complete.
fn parse(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELD_COUNT_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(bytes);
    let Status::Complete(size) = parsed.map_err(|error| garbage(error.to_string()))? else {
        return Ok(None);
    };
    let status = response.code.expect("a complete head has a status");
    let head = Head {
        status,
        body: match status {
            100..200 | 204 | 304 => Body::Sized(0),
            _ => body_after(response.headers)?,
        },
        is_kept: response.version == Some(1) && !says_close(response.headers),
    };
    Ok(Some((head, size)))
}

fn body_after(fields: &[Header<'_>]) -> io::Result<Body> {
    let (mut size, mut is_chunked) = (None, false);
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            let found = parse_size(field.value)?;
            if size.is_some_and(|size| size != found) {
                return Err(garbage("its answer has two sizes"));
            }
            size = Some(found);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err(garbage("its answer has an unknown encoding"));
            }
            is_chunked = true;
        }
    }
    match (is_chunked, size) {
        (true, None) => Ok(Body::ChunkSize),
        (false, Some(size)) => Ok(Body::Sized(size)),
        (false, None) => Ok(Body::UntilEnd),
        (true, Some(_)) => Err(garbage("its answer has a size beside chunks")),
    }
}

/// Digits alone: other programs on the way may read a sign differently.
fn parse_size(text: &[u8]) -> io::Result<u64> {
    let digits = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let size = digits.and_then(|digits| digits.parse().ok());
    size.ok_or_else(|| garbage("the size of its answer is not a number"))
}

fn says_close(fields: &[Header<'_>]) -> bool {
    let connection = |field: &&Header<'_>| field.name.eq_ignore_ascii_case("connection");
    fields.iter().filter(connection).any(|field| {
        let mut options = field.value.split(|&byte| byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Head> {
        Head::read(&mut text.as_bytes())
    }

    #[test]
    fn a_head_tells_the_body_and_whether_the_connection_is_kept() {
        for (text, status, body, is_kept) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
                200,
                Body::Sized(7),
                true,
            ),
            (
                "HTTP/1.1 503 X\r\nTransfer-Encoding: Chunked\r\n\r\n",
                503,
                Body::ChunkSize,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nconnection: x, Close\r\n\r\n",
                200,
                Body::UntilEnd,
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\ncontent-length: 7\r\n\r\n",
                200,
                Body::Sized(7),
                false,
            ),
            ("HTTP/1.1 204 X\r\n\r\n", 204, Body::Sized(0), true),
            (
                "HTTP/1.1 100 X\r\n\r\nHTTP/1.1 302 X\r\ncontent-length: 0\r\n\r\n",
                302,
                Body::Sized(0),
                true,
            ),
        ] {
            let head = Head {
                status,
                body,
                is_kept,
            };
            assert_eq!(read(text).unwrap(), head, "{text}");
        }
    }

    #[test]
    fn a_head_that_two_readers_could_read_differently_is_refused() {
        let fields = "a: b\r\n".repeat(FIELD_COUNT_MAX + 1);
        let long = format!("a: {}", "b".repeat(HEAD_SIZE_MAX));
        for fields in [
            "content-length: 7\r\ncontent-length: 8",
            "content-length: 7\r\ntransfer-encoding: chunked",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "content-length: +7",
            "content-length: ",
            "content-length: 99999999999999999999",
            "content length: 7",
            &fields,
            &long,
        ] {
            let error = read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{fields:.80}");
        }
        for text in ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/2 200 OK\r\n\r\n", "\0"] {
            assert_eq!(
                read(text).unwrap_err().kind(),
                ErrorKind::InvalidData,
                "{text}"
            );
        }
        let cut = read("HTTP/1.1 200 OK\r\ncontent").unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
    }
}
