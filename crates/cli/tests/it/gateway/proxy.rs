//! A proxy between a server and a Redis client that does not tell which SETs were acknowledged. The proxy tells.
//!
//! ```text
//!   redis-benchmark --requests--> [note each SET] --> server
//!                  <--replies---- [+OK: the oldest SET without a reply is acknowledged] <--
//! ```

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A key and its value.
pub type Set = (Vec<u8>, Vec<u8>);

/// A proxy that notes the SETs that a server acknowledges. The proxy accepts connections as long as the process lives;
/// each connection ends with its server.
pub struct Proxy {
    /// The address for clients.
    pub address: SocketAddr,
    /// The number of SETs that were acknowledged so far.
    pub count: Arc<AtomicU64>,
    acknowledged: Arc<Mutex<Vec<Set>>>,
}

impl Proxy {
    /// Starts a proxy of the server at `server`.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (count, acknowledged) = (
            Arc::<AtomicU64>::default(),
            Arc::<Mutex<Vec<Set>>>::default(),
        );
        let (counts, sets) = (count.clone(), acknowledged.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                // New clients are dropped once the server is gone.
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    continue;
                };
                connect(client, server, counts.clone(), sets.clone());
            }
        });
        Self {
            address,
            count,
            acknowledged,
        }
    }

    /// The SETs whose acknowledgement came back from the server.
    pub fn acknowledged(&self) -> Vec<Set> {
        self.acknowledged
            .lock()
            .expect("nobody panics with it")
            .clone()
    }
}

fn connect(
    client: TcpStream,
    server: TcpStream,
    count: Arc<AtomicU64>,
    acknowledged: Arc<Mutex<Vec<Set>>>,
) {
    let copy = |socket: &TcpStream| socket.try_clone().expect("a socket can be copied");
    let waiting = Arc::<Mutex<VecDeque<Option<Set>>>>::default();
    let noted = waiting.clone();
    let (client_in, server_out) = (copy(&client), copy(&server));
    thread::spawn(move || forward(client_in, server_out, |bytes| note_requests(bytes, &noted)));
    thread::spawn(move || {
        forward(server, client, |bytes| {
            let mut waiting = waiting.lock().expect("nobody panics with it");
            take_replies(bytes, |reply| {
                let request = waiting.pop_front().expect("a reply has a request");
                if let (Some(set), b"+OK\r\n") = (request, reply) {
                    acknowledged
                        .lock()
                        .expect("nobody panics with it")
                        .push(set);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
    });
}

/// Copies bytes until one side ends. `look` sees all bytes that have arrived and are not yet consumed, and returns how
/// many bytes it consumes.
fn forward(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> usize) {
    let (mut seen, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(size @ 1..) = from.read(&mut piece) {
        seen.extend_from_slice(&piece[..size]);
        let taken = look(&seen);
        seen.drain(..taken);
        if to.write_all(&piece[..size]).is_err() {
            break;
        }
    }
    // The other direction ends with this one.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Notes each complete request; `None` stands for requests that store nothing.
fn note_requests(bytes: &[u8], waiting: &Mutex<VecDeque<Option<Set>>>) -> usize {
    let mut at = 0;
    while let Some((arguments, size)) = request(&bytes[at..]) {
        let set = match &arguments[..] {
            [name, key, value] if name.eq_ignore_ascii_case(b"SET") => {
                Some((key.to_vec(), value.to_vec()))
            }
            _ => None,
        };
        waiting
            .lock()
            .expect("nobody panics with it")
            .push_back(set);
        at += size;
    }
    at
}

/// Hands each complete reply to `take`; returns the total size of the replies.
fn take_replies(bytes: &[u8], mut take: impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(size) = reply_size(&bytes[at..]) {
        take(&bytes[at..at + size]);
        at += size;
    }
    at
}

/// The number in the line `KIND NUMBER CR LF` at the start, and the size of the line.
fn number_line(bytes: &[u8]) -> Option<(i64, usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let digits = std::str::from_utf8(&bytes[1..end - 1]).expect("digits");
    Some((digits.parse().expect("a number"), end + 1))
}

/// The arguments of the first request in `bytes`, and its size.
fn request(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (count, mut at) = number_line(bytes)?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let (size, line) = number_line(&bytes[at..])?;
        let start = at + line;
        at = start + size as usize + 2;
        bytes.get(start..at)?;
        arguments.push(&bytes[start..at - 2]);
    }
    Some((arguments, at))
}

/// The size of the first reply in `bytes`.
fn reply_size(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let size = match bytes[0] {
        b'$' => number_line(bytes).map(|(size, line)| {
            if size < 0 {
                line
            } else {
                line + size as usize + 2
            }
        })?,
        b'*' => {
            let (count, mut at) = number_line(bytes)?;
            for _ in 0..count {
                at += reply_size(&bytes[at..])?;
            }
            at
        }
        _ => end,
    };
    (size <= bytes.len()).then_some(size)
}
