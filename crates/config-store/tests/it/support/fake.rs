//! A server that answers like an etcd, or not quite.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The server's reaction to a request.
pub enum Reply {
    /// Answers with this status and body.
    Say(u16, String),
    /// Answers with status 200 and this body as soon as the other end of the channel sends or is gone.
    Later(Receiver<()>, String),
    /// Answers with this head and nothing after it, and leaves the connection open.
    Head(String),
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

/// A server on the loopback; its answers are those of a function of path and body.
pub struct Fake {
    pub endpoint: String,
    /// Path and body of all requests.
    pub requests: Arc<Mutex<Vec<(String, String)>>>,
    /// The certificate for new connections; `None`: the server does not speak TLS.
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    is_closed: Arc<AtomicBool>,
}

impl Fake {
    pub fn start(answer: impl FnMut(&str, &str) -> Reply + Send + 'static) -> Self {
        Self::start_within(None, answer)
    }

    /// The same over TLS.
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
            tls: Arc::new(Mutex::new(tls)),
            is_closed: Arc::default(),
        };
        let (requests, is_closed) = (fake.requests.clone(), fake.is_closed.clone());
        let tls = fake.tls.clone();
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_closed.load(Ordering::Relaxed) {
                    return;
                }
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

    /// Shows another certificate to new connections. Those that exist go on.
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

fn serve(
    stream: impl Read + Write,
    answer: &Mutex<Answer>,
    requests: &Mutex<Vec<(String, String)>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
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
        let body = String::from_utf8(body).ok()?;
        requests.lock().unwrap().push((path.clone(), body.clone()));
        let reply = answer.lock().unwrap()(&path, &body);
        let writer = reader.get_mut();
        match reply {
            Reply::Say(status, text) => say(writer, status, &text)?,
            Reply::Later(moment, text) => {
                let _ = moment.recv();
                say(writer, 200, &text)?;
            }
            Reply::Stream(lines) => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                writer.write_all(head.as_bytes()).ok()?;
                for line in lines {
                    let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                    writer.write_all(chunk.as_bytes()).ok()?;
                }
                wait_for_the_end(&mut reader);
                return None;
            }
            Reply::Head(head) => {
                writer.write_all(head.as_bytes()).ok()?;
                wait_for_the_end(&mut reader);
                return None;
            }
            Reply::Silence => {
                wait_for_the_end(&mut reader);
                return None;
            }
            Reply::HangUp => return None,
            Reply::Noise => {
                writer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").ok()?;
                return None;
            }
        }
    }
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
