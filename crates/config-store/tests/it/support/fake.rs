//! A server that answers like an etcd, or not quite.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The server's reaction to a request.
pub enum Reply {
    /// Answers with this status and body.
    Say(u16, String),
    /// Answers with status 200 and this body as soon as the other end of the channel sends or is gone.
    Later(Receiver<()>, String),
    /// Answers with this head and nothing after it, and leaves the connection open.
    Head(String),
    /// Answers with these bytes, and takes the next request.
    Raw(String),
    /// Answers with status 200 and this body, and closes the connection without a word about that.
    Last(String),
    /// Answers with the first text, and with the second one again and again, a byte at a time.
    Drip(&'static str, &'static str),
    /// Answers with these lines as a stream, and leaves the stream open.
    Stream(Vec<String>),
    /// Never answers.
    Silence,
    /// Closes the connection.
    HangUp,
    /// Answers with bytes that are not HTTP.
    Noise,
}

type Answer = Box<dyn FnMut(&str, &str) -> Reply + Send>;
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// The pause after each byte of [`Reply::Drip`].
const DRIP_EVERY: Duration = Duration::from_millis(20);

/// A server on the loopback; its answers are those of a function of path and body.
pub struct Fake {
    pub endpoint: String,
    /// Path and body of all requests.
    pub requests: Requests,
    /// The number of connections.
    pub connections: Arc<AtomicUsize>,
    /// The certificate for new connections; `None`: the server does not speak TLS.
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    is_closed: Arc<AtomicBool>,
}

impl Fake {
    pub fn start(answer: impl FnMut(&str, &str) -> Reply + Send + 'static) -> Self {
        Self::start_within(None, answer)
    }

    /// Starts a server that speaks TLS.
    pub fn start_encrypted(
        tls: Arc<ServerConfig>,
        answer: impl FnMut(&str, &str) -> Reply + Send + 'static,
    ) -> Self {
        Self::start_within(Some(tls), answer)
    }

    fn start_within(
        tls: Option<Arc<ServerConfig>>,
        answer: impl FnMut(&str, &str) -> Reply + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let fake = Self {
            endpoint,
            requests: Arc::default(),
            connections: Arc::default(),
            tls: Arc::new(Mutex::new(tls)),
            is_closed: Arc::default(),
        };
        let (requests, is_closed) = (fake.requests.clone(), fake.is_closed.clone());
        let (tls, connections) = (fake.tls.clone(), fake.connections.clone());
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_closed.load(Ordering::Relaxed) {
                    return;
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let (answer, requests) = (answer.clone(), requests.clone());
                let tls = tls.lock().unwrap().clone();
                let stream = stream.unwrap();
                thread::spawn(move || match tls {
                    None => serve(stream, &answer, &requests),
                    Some(tls) => {
                        let mut raw = stream.try_clone().ok()?;
                        let connection = ServerConnection::new(tls).unwrap();
                        serve(StreamOwned::new(connection, stream), &answer, &requests);
                        // Unread bytes would turn the end into a reset, which overtakes the alert.
                        raw.read_to_end(&mut Vec::new()).ok().map(drop)
                    }
                });
            }
        });
        fake
    }

    /// Shows another certificate to new connections. Existing connections go on.
    pub fn renew(&self, tls: Arc<ServerConfig>) {
        *self.tls.lock().unwrap() = Some(tls);
    }

    pub fn count(&self, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|(asked, _)| asked == path).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.endpoint);
    }
}

fn serve(stream: impl Read + Write, answer: &Mutex<Answer>, requests: &Requests) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (path, body) = read_request(&mut reader)?;
        requests.lock().unwrap().push((path.clone(), body.clone()));
        let reply = answer.lock().unwrap()(&path, &body);
        give(reply, &mut reader)?;
    }
}

/// Path and body of the next request.
fn read_request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut size = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        let header = header.to_ascii_lowercase();
        if let Some(text) = header.strip_prefix("content-length:") {
            size = text.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; size];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

/// Reacts to a request. `None`: the connection ends.
fn give<S: Read + Write>(reply: Reply, reader: &mut BufReader<S>) -> Option<()> {
    let writer = reader.get_mut();
    match reply {
        Reply::Say(status, text) => return say(writer, status, &text),
        Reply::Later(moment, text) => {
            let _ = moment.recv();
            return say(writer, 200, &text);
        }
        Reply::Raw(text) => {
            writer.write_all(text.as_bytes()).ok()?;
            return writer.flush().ok();
        }
        Reply::Last(text) => say(writer, 200, &text)?,
        Reply::Drip(start, rest) => drip(writer, start, rest)?,
        Reply::Stream(lines) => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            writer.write_all(head.as_bytes()).ok()?;
            for line in lines {
                let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                writer.write_all(chunk.as_bytes()).ok()?;
            }
            wait_for_the_end(reader);
        }
        Reply::Head(head) => {
            writer.write_all(head.as_bytes()).ok()?;
            wait_for_the_end(reader);
        }
        Reply::Silence => wait_for_the_end(reader),
        Reply::HangUp => {}
        Reply::Noise => writer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").ok()?,
    }
    None
}

/// Sends a byte at a time until the peer is gone.
fn drip(writer: &mut impl Write, start: &str, rest: &str) -> Option<()> {
    for byte in start.bytes().chain(rest.bytes().cycle()) {
        writer.write_all(&[byte]).ok()?;
        writer.flush().ok()?;
        thread::sleep(DRIP_EVERY);
    }
    None
}

fn say(writer: &mut impl Write, status: u16, text: &str) -> Option<()> {
    let size = text.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {size}\r\n\r\n");
    writer.write_all((head + text).as_bytes()).ok()?;
    writer.flush().ok()
}

fn wait_for_the_end(reader: &mut impl Read) {
    let mut rest = Vec::new();
    // The end may be of any kind.
    let _ = reader.read_to_end(&mut rest);
}
