//! A Redis client of a few lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A reply. The only lists are lists of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A line that begins with `+`, `-` or `:`, unchanged.
    Line(String),
    /// Bytes, or none.
    Bulk(Option<Vec<u8>>),
    /// A list of replies.
    List(Vec<Reply>),
}

/// A Redis client of a few lines.
pub struct RespClient {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl RespClient {
    /// Connects to the port at `address`.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the port is open")
    }

    /// Connects, if the port is open.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        let output = TcpStream::connect(address).ok()?;
        output.set_nodelay(true).expect("a socket has options");
        output
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket has options");
        Some(Self {
            input: BufReader::new(output.try_clone().expect("a socket can be copied")),
            output,
        })
    }

    /// Sends commands of words, all at once; false if the connection has ended.
    pub fn send<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> bool {
        let bytes: Vec<u8> = commands
            .iter()
            .flat_map(|command| request(command))
            .collect();
        self.output.write_all(&bytes).is_ok()
    }

    /// Sends a command of words and returns its reply.
    pub fn call(&mut self, line: &str) -> Reply {
        assert!(
            self.send(&[line.split(' ').collect::<Vec<_>>()]),
            "the connection is open"
        );
        self.reply().expect("a reply")
    }

    /// The next reply; `None` at the end of the connection.
    pub fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.input.read_line(&mut line).ok()?;
        let line = line.strip_suffix("\r\n")?;
        let number = || line[1..].parse::<i64>().expect("a number");
        Some(match line.as_bytes()[0] {
            b'$' if number() < 0 => Reply::Bulk(None),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.input.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(Some(bytes))
            }
            b'*' => Reply::List((0..number()).map(|_| self.reply()).collect::<Option<_>>()?),
            _ => Reply::Line(line.to_owned()),
        })
    }
}

impl Reply {
    /// A reply of bytes.
    pub fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Some(text.as_ref().to_vec()))
    }

    /// `+OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Line(line) if line == "+OK")
    }
}

fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Status and body of the answer of `path` at the admin port.
pub fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket has options");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("the port takes requests");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (
        head.split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number"),
        body.to_owned(),
    )
}
