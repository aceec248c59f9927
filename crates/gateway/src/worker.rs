//! A thread of the gateway: a device, a connection to the store, an executor, and the sockets of its clients.
//!
//! ```text
//!   listener (shared by all threads) --accept--> task for each connection
//!                                                  | commands
//!                                                  v
//!   executor (polls device and tasks) ------> Store ------> shared memory
//!      | nothing to do: Sleeper
//! ```

use std::cell::Cell;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use stonecast::local::{Client, Connection as StoreConnection};
use stonecast::{Connector, OpenDevice};
use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{ClientPath, StoreError};

use crate::clients::Card;
use crate::commands::{Backend, Context, Session, Store, UnderWay};
use crate::connection::{Connection, TOO_MANY};
use crate::counters::Counters;
use crate::error::{GatewayError, system};
use crate::rate::Rate;
use crate::reactor::{Reactor, Source};
use crate::shared::{Seat, Shared};
use crate::sleeper::Sleeper;
use crate::thread::Thread;
use crate::transport::Transport;

/// The interval between two checks of deadlines and of the request to stop.
const LOOK_NS: Nanoseconds = 100_000_000;
/// The time limit for the store to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for a cluster to accept the connection, and the pause before the next attempt.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(2);
const CLUSTER_PAUSE: Duration = Duration::from_millis(50);
/// The time limit of an operation on a cluster, longer than a shard takes to change its primary. A write without an
/// answer by then ends as *unknown*.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for connections to end.
const STOP_NS_MAX: Nanoseconds = 5_000_000_000;
/// The number of connections that are accepted before other connections get their turn.
const ACCEPTED_AT_ONCE: u64 = 64;
/// The pause while the system has no file descriptor or no memory for another connection.
const ACCEPT_PAUSE_NS: Nanoseconds = 100_000_000;
/// The time between two messages that no connection can be accepted.
const ACCEPT_MESSAGE_NS: Nanoseconds = 60_000_000_000;
/// The idle time after which the system checks whether the peer is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Runs thread number `index` to its end.
pub fn run(index: usize, listener: TcpListener, shared: Arc<Shared>) -> Result<(), GatewayError> {
    let reactor = Rc::new(Reactor::new().map_err(system("creating an epoll instance"))?);
    let in_flight = Rc::new(Cell::new(0));
    let counters = shared.threads[index].clone();
    let sleeper =
        |device| Sleeper::new(device, reactor.clone(), in_flight.clone(), counters.clone());
    let Some(connection) = connect(&shared, &in_flight, &counters, sleeper)? else {
        return Ok(());
    };
    let result = connection.run(async |client| {
        let runtime = client.runtime();
        let backend = Backend::of(client);
        let store = Store::new(backend, counters.clone(), in_flight.clone());
        let thread = Thread::new(runtime.clone(), counters, shared.clone(), reactor.clone());
        let context = Rc::new(Context::new(Rc::new(thread), store));
        let listener = reactor
            .add_shared(listener)
            .map_err(system("watching the listener"))?;
        let acceptor = Acceptor {
            context: context.clone(),
            listener,
            failure_told_at: Cell::new(None),
        };
        runtime.spawn(Box::pin(acceptor.run()));
        shared.note_ready();
        serve(&context, client).await
    });
    if result.is_ok() {
        let _under_way = UnderWay::begin(&in_flight);
        connection.close();
    }
    result
}

/// Connects to the store, or to the cluster. A cluster that does not answer yet is asked again: its shards are placed
/// when enough nodes are there, and the node of this gateway may be the first one. `None`: the gateway is asked to stop
/// before.
fn connect(
    shared: &Shared,
    in_flight: &Cell<usize>,
    counters: &Counters,
    sleeper: impl Fn(Rc<dyn Park>) -> Sleeper,
) -> Result<Option<StoreConnection>, GatewayError> {
    let Some(cluster) = &shared.options.cluster else {
        let store = shared.options.store.as_deref();
        let connector = Connector::new(store.expect("the options were checked"))?
            .connect_timeout(CONNECT_TIMEOUT)
            // The Redis clients' deadlines bound operations.
            .operation_timeout(None);
        return connect_once(connector, in_flight, sleeper).map(Some);
    };
    let connector = Connector::new(cluster)?
        .connect_timeout(CLUSTER_TIMEOUT)
        .operation_timeout(Some(CLUSTER_PATIENCE));
    let mut told = String::new();
    while !shared.is_stopping() {
        let failed = match connect_once(connector.clone(), in_flight, &sleeper) {
            Ok(connection) => return Ok(Some(connection)),
            Err(failed) => failed.to_string(),
        };
        if failed != told {
            tracing::warn!("gateway: waits for the cluster: {failed}");
            told = failed;
        }
        counters.rounds.add(1);
        std::thread::sleep(CLUSTER_PAUSE);
    }
    Ok(None)
}

/// One attempt. The waiting thread also sleeps on its sockets.
fn connect_once(
    connector: Connector,
    in_flight: &Cell<usize>,
    sleeper: impl Fn(Rc<dyn Park>) -> Sleeper,
) -> Result<StoreConnection, GatewayError> {
    let device = ShmDevice::new(ShmOptions::default()).map_err(stonecast::Error::from)?;
    let park = Rc::new(sleeper(device.clone()));
    let connector = connector
        .counted_as(ClientPath::Gateway)
        // The sleeper decides when to stop polling and sleep.
        .spin(Duration::ZERO);
    let device = OpenDevice { device, park };
    let _under_way = UnderWay::begin(in_flight);
    Ok(StoreConnection::over(device, connector)?)
}

/// Serves until the gateway is stopped or the store is gone, and then until the connections have ended.
async fn serve(context: &Rc<Context>, client: &Client) -> Result<(), GatewayError> {
    let result = watch(context).await;
    // The other threads also end when the store is gone, since they need the store, too.
    context.thread.shared.stop();
    context.thread.guards.stop();
    let runtime = client.runtime();
    let deadline = runtime.now().saturating_add(STOP_NS_MAX);
    while !context.thread.guards.is_empty() && runtime.now() < deadline {
        runtime.sleep(LOOK_NS / 10).await;
    }
    result
}

/// Watches the connections until the gateway is stopped or the store is gone.
async fn watch(context: &Rc<Context>) -> Result<(), GatewayError> {
    let mut rate = Rate::default();
    loop {
        context.thread.runtime.sleep(LOOK_NS).await;
        let counters = &context.thread.counters;
        counters.rounds.add(1);
        counters
            .commands_per_second
            .set(rate.sample(context.thread.runtime.now(), counters.all_commands()));
        context.thread.guards.sweep(context.thread.runtime.now());
        report(context);
        if context.thread.shared.is_stopping() {
            return Ok(());
        }
        if context.store.is_lost() {
            return Err(StoreError::Disconnected { unknown: false }.into());
        }
    }
}

/// Reports the operations to the store, in a task of its own: the deadlines of connections do not wait for the store.
fn report(context: &Rc<Context>) {
    if !context.is_reporting.replace(true) {
        let context = context.clone();
        context.thread.runtime.clone().spawn(Box::pin(async move {
            context.store.report().await;
            context.is_reporting.set(false);
        }));
    }
}

/// Accepts connections.
struct Acceptor {
    context: Rc<Context>,
    listener: Source<TcpListener>,
    /// The time at which the operator was last told that connections cannot be accepted.
    failure_told_at: Cell<Option<Nanoseconds>>,
}

impl Acceptor {
    async fn run(self) {
        for accepted in 1_u64.. {
            self.listener.readable().await;
            if self.context.thread.shared.is_stopping() {
                return;
            }
            // Accepted connections get their turn before more are accepted, even if connections come without end.
            if accepted.is_multiple_of(ACCEPTED_AT_ONCE) {
                self.context.thread.reactor.turn().await;
            }
            match self.listener.socket().accept() {
                Ok((socket, peer)) => self.admit(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.listener.readiness().clear_readable()
                }
                // The connection has ended before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => self.wait_out(&error).await,
            }
        }
    }

    /// Reports the reason why no connection can be accepted, and waits for a while. A connection that waits to be
    /// accepted keeps the listener ready, so the thread would not sleep unless the listener's registration were paused.
    async fn wait_out(&self, error: &io::Error) {
        let runtime = &self.context.thread.runtime;
        let now = runtime.now();
        let is_due = self
            .failure_told_at
            .get()
            .is_none_or(|told_at| now.saturating_sub(told_at) >= ACCEPT_MESSAGE_NS);
        if is_due {
            self.failure_told_at.set(Some(now));
            let open = self.context.thread.shared.connections();
            let words = match Errno::from_io_error(error) {
                Some(Errno::MFILE) => {
                    "the limit of open files is reached; raise it with `ulimit -n`, or LimitNOFILE in the unit file"
                }
                Some(Errno::NFILE) => "the system's limit of open files is reached",
                _ => "new connections wait",
            };
            tracing::warn!("gateway: cannot accept a connection beside {open}: {error}: {words}");
        }
        let is_paused = self.listener.pause().is_ok();
        runtime.sleep(ACCEPT_PAUSE_NS).await;
        while is_paused && self.listener.resume().is_err() {
            runtime.sleep(ACCEPT_PAUSE_NS).await;
        }
    }

    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        let counters = &self.context.thread.counters;
        // If peers have to authenticate, their connections begin without a seat.
        let is_newcomer = self.context.thread.shared.options.newcomers() > 0;
        let seat = (!is_newcomer)
            .then(|| self.context.thread.shared.seat())
            .flatten();
        if seat.is_none() && !is_newcomer {
            counters.connections_refused.add(1);
            // The message fits the empty buffer of a new socket. If the message does not fit, the client sees only the
            // end of the connection.
            let _ = (&socket).write(format!("-{TOO_MANY}\r\n").as_bytes());
            return;
        }
        counters.connections.add(1);
        // A socket that fails at this point has already ended.
        if let Ok(connection) = self.connection(socket, peer, seat) {
            self.context
                .thread
                .runtime
                .spawn(Box::pin(connection.serve()));
        }
    }

    fn connection(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        seat: Option<Seat>,
    ) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE)?;
        let local = socket.local_addr()?;
        let shared = &self.context.thread.shared;
        let socket = Arc::new(socket);
        let source = self.context.thread.reactor.add(socket.clone())?;
        let transport = Transport::new(source, shared.secrets.tls().as_ref());
        let transport = transport.map_err(io::Error::other)?;
        let card = Card::new(shared.clients.number(), peer, local, shared.uptime());
        let card = Arc::new(card);
        let listed = shared.clients.add(card.clone(), socket);
        let session = Session::new(card, self.context.thread.runtime.now(), &shared.secrets.acl);
        Ok(Connection::new(
            self.context.clone(),
            session,
            transport,
            (seat, listed),
        ))
    }
}
