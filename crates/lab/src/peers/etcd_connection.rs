//! A connection to a member of an etcd: gRPC over HTTP/2, as etcd's own clients speak, with many puts in flight on one
//! connection.
//!
//! The JSON gateway of etcd would turn each request into gRPC first, so a comparison with it would flatter the other
//! side. The two messages of a put are a few bytes, written by hand: field 1 is the key, field 2 the value
//! ([`etcdserverpb.PutRequest`][proto]), behind the prefix of five bytes of gRPC over HTTP/2.
//!
//! [proto]: https://etcd.io/docs/v3.4/dev-guide/api_reference_v3/

use std::cell::{Cell, RefCell};
use std::io::Cursor;
use std::rc::Rc;
use std::time::{Duration, Instant};

use h2::client::{Builder, SendRequest};
use http::Request;
use stonecast_base::random_from_seed;
use stonecast_bench::cpu_time::thread_cpu_ns;
use stonecast_bench::{DataSet, LatencyHistogram, Measured};
use stonecast_workload::{Sequence, ValuePool};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::PeerError;

/// A message on its way to the member.
type Message = Cursor<Vec<u8>>;

/// A connection, and the executor that drives it inside [`EtcdConnection::measure`].
pub struct EtcdConnection {
    runtime: Runtime,
    tasks: LocalSet,
    requests: SendRequest<Message>,
    uri: String,
}

fn failed(error: impl ToString) -> PeerError {
    PeerError::Etcd(error.to_string())
}

impl EtcdConnection {
    pub(super) fn open(endpoint: &str) -> Result<Self, PeerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(PeerError::system("starting an executor"))?;
        let tasks = LocalSet::new();
        let requests = tasks.block_on(&runtime, async {
            let stream = TcpStream::connect(endpoint).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            let (requests, connection) = Builder::new().handshake(stream).await.map_err(failed)?;
            tokio::task::spawn_local(async move {
                // A request on a connection that has ended fails, and says why.
                let _ = connection.await;
            });
            Ok::<_, PeerError>(requests)
        })?;
        let uri = format!("http://{endpoint}/etcdserverpb.KV/Put");
        Ok(Self {
            runtime,
            tasks,
            requests,
            uri,
        })
    }

    /// Puts the keys of `sequence`, with `in_flight` puts in flight, until `duration` has passed. etcd answers a put
    /// when a majority of its members has the put in their logs.
    pub fn measure(
        &self,
        sequence: &Sequence,
        data: &DataSet,
        in_flight: usize,
        duration: Duration,
    ) -> Result<Measured, PeerError> {
        let cpu_start = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        let start = Instant::now();
        let values = ValuePool::new(data.value_size, &mut random_from_seed(data.seed));
        let shared = Rc::new(Shared {
            next: Cell::new(0),
            values: RefCell::new(values),
            latencies: RefCell::default(),
            end: start + duration,
        });
        self.tasks.block_on(&self.runtime, async {
            let operations = sequence.operations();
            let puts = (0..in_flight).map(|_| self.puts(operations, &shared));
            let ends = futures_util::future::join_all(puts).await;
            ends.into_iter().collect::<Result<(), _>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu_end = thread_cpu_ns().map_err(PeerError::system("reading the CPU time"))?;
        let latencies = shared.latencies.take();
        Ok(Measured {
            ops: latencies.count(),
            seconds,
            client_cpu_ns: cpu_end - cpu_start,
            latencies,
            ..Measured::default()
        })
    }

    /// Puts one key after the other.
    async fn puts(
        &self,
        operations: &[stonecast_workload::Operation],
        shared: &Shared,
    ) -> Result<(), PeerError> {
        let mut now = Instant::now();
        while now < shared.end {
            let index = shared.next.replace(shared.next.get() + 1) % operations.len();
            let message = put_request(operations[index].key(), shared.values.borrow_mut().take());
            self.put(message).await?;
            let then = std::mem::replace(&mut now, Instant::now());
            shared
                .latencies
                .borrow_mut()
                .record(now.duration_since(then));
        }
        Ok(())
    }

    async fn put(&self, message: Vec<u8>) -> Result<(), PeerError> {
        let request = Request::post(&self.uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(failed)?;
        let mut requests = self.requests.clone().ready().await.map_err(failed)?;
        let (answer, mut body) = requests.send_request(request, false).map_err(failed)?;
        body.send_data(Cursor::new(message), true).map_err(failed)?;
        let (head, mut body) = answer.await.map_err(failed)?.into_parts();
        while let Some(bytes) = body.data().await {
            let size = bytes.map_err(failed)?.len();
            body.flow_control().release_capacity(size).map_err(failed)?;
        }
        let trailers = body.trailers().await.map_err(failed)?;
        // An answer without a body has its status in the head.
        let status = trailers.unwrap_or(head.headers);
        match status.get("grpc-status") {
            Some(code) if code == "0" => Ok(()),
            _ => Err(failed(format!("a put was answered {status:?}"))),
        }
    }
}

/// The state that the puts in flight share.
struct Shared {
    next: Cell<usize>,
    values: RefCell<ValuePool>,
    latencies: RefCell<LatencyHistogram>,
    end: Instant,
}

/// A put of `value` under `key`, as a message of gRPC.
fn put_request(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 5];
    field(1, key, &mut message);
    field(2, value, &mut message);
    let size = u32::try_from(message.len() - 5).expect("keys and values are short");
    message[1..5].copy_from_slice(&size.to_be_bytes());
    message
}

/// Appends a field of bytes.
fn field(number: u8, bytes: &[u8], message: &mut Vec<u8>) {
    const LENGTH_DELIMITED: u8 = 2;
    message.push((number << 3) | LENGTH_DELIMITED);
    let mut rest = bytes.len();
    while rest >= 0x80 {
        message.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    message.push(rest as u8);
    message.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_the_bytes_that_the_protocol_demands() {
        assert_eq!(
            put_request(b"k", b"vw"),
            b"\x00\x00\x00\x00\x07\x0a\x01k\x12\x02vw"
        );
        let long = put_request(b"", &[7; 300]);
        assert_eq!(long[..10], *b"\x00\x00\x00\x01\x31\x0a\x00\x12\xac\x02");
        assert_eq!(long.len(), 10 + 300);
    }
}
