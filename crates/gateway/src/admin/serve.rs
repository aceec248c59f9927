//! The HTTP server of the admin port.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::exposition::Format;
use super::observer::Observer;
use super::{prometheus, status};
use crate::error::{GatewayError, system};
use crate::options::Password;
use crate::shared::Shared;

/// Connections at a time; more are told so and ended.
const CONNECTIONS_MAX: usize = 64;
/// What those are told.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 21\r\n\r\ntoo many connections\n";
/// How long a connection lasts at most: each answers one question.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// How often the thread looks whether it should end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of a request's head at most.
const HEAD_SIZE_MAX: usize = 16 << 10;

/// Serves the admin port until the gateway is stopped.
pub fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    tls: Option<Arc<ServerConfig>>,
) -> Result<(), GatewayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.map_err(system("starting the admin port"))?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(system("watching the admin port"))?;
        // Who can reach the port from elsewhere must say the password.
        let is_open = listener
            .local_addr()
            .map_err(system("asking for the address of the admin port"))?
            .ip()
            .is_loopback();
        let password = shared.options.password.clone().filter(|_| !is_open);
        let admin = Rc::new(Admin {
            observer: Observer::new(shared),
            password,
            places: Places::default(),
        });
        while !admin.observer.shared.is_stopping() {
            match timeout(LOOK, listener.accept()).await {
                Ok(Ok((socket, _))) => match admin.places.take() {
                    Some(place) => {
                        let work = connection(
                            admin.clone(),
                            socket,
                            tls.clone().map(TlsAcceptor::from),
                            place,
                        );
                        tokio::task::spawn_local(work);
                    }
                    // Fits the empty buffer of a new socket; where it does not, the end says enough.
                    None => drop(socket.try_write(REFUSAL)),
                },
                // No descriptor for another connection: some will be free soon.
                Ok(Err(_)) => tokio::time::sleep(LOOK).await,
                Err(_) => drop(admin.observer.is_alive()),
            }
        }
        Ok(())
    })
}

/// What the answers need.
struct Admin {
    observer: Observer,
    password: Option<Password>,
    places: Places,
}

/// Connections that there are. Taken when one is accepted: a task counts itself only when it runs, and a burst of
/// connections is accepted before any of them does.
#[derive(Default)]
struct Places(Rc<Cell<usize>>);

/// One of them; given back when dropped.
struct Place(Rc<Cell<usize>>);

impl Places {
    fn take(&self) -> Option<Place> {
        let taken = self.0.get();
        (taken < CONNECTIONS_MAX).then(|| {
            self.0.set(taken + 1);
            Place(self.0.clone())
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn connection(
    admin: Rc<Admin>,
    socket: tokio::net::TcpStream,
    tls: Option<TlsAcceptor>,
    place: Place,
) {
    // One that takes too long, or fails, is of no further interest.
    let _ = timeout(CONNECTION_TIME_MAX, async {
        match tls {
            None => talk(&admin, socket).await,
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(socket).await {
                    talk(&admin, stream).await;
                }
            }
        }
    })
    .await;
    drop(place);
}

async fn talk(admin: &Rc<Admin>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(admin.answer(&request))
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME_MAX)
        .max_buf_size(HEAD_SIZE_MAX)
        .keep_alive(false);
    // The other side's mistakes are its own.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

impl Admin {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/metrics" | "/healthz" | "/readyz" | "/status") {
            return text(
                StatusCode::NOT_FOUND,
                "/metrics, /healthz, /readyz and /status are here\n",
            );
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "there is nothing to change here\n",
            );
            refusal
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        // Health says nothing that is not for everybody.
        if !matches!(path, "/healthz" | "/readyz")
            && !self.is_allowed(request.headers().get(AUTHORIZATION))
        {
            let mut refusal = text(StatusCode::UNAUTHORIZED, "say the password\n");
            refusal.headers_mut().insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"stonecast\""),
            );
            return refusal;
        }
        match path {
            "/metrics" => self.metrics(request),
            "/status" => typed(
                "application/json",
                format!("{}\n", status::json(&self.observer)),
            ),
            "/healthz" if self.observer.is_alive() => text(StatusCode::OK, "alive\n"),
            "/healthz" => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "a thread of the gateway hangs\n",
            ),
            _ => match self.observer.metrics() {
                Ok(_) if self.observer.shared.is_ready() => text(StatusCode::OK, "ready\n"),
                Ok(_) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the gateway is not connected to the store\n",
                ),
                Err(_) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the store does not answer\n",
                ),
            },
        }
    }

    /// The counters, in the text format that the request asks for.
    fn metrics(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let accept = request.headers().get_all(ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
        let format = Format::asked_for(&accept);
        let mut response = typed(
            format.content_type(),
            format.of(prometheus::metrics(&self.observer)),
        );
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        response
    }

    /// Whether the head of a request says the password, if there is one. Any user name will do.
    fn is_allowed(&self, authorization: Option<&HeaderValue>) -> bool {
        let Some(password) = &self.password else {
            return true;
        };
        let credentials = authorization
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Basic "));
        let decoded = credentials.and_then(|credentials| BASE64_STANDARD.decode(credentials).ok());
        decoded.is_some_and(|decoded| {
            let said = decoded
                .iter()
                .position(|byte| *byte == b':')
                .map(|colon| &decoded[colon + 1..]);
            said.is_some_and(|said| password.is(said))
        })
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = typed("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpStream;

    use super::*;
    use crate::options::GatewayOptions;

    /// Needs a place to be taken before the task of a connection runs: a burst is accepted before any task does.
    #[test]
    fn a_burst_of_connections_does_not_get_past_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // All of them wait in the listener's queue when the port begins to accept, and are accepted in their order.
        let mut burst: Vec<TcpStream> = (0..CONNECTIONS_MAX + 36)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        listener.set_nonblocking(true).unwrap();
        let options = GatewayOptions {
            resp: None,
            admin: Some(address),
            ..GatewayOptions::new(address, "shm:/nowhere")
        };
        let shared = Arc::new(Shared::new(options, None));
        let port = std::thread::spawn({
            let shared = shared.clone();
            move || run(listener, shared, None)
        });
        for refused in &mut burst[CONNECTIONS_MAX..] {
            refused
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut answer = String::new();
            // Whoever was taken in is answered nothing, and ended after a while.
            refused.read_to_string(&mut answer).unwrap();
            assert_eq!(answer.as_bytes(), REFUSAL);
        }
        shared.stop();
        port.join().unwrap().unwrap();
    }
}
