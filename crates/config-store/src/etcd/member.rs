//! One endpoint of an etcd: requests over kept connections, within bounds.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::Value;

use super::Bounds;
use super::error::{EtcdError, Sent};
use super::http::{Answer, Http, HttpError};
use super::login::Login;
use super::messages::{
    Header, Heard, Key, Range, Refusal, first_words_of, parse_swap, parse_token, parse_watch,
};
use super::tls::{explain, read};
use crate::address::{EtcdAddress, TlsFiles};

/// Longest answer in bytes: the longest value in base64, and room for the text around it.
const ANSWER_SIZE_MAX: u64 = 4 << 20;

/// One endpoint. A clone shares its connections.
#[derive(Clone)]
pub struct Member {
    /// `HOST:PORT`.
    pub endpoint: String,
    login: Option<Login>,
    token: Option<String>,
    tls: Option<TlsFiles>,
    bounds: Bounds,
    http: Http,
}

impl Member {
    /// The member at `endpoint`, one of the endpoints of `address`. `tls` and `login` have the content of the address's
    /// files.
    pub fn new(
        endpoint: &str,
        address: &EtcdAddress,
        bounds: Bounds,
        tls: Option<&Arc<ClientConfig>>,
        login: Option<&Login>,
    ) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            login: login.cloned(),
            token: None,
            tls: address.tls.clone(),
            bounds,
            http: Http::new(endpoint, bounds.connect, tls.cloned()),
        }
    }

    /// The key's newest value.
    pub fn range(&mut self, key: &Key) -> Result<Range, EtcdError> {
        let answer = self.with_renewed_files(|member| member.ask("/v3/kv/range", &key.range()))?;
        Range::parse(key, &answer).map_err(|reason| self.garbage(reason))
    }

    /// Asks with the files of TLS as they were read last, and if they fail, with the files as they are now:
    /// certificates may be renewed while a store is open. `ask` may be repeated.
    fn with_renewed_files<T>(
        &mut self,
        ask: impl Fn(&mut Self) -> Result<T, EtcdError>,
    ) -> Result<T, EtcdError> {
        match ask(self) {
            Err(EtcdError::Tls { .. }) if self.read_files() => ask(self),
            answer => answer,
        }
    }

    /// Reads the files of TLS, and begins new connections with them. Returns whether that succeeded. Unusable files
    /// change nothing: another program may be writing them.
    fn read_files(&mut self) -> bool {
        let Some(Ok(tls)) = self.tls.as_ref().map(read) else {
            return false;
        };
        self.http = Http::new(&self.endpoint, self.bounds.connect, Some(tls));
        true
    }

    /// Stores `value` if the key is at revision `expected`, and returns whether it did.
    pub fn swap(
        &mut self,
        key: &Key,
        expected: u64,
        value: &[u8],
    ) -> Result<(Header, bool), EtcdError> {
        self.authenticate()?;
        let answer = self.ask("/v3/kv/txn", &key.swap(expected, value));
        let swapped = answer
            .and_then(|body| parse_swap(expected, &body).map_err(|reason| self.garbage(reason)));
        swapped.map_err(|error| error.after(Sent::Yes))
    }

    /// Waits for an event of the key at `revision` or later. `false`: there was none for long enough.
    pub fn listen(&mut self, key: &Key, revision: u64) -> Result<bool, EtcdError> {
        let end = Instant::now() + self.bounds.listen;
        // A read over a kept connection succeeds when the certificates of new connections have expired.
        let answer = self.with_renewed_files(|member| {
            member.authenticate()?;
            member.post("/v3/watch", &key.watch(revision), member.bounds.listen)
        })?;
        let mut lines = BufReader::new(answer.take(ANSWER_SIZE_MAX));
        loop {
            let mut line = Vec::new();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => return Err(self.watch_ended("the stream ended")),
                Ok(_) => {}
                Err(_) if Instant::now() >= end => return Ok(false),
                Err(error) => return Err(self.watch_ended(error)),
            }
            match parse_watch(&line).map_err(|reason| self.garbage(reason))? {
                Heard::Event => return Ok(true),
                Heard::Nothing => {}
                Heard::Canceled(reason) => return Err(self.watch_ended(reason)),
            }
        }
    }

    /// The body of an answer. An expired token is replaced once.
    fn ask(&mut self, path: &str, request: &Value) -> Result<Vec<u8>, EtcdError> {
        self.authenticate()?;
        let answer = self.ask_once(path, request);
        match answer {
            Err(error) if error.wants_a_token() && self.login.is_some() => {
                self.token = None;
                match self.authenticate() {
                    Ok(()) => self.ask_once(path, request),
                    Err(_) => Err(error),
                }
            }
            answer => answer,
        }
    }

    /// Gets a token, if there are credentials and no token.
    fn authenticate(&mut self) -> Result<(), EtcdError> {
        let (None, Some(login)) = (&self.token, &mut self.login) else {
            return Ok(());
        };
        let request = login.request();
        let body = self.ask_once("/v3/auth/authenticate", &request)?;
        let token = parse_token(&body).map_err(|reason| self.garbage(reason))?;
        self.token = Some(token);
        Ok(())
    }

    fn ask_once(&self, path: &str, request: &Value) -> Result<Vec<u8>, EtcdError> {
        let answer = self.post(path, request, self.bounds.answer)?;
        let bytes = answer.into_bytes(ANSWER_SIZE_MAX);
        bytes.map_err(|error| self.failed(error))
    }

    /// Sends a request. Returns the head of its answer, unless the answer is a refusal.
    fn post(&self, path: &str, request: &Value, within: Duration) -> Result<Answer, EtcdError> {
        let (token, body) = (self.token.as_deref(), request.to_string());
        let answer = self.http.post(path, token, &body, within);
        let answer = answer.map_err(|error| self.failed(error))?;
        let status = answer.status;
        if status == 200 {
            return Ok(answer);
        }
        let body = answer.into_bytes(ANSWER_SIZE_MAX);
        let body = body.map_err(|error| self.failed(error))?;
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        Err(EtcdError::Refused {
            endpoint: self.endpoint.clone(),
            status,
            code: refusal.code,
            message: match refusal.message.is_empty() {
                true => first_words_of(&String::from_utf8_lossy(&body)),
                false => first_words_of(&refusal.message),
            },
        })
    }

    fn failed(&self, error: HttpError) -> EtcdError {
        let endpoint = self.endpoint.clone();
        match (error, &self.tls) {
            (HttpError::NotReached(reason), _) => EtcdError::NotReached { endpoint, reason },
            (HttpError::Tls(error), Some(files)) => {
                let reason = explain(&error, files);
                EtcdError::Tls { endpoint, reason }
            }
            (HttpError::Failed(error), _) if is_hanging_up(&error) => {
                let reason = format!("{error}; {}", self.why_it_hangs_up());
                EtcdError::NoAnswer { endpoint, reason }
            }
            (HttpError::Failed(error), _) => {
                let reason = error.to_string();
                EtcdError::NoAnswer { endpoint, reason }
            }
            (HttpError::Garbage(reason), _) => self.garbage(reason),
            (HttpError::Tls(error), None) => self.garbage(error.to_string()),
        }
    }

    /// An etcd that expects another kind of connection ends this one, often without a message.
    fn why_it_hangs_up(&self) -> &'static str {
        match &self.tls {
            None => "an etcd that requires TLS does that: use etcds:// there",
            Some(TlsFiles { identity: None, .. }) => {
                "an etcd without TLS does that: use etcd:// there; and so does one that requires a certificate of its clients: name cert and key"
            }
            Some(_) => {
                "an etcd without TLS does that: use etcd:// there; and so does one that refuses the certificate of this client"
            }
        }
    }

    fn garbage(&self, reason: String) -> EtcdError {
        EtcdError::Garbage {
            endpoint: self.endpoint.clone(),
            reason: first_words_of(&reason),
        }
    }

    fn watch_ended(&self, reason: impl ToString) -> EtcdError {
        EtcdError::WatchEnded {
            endpoint: self.endpoint.clone(),
            reason: first_words_of(&reason.to_string()),
        }
    }
}

fn is_hanging_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
    )
}
