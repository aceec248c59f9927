//! Calls through the gateways of the nodes, whose answers tell no version.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stonecast_check::models::register::{Answer, Call, Expected};
use stonecast_check::values::{self, ValueId};

use crate::support::{Reply, RespClient};

/// Pause before a command is sent again, to another node or the same.
const PAUSE: Duration = Duration::from_millis(20);

/// The addresses of the gateways of the nodes. A node that starts again has another one.
pub struct Gateways(Mutex<Vec<SocketAddr>>);

/// A client that goes on at the next gateway when its own is away.
pub struct GatewayClient {
    gateways: Arc<Gateways>,
    node: usize,
    connection: Option<RespClient>,
}

/// The fate of a command.
pub enum Fate {
    Done(Reply),
    /// Nothing was done.
    Refused,
    /// Perhaps it was done.
    Unknown,
}

impl Gateways {
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self(Mutex::new(addresses))
    }

    /// Notes the address of a node that has started again.
    pub fn moved(&self, node: usize, address: SocketAddr) {
        self.0.lock().expect("no holder panics")[node] = address;
    }

    fn of(&self, node: usize) -> SocketAddr {
        let addresses = self.0.lock().expect("no holder panics");
        addresses[node % addresses.len()]
    }
}

impl GatewayClient {
    /// A client that begins at the node `first`.
    pub fn new(gateways: Arc<Gateways>, first: usize) -> Self {
        Self {
            gateways,
            node: first,
            connection: None,
        }
    }

    /// Sends a command once.
    pub fn ask<A: AsRef<[u8]>>(&mut self, command: Vec<A>) -> Fate {
        if self.connection.is_none() {
            self.connection = RespClient::try_connect(self.gateways.of(self.node));
        }
        let connection = self.connection.as_mut();
        let Some(connection) = connection.and_then(|it| it.send(&[command]).then_some(it)) else {
            // The command was not sent as a whole: the node is away.
            self.leave();
            std::thread::sleep(PAUSE);
            return Fate::Refused;
        };
        match connection.reply() {
            Some(Reply::Line(line)) if line.starts_with("-ERR ") => {
                std::thread::sleep(PAUSE);
                Fate::Refused
            }
            Some(Reply::Line(line)) if line.starts_with("-UNKNOWN ") => Fate::Unknown,
            Some(reply) => Fate::Done(reply),
            // The node died with the command.
            None => {
                self.leave();
                Fate::Unknown
            }
        }
    }

    /// Goes to the next node.
    fn leave(&mut self) {
        self.connection = None;
        self.node += 1;
    }
}

/// The answer to a call, which stores `bytes` if it stores a value; `None`: its outcome is unknown.
pub fn ask(client: &mut GatewayClient, key: &str, call: Call, bytes: &[u8]) -> Option<Answer> {
    let key = key.as_bytes();
    let command = match call {
        Call::Get => vec![b"GET", key],
        Call::Put(_) => vec![b"SET", key, bytes],
        Call::PutIf(_, Expected::Absent) => vec![b"SET", key, bytes, b"NX"],
        Call::PutIf(_, Expected::Version(_)) => panic!("no command names a version"),
        Call::Delete => vec![b"DEL", key],
    };
    let reply = match client.ask(command) {
        Fate::Done(reply) => reply,
        Fate::Refused => return Some(Answer::Refused),
        Fate::Unknown => return None,
    };
    Some(match (call, &reply) {
        (Call::Get, Reply::Bulk(None)) => Answer::Saw(ValueId::ABSENT),
        (Call::Get, Reply::Bulk(Some(bytes))) => {
            Answer::Saw(values::decode(bytes).expect("a value is whole"))
        }
        (Call::Put(_) | Call::PutIf(..), reply) if reply.is_ok() => Answer::Wrote,
        (Call::PutIf(..), Reply::Bulk(None)) => Answer::Conflict(None),
        (Call::Delete, Reply::Line(removed)) if removed == ":1" => Answer::Removed(true),
        (Call::Delete, Reply::Line(removed)) if removed == ":0" => Answer::Removed(false),
        _ => panic!("{reply:?} does not answer {call:?}"),
    })
}
