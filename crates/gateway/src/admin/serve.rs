//! The HTTP server of the admin port: accepts connections and cuts off slow ones.
//!
//! ```text
//!   listener --accept--> task for each connection: head, answer, end
//!                          ^ cut: a newer connection takes its place, or its time is over
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::task::Waker;
use std::time::SystemTime;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Park, Runtime, boot_time, select};

use super::answer::Admin;
use super::cut::Cut;
use super::http::{Answer, HEAD_SIZE_MAX, Head, Status};
use super::stay::{Crowd, Stay};
use super::stream::Stream;
use crate::error::{GatewayError, system};
use crate::origin::Origin;
use crate::reactor::{Reactor, Source};

/// The time limit of the head of a request, with the TLS handshake before it.
const HEAD_NS_MAX: Nanoseconds = 5_000_000_000;
/// The longest time that a connection lasts. Each connection answers one question.
const CONNECTION_NS_MAX: Nanoseconds = 15_000_000_000;
/// The interval between two checks for the request to stop.
const LOOK_NS: Nanoseconds = 100_000_000;

/// State that all connections share.
struct Port {
    admin: Admin,
    /// Whether this machine alone reaches the port, which then asks for no password.
    is_open: bool,
    runtime: Rc<dyn Runtime>,
    reactor: Rc<Reactor>,
    crowd: Rc<Crowd>,
}

/// The sleep of the thread, which waits for nothing but sockets and the answers of the observer.
struct Sockets(Rc<Reactor>);

impl Park for Sockets {
    fn now(&self) -> Nanoseconds {
        boot_time()
    }

    fn park(&self, timeout: Nanoseconds) {
        self.0.poll(timeout);
    }

    fn unpark(&self) -> Option<Waker> {
        Some(self.0.waker())
    }
}

/// Answers requests until the gateway is stopped.
pub fn run(listener: TcpListener, admin: Admin) -> Result<(), GatewayError> {
    let reactor = Rc::new(Reactor::new().map_err(system("creating an epoll instance"))?);
    let executor = BusyPoll::new(Rc::new(Sockets(reactor.clone())), 0);
    // A port that is reachable from other machines requires the password.
    let is_open = listener
        .local_addr()
        .map_err(system("asking for the address of the admin port"))?
        .ip()
        .is_loopback();
    let port = Rc::new(Port {
        is_open,
        runtime: executor.runtime(),
        reactor,
        crowd: Rc::default(),
        admin,
    });
    let listener = port.reactor.add_shared(listener);
    let listener = listener.map_err(system("watching the admin port"))?;
    let accepting = accept(&port, &listener);
    executor
        .block_on(accepting)
        .map_err(system("watching the admin port"))
}

async fn accept(port: &Rc<Port>, listener: &Source<TcpListener>) -> io::Result<()> {
    let runtime = &port.runtime;
    while !port.admin.shared.is_stopping() {
        if runtime.within(LOOK_NS, listener.readable()).await.is_err() {
            // Regular calls date a thread's silence from its beginning.
            port.admin.pulse.is_alive();
            continue;
        }
        match listener.socket().accept() {
            Ok((socket, peer)) => {
                // A connection that cannot be watched ends.
                let _ = admit(port, socket, peer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                listener.readiness().clear_readable();
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No file descriptor is free for another connection until a connection ends. The waiting connection keeps
            // the listener ready, so the thread would not sleep.
            Err(_) => {
                listener.pause()?;
                runtime.sleep(LOOK_NS).await;
                listener.resume()?;
            }
        }
    }
    Ok(())
}

fn admit(port: &Rc<Port>, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let source = port.reactor.add(socket)?;
    let stay = Stay::new(port.crowd.clone(), Origin::of(peer.ip()));
    let cut = Rc::new(Cut::default());
    stay.enter(cut.clone());
    let task_port = port.clone();
    port.runtime.spawn(Box::pin(async move {
        let work = connection(&task_port, source, &stay);
        let limited = task_port.runtime.within(CONNECTION_NS_MAX, work);
        // A connection that is cut, takes too long or fails ends without a message.
        let _ = select(cut.wait(), limited).await;
    }));
    Ok(())
}

async fn connection(port: &Port, source: Source<TcpStream>, stay: &Stay) -> io::Result<()> {
    let secrets = &port.admin.shared.secrets;
    let mut stream = Stream::new(source, secrets.tls().as_ref()).map_err(io::Error::other)?;
    let reading = port.runtime.within(HEAD_NS_MAX, head(&mut stream));
    let Ok(head) = reading.await else {
        return Ok(());
    };
    let (answer, is_head_only) = match head? {
        Ok(head) => {
            let password = secrets.password().filter(|_| !port.is_open);
            let (password, runtime) = (password.as_deref(), &port.runtime);
            let answer = port.admin.answer(&head, password, stay, runtime).await;
            (answer, head.method == "HEAD")
        }
        Err(status) => (
            Answer::text(status, "no request that this port understands\n"),
            false,
        ),
    };
    let bytes = answer.encode(is_head_only, SystemTime::now());
    stream.write(&bytes).await?;
    stream.close();
    Ok(())
}

/// Reads the head of a request. The inner error is the status that refuses the request.
async fn head(stream: &mut Stream) -> io::Result<Result<Head, Status>> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        if !stream.read(&mut bytes).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Without the end of a line there is nothing new to understand, unless the head is too long.
        if !bytes[before..].contains(&b'\n') && bytes.len() < HEAD_SIZE_MAX {
            continue;
        }
        if let Some(head) = Head::parse(&bytes).transpose() {
            return Ok(head);
        }
    }
}
