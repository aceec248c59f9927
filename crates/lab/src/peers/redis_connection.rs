//! A connection to redis-server that does little besides reading and writing its socket.
//!
//! Requests are sent as `redis-benchmark -P` sends them: a batch with one write, then all of its replies. Batches suit
//! Redis best: one system call at each end moves the whole batch, and with `appendfsync always` one sync serves the
//! batch.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use stonecast_base::random_from_seed;
use stonecast_workload::{Sequence, ValuePool};

use super::PeerError;
use super::resp::{self, Reply};
use stonecast_bench::DataSet;
use stonecast_bench::LatencyHistogram;
use stonecast_bench::Measured;
use stonecast_bench::cpu_time::thread_cpu_ns;

/// Requests sent together while loading.
const LOAD_BATCH: u64 = 1000;
/// Buffer size of a read of the socket.
const READ_SIZE: usize = 256 << 10;

/// A connection to redis-server.
pub struct RedisConnection {
    stream: Box<dyn Stream>,
    requests: Vec<u8>,
    replies: Vec<u8>,
    /// The bytes `replies[start..end]` have arrived and were not taken.
    start: usize,
    end: usize,
    /// Buffer size of a read.
    read_size: usize,
    /// The number of replicas that must have the writes of a batch before the batch counts as done.
    replicas: u8,
}

/// A byte stream to the server.
trait Stream: Read + Write {}

impl Stream for UnixStream {}
impl Stream for TcpStream {}

impl RedisConnection {
    pub(super) fn open(socket: &Path) -> Result<Self, PeerError> {
        let stream =
            UnixStream::connect(socket).map_err(PeerError::system("connecting to redis-server"))?;
        Ok(Self::on(Box::new(stream), READ_SIZE))
    }

    /// Connects to any server of the protocol.
    pub fn open_tcp(address: SocketAddr) -> Result<Self, PeerError> {
        Self::open_small(address, READ_SIZE)
    }

    /// Connects as [`RedisConnection::open_tcp`] does, with reads of at most `read_size` bytes.
    pub fn open_small(address: SocketAddr, read_size: usize) -> Result<Self, PeerError> {
        let stream =
            TcpStream::connect(address).map_err(PeerError::system("connecting over TCP"))?;
        stream
            .set_nodelay(true)
            .map_err(PeerError::system("connecting over TCP"))?;
        Ok(Self::on(Box::new(stream), read_size))
    }

    fn on(stream: Box<dyn Stream>, read_size: usize) -> Self {
        Self {
            stream,
            requests: Vec::new(),
            replies: vec![0; read_size],
            start: 0,
            end: 0,
            read_size,
            replicas: 0,
        }
    }

    /// Ends each measured batch with `WAIT`, so that the batch takes until that number of replicas has all of its
    /// writes. One `WAIT` serves the whole batch, as one sync does.
    pub fn await_replicas(&mut self, replicas: u8) {
        self.replicas = replicas;
    }

    /// Waits until that number of replicas follows the server.
    pub(super) fn wait_for_replicas(&mut self, replicas: u8) -> Result<bool, PeerError> {
        self.requests.clear();
        encode_wait(replicas, 100, &mut self.requests);
        self.send()?;
        self.take_reply(|reply| reply == Reply::Integer(replicas.into()))
    }

    /// Sends a SET and a GET of the same key `count` times, and takes no reply. `number` is the
    /// number of this connection.
    pub fn set_and_get(&mut self, number: u64, round: u64, count: usize) -> Result<(), PeerError> {
        self.requests.clear();
        for index in 0..count {
            let (key, value) = pair(number, round, index);
            resp::encode_set(&key, &value, &mut self.requests);
            resp::encode_get(&key, &mut self.requests);
        }
        self.send()
    }

    /// Takes the replies of `set_and_get`, and returns the number of wrong replies.
    pub fn take_set_and_get(
        &mut self,
        number: u64,
        round: u64,
        count: usize,
    ) -> Result<u64, PeerError> {
        let mut errors = 0;
        for index in 0..count {
            let (_, value) = pair(number, round, index);
            errors += u64::from(!self.take_reply(|reply| matches!(reply, Reply::Simple(b"OK")))?);
            errors += u64::from(!self.take_reply(|reply| reply == Reply::Bulk(&value))?);
        }
        Ok(errors)
    }

    pub(super) fn ping(&mut self) -> Result<(), PeerError> {
        self.requests.clear();
        self.requests.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
        self.send()?;
        self.reply(|reply| matches!(reply, Reply::Simple(b"PONG")), "+PONG")
    }

    /// Sends a command, and takes no reply.
    pub fn ask(&mut self, arguments: &[&[u8]]) -> Result<(), PeerError> {
        self.requests.clear();
        resp::encode(arguments, &mut self.requests);
        self.send()
    }

    /// Takes a reply, which must say that a command was done.
    pub fn take_done(&mut self) -> Result<(), PeerError> {
        self.reply(
            |reply| matches!(reply, Reply::Simple(b"OK") | Reply::Integer(_)),
            "+OK or a number",
        )
    }

    /// Stores all records of `data`.
    pub fn load(&mut self, data: &DataSet) -> Result<(), PeerError> {
        let mut waiting = 0;
        self.requests.clear();
        data.try_for_each(|key, value| {
            resp::encode_set(key, value, &mut self.requests);
            waiting += 1;
            if waiting == LOAD_BATCH {
                self.finish_sets(std::mem::take(&mut waiting))
            } else {
                Ok(())
            }
        })?;
        self.finish_sets(waiting)
    }

    /// Runs operations of `sequence`, `pipeline` at a time, until `duration` has passed.
    ///
    /// A latency is that of a whole batch: from sending its requests to the last of its replies.
    pub fn measure(
        &mut self,
        sequence: &Sequence,
        data: &DataSet,
        pipeline: usize,
        duration: Duration,
    ) -> Result<Measured, PeerError> {
        assert!(pipeline > 0, "a batch has a request");
        let mut cursor = sequence.cursor(0);
        let mut values = ValuePool::new(data.value_size, &mut random_from_seed(data.seed));
        let mut updates = Vec::with_capacity(pipeline);
        let mut latencies = LatencyHistogram::default();
        let (mut ops, mut errors) = (0, 0);
        let cpu_start = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        let start = Instant::now();
        let mut now = start;
        while now.duration_since(start) < duration {
            self.requests.clear();
            updates.clear();
            for _ in 0..pipeline {
                let operation = cursor.take();
                match operation.is_update() {
                    true => resp::encode_set(operation.key(), values.take(), &mut self.requests),
                    false => resp::encode_get(operation.key(), &mut self.requests),
                }
                updates.push(operation.is_update());
            }
            if self.replicas > 0 {
                encode_wait(self.replicas, 0, &mut self.requests);
            }
            self.send()?;
            for &update in &updates {
                let done = self.take_reply(|reply| match reply {
                    Reply::Simple(b"OK") => update,
                    Reply::Bulk(value) => !update && value.len() == data.value_size,
                    _ => false,
                })?;
                errors += u64::from(!done);
            }
            if self.replicas > 0 {
                let expected = Reply::Integer(self.replicas.into());
                let everywhere = self.take_reply(|reply| reply == expected)?;
                errors += if everywhere { 0 } else { pipeline as u64 };
            }
            ops += pipeline as u64;
            // One reading of the clock per batch ends this batch and begins the next one.
            let then = std::mem::replace(&mut now, Instant::now());
            latencies.record(now.duration_since(then));
        }
        let cpu_end = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        let seconds = now.duration_since(start).as_secs_f64();
        Ok(Measured {
            ops,
            errors,
            seconds,
            client_cpu_ns: cpu_end - cpu_start,
            latencies,
            ..Measured::default()
        })
    }

    fn finish_sets(&mut self, count: u64) -> Result<(), PeerError> {
        self.send()?;
        self.requests.clear();
        (0..count)
            .try_for_each(|_| self.reply(|reply| matches!(reply, Reply::Simple(b"OK")), "+OK"))
    }

    fn send(&mut self) -> Result<(), PeerError> {
        self.stream
            .write_all(&self.requests)
            .map_err(PeerError::system("writing to redis-server"))
    }

    /// Takes the next reply, which must be as expected.
    fn reply(
        &mut self,
        is_expected: impl Fn(Reply<'_>) -> bool,
        expected: &'static str,
    ) -> Result<(), PeerError> {
        let mut other = String::new();
        let matched = self.take_reply(|reply| {
            let matches = is_expected(reply);
            if !matches {
                other = format!("{reply:?}");
            }
            matches
        })?;
        if matched {
            Ok(())
        } else {
            Err(PeerError::Answer {
                found: other,
                expected,
            })
        }
    }

    /// Takes the next reply and returns the verdict of `judge`.
    fn take_reply(&mut self, mut judge: impl FnMut(Reply<'_>) -> bool) -> Result<bool, PeerError> {
        loop {
            let bytes = &self.replies[self.start..self.end];
            match resp::parse(bytes) {
                Ok(Some((reply, size))) => {
                    let verdict = judge(reply);
                    self.start += size;
                    return Ok(verdict);
                }
                Ok(None) => self.receive()?,
                Err(resp::Malformed) => {
                    let found = bytes[..bytes.len().min(80)].escape_ascii().to_string();
                    return Err(PeerError::Answer {
                        found,
                        expected: "a reply of the Redis protocol",
                    });
                }
            }
        }
    }

    fn receive(&mut self) -> Result<(), PeerError> {
        self.replies.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.replies.len() - self.end < self.read_size / 2 {
            self.replies.resize(self.end + self.read_size, 0);
        }
        let count = self
            .stream
            .read(&mut self.replies[self.end..])
            .map_err(PeerError::system("reading from redis-server"))?;
        if count == 0 {
            return Err(PeerError::Answer {
                found: "the end of the connection".into(),
                expected: "a reply",
            });
        }
        self.end += count;
        Ok(())
    }
}

/// Appends `WAIT`; a limit of 0 ms is none.
fn encode_wait(replicas: u8, limit_ms: u32, into: &mut Vec<u8>) {
    let (replicas, limit) = (replicas.to_string(), limit_ms.to_string());
    resp::encode(&[b"WAIT", replicas.as_bytes(), limit.as_bytes()], into);
}

/// Key and value of a connection in a round.
fn pair(number: u64, round: u64, index: usize) -> (Vec<u8>, Vec<u8>) {
    (
        format!("{number}:{index}").into_bytes(),
        format!("{round}:{number}:{index}:{}", "x".repeat(80)).into_bytes(),
    )
}
