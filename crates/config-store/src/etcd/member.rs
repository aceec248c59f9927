//! One endpoint of an etcd: requests over kept connections, within bounds.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body, Timeout};

use super::Bounds;
use super::error::{EtcdError, Sent};
use super::messages::{
    Header, Heard, Key, Range, Refusal, credentials, first_words_of, parse_swap, parse_token,
    parse_watch,
};

/// Longest answer, bytes: the longest value in base64, and room for what stands around it.
const ANSWER_SIZE_MAX: u64 = 4 << 20;

/// One endpoint. A clone shares its connections.
#[derive(Clone)]
pub struct Member {
    /// `HOST:PORT`.
    pub endpoint: String,
    credentials: Option<(String, String)>,
    token: Option<String>,
    calls: Agent,
    watches: Agent,
    listen: Duration,
}

/// An agent whose requests end within `bound`.
fn agent(bounds: Bounds, bound: Duration) -> Agent {
    Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent("stonecast")
        .timeout_connect(Some(bounds.connect))
        .timeout_global(Some(bound))
        .build()
        .new_agent()
}

impl Member {
    pub fn new(endpoint: &str, credentials: Option<(String, String)>, bounds: Bounds) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            credentials,
            token: None,
            calls: agent(bounds, bounds.answer),
            watches: agent(bounds, bounds.listen),
            listen: bounds.listen,
        }
    }

    /// The key's newest value.
    pub fn range(&mut self, key: &Key) -> Result<Range, EtcdError> {
        let body = self.ask("/v3/kv/range", &key.range())?;
        Range::parse(key, &body).map_err(|reason| self.garbage(reason))
    }

    /// Whether `value` was put because the key was at revision `expected`.
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

    /// Waits until something happens to the key at `revision` or later. `false`: nothing happened for long enough.
    pub fn listen(&mut self, key: &Key, revision: u64) -> Result<bool, EtcdError> {
        let end = Instant::now() + self.listen;
        self.authenticate()?;
        let response = self.post(&self.watches, "/v3/watch", &key.watch(revision))?;
        let mut lines = BufReader::new(response.into_body().into_reader().take(ANSWER_SIZE_MAX));
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

    /// The body of an answer. A token that does not count any more is replaced once.
    fn ask(&mut self, path: &str, request: &Value) -> Result<Vec<u8>, EtcdError> {
        self.authenticate()?;
        let answer = self.ask_once(path, request);
        match answer {
            Err(error) if error.wants_a_token() && self.credentials.is_some() => {
                self.token = None;
                match self.authenticate() {
                    Ok(()) => self.ask_once(path, request),
                    Err(_) => Err(error),
                }
            }
            answer => answer,
        }
    }

    /// Gets a token, where there are credentials and no token.
    fn authenticate(&mut self) -> Result<(), EtcdError> {
        let (None, Some((user, password))) = (&self.token, &self.credentials) else {
            return Ok(());
        };
        let body = self.ask_once("/v3/auth/authenticate", &credentials(user, password))?;
        let token = parse_token(&body).map_err(|reason| self.garbage(reason))?;
        self.token = Some(token);
        Ok(())
    }

    fn ask_once(&self, path: &str, request: &Value) -> Result<Vec<u8>, EtcdError> {
        let mut response = self.post(&self.calls, path, request)?;
        let body = response.body_mut().with_config().limit(ANSWER_SIZE_MAX);
        body.read_to_vec().map_err(|error| self.failed(error))
    }

    /// Sends a request. The head of its answer, unless that is a refusal.
    fn post(
        &self,
        agent: &Agent,
        path: &str,
        request: &Value,
    ) -> Result<Response<Body>, EtcdError> {
        let url = format!("http://{}{path}", self.endpoint);
        let mut post = agent.post(url).content_type("application/json");
        if let Some(token) = &self.token {
            post = post.header("Authorization", token);
        }
        let sent = post.send(request.to_string().as_bytes());
        let mut response = sent.map_err(|error| self.failed(error))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        let body = response.body_mut().with_config().limit(ANSWER_SIZE_MAX);
        let body = body.read_to_vec().map_err(|error| self.failed(error))?;
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

    fn failed(&self, error: ureq::Error) -> EtcdError {
        let (endpoint, reason) = (self.endpoint.clone(), error.to_string());
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        match error {
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                EtcdError::NotReached { endpoint, reason }
            }
            ureq::Error::Io(error) if is_refused(&error) => {
                EtcdError::NotReached { endpoint, reason }
            }
            ureq::Error::Io(_) | ureq::Error::Timeout(_) => {
                EtcdError::NoAnswer { endpoint, reason }
            }
            _ => EtcdError::Garbage {
                endpoint,
                reason: first_words_of(&reason),
            },
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
