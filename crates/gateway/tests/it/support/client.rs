//! A small client that sees every byte.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply, as sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    /// RESP2's null.
    NoBulk,
    /// RESP2's null in place of an array.
    NoArray,
    /// RESP3's null.
    Null,
    Text(String),
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

/// A small client that sees every byte.
pub struct Client {
    input: BufReader<TcpStream>,
    pub socket: TcpStream,
}

/// A time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            input: BufReader::new(socket.try_clone().unwrap()),
            socket,
        }
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command and returns its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: impl IntoIterator<Item = A>) -> Reply {
        self.send(request(arguments));
        self.reply()
    }

    /// Sends a command of words.
    pub fn words(&mut self, line: &str) -> Reply {
        self.call(line.split(' '))
    }

    /// Sends commands of words, all at once, and returns their replies.
    pub fn pipeline<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) -> Vec<Reply> {
        let requests: Vec<Vec<u8>> = lines
            .into_iter()
            .map(|line| request(line.split(' ')))
            .collect();
        self.send(requests.concat());
        requests.iter().map(|_| self.reply()).collect()
    }

    /// The next reply.
    pub fn reply(&mut self) -> Reply {
        self.try_reply()
            .expect("the connection is open")
            .expect("the connection has not ended")
    }

    /// The next reply; `None` at the end of the connection.
    pub fn try_reply(&mut self) -> io::Result<Option<Reply>> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.strip_suffix("\r\n").expect("a line ends with CR LF");
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("{line}"));
        let mut many = |count: i64| (0..count).map(|_| self.reply()).collect::<Vec<_>>();
        Ok(Some(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()),
            "_" => Reply::Null,
            "$" if number() < 0 => Reply::NoBulk,
            "$" => Reply::Bulk(self.bytes(number() as usize)),
            "=" => Reply::Text(
                String::from_utf8(self.bytes(number() as usize)).unwrap()[4..].to_owned(),
            ),
            "*" if number() < 0 => Reply::NoArray,
            "*" => Reply::Array(many(number())),
            "~" => Reply::Set(many(number())),
            "%" => {
                let mut parts = VecDeque::from(many(2 * number()));
                let mut pairs = Vec::new();
                while let (Some(name), Some(value)) = (parts.pop_front(), parts.pop_front()) {
                    pairs.push((name, value));
                }
                Reply::Map(pairs)
            }
            _ => panic!("no reply begins like {line}"),
        }))
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size + 2];
        self.input.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(size);
        bytes
    }

    /// Returns whether the connection ends without another reply.
    pub fn has_ended(&mut self) -> bool {
        match self.try_reply() {
            Ok(None) => true,
            Ok(Some(reply)) => panic!("{reply:?} instead of the end"),
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
        }
    }
}

/// A command as an array of byte strings.
pub fn request<A: AsRef<[u8]>>(arguments: impl IntoIterator<Item = A>) -> Vec<u8> {
    let arguments: Vec<A> = arguments.into_iter().collect();
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in &arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

impl Reply {
    pub fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    pub fn simple(text: &str) -> Self {
        Self::Simple(text.to_owned())
    }

    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("{other:?} is no error"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("{other:?} has no bytes"),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Bulk(bytes) => std::str::from_utf8(bytes).unwrap(),
            other => panic!("{other:?} is no text"),
        }
    }

    pub fn list(&self) -> &[Reply] {
        match self {
            Self::Array(list) | Self::Set(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }

    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            other => panic!("{other:?} is no number"),
        }
    }
}
