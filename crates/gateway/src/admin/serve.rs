//! The HTTP server of the admin port: accepts connections and cuts off those that are slow.

use std::convert::Infallible;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::answer::Admin;
use super::stay::{Crowd, Stay};
use crate::error::{GatewayError, system};
use crate::options::Password;
use crate::origin::Origin;

/// The time limit of a TLS handshake, and of the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest time that a connection lasts. Each connection answers one question.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(15);
/// The interval between two checks for the request to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Longest head of a request, in bytes.
const HEAD_SIZE_MAX: usize = 16 << 10;

/// State that all connections share.
struct Port {
    admin: Admin,
    password: Option<Password>,
    tls: Option<TlsAcceptor>,
}

/// Answers requests until the gateway is stopped.
pub fn run(
    listener: TcpListener,
    admin: Admin,
    tls: Option<Arc<ServerConfig>>,
) -> Result<(), GatewayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(system("starting the admin port"))?;
    LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(system("watching the admin port"))?;
        // A port that is reachable from other machines requires the password.
        let is_open = listener
            .local_addr()
            .map_err(system("asking for the address of the admin port"))?
            .ip()
            .is_loopback();
        let port = Rc::new(Port {
            password: admin.shared.options.password.clone().filter(|_| !is_open),
            tls: tls.map(TlsAcceptor::from),
            admin,
        });
        let crowd = Rc::new(Crowd::default());
        while !port.admin.shared.is_stopping() {
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((socket, peer))) => {
                    let stay = Stay::new(crowd.clone(), Origin::of(peer.ip()));
                    let task = spawn_local(connection(port.clone(), socket, stay.clone()));
                    stay.enter(task.abort_handle());
                }
                // No file descriptor is free for another connection until a connection ends.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                // Regular calls date a thread's silence from its beginning.
                Err(_) => drop(port.admin.pulse.is_alive()),
            }
        }
        Ok(())
    })
}

async fn connection(port: Rc<Port>, socket: TcpStream, stay: Rc<Stay>) {
    // A connection that takes too long or fails ends without a message.
    let _ = timeout(CONNECTION_TIME_MAX, async {
        match &port.tls {
            None => talk(&port, socket, &stay).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(HEAD_TIME_MAX, acceptor.accept(socket)).await {
                    talk(&port, stream, &stay).await;
                }
            }
        }
    })
    .await;
}

async fn talk(port: &Port, stream: impl AsyncRead + AsyncWrite + Unpin, stay: &Stay) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let answer = port.admin.answer(&request, port.password.as_ref(), stay);
        Ok::<_, Infallible>(answer.await)
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_SIZE_MAX)
        .keep_alive(false);
    // An error of the peer concerns this connection alone.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
