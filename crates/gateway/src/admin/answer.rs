//! Answers requests to the admin port.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use stonecast_base::Nanoseconds;
use tokio::time::{Instant, sleep_until};

use super::exposition::Format;
use super::pulse::Pulse;
use super::questions::{Answer, Asked, Question, ask};
use super::stay::Stay;
use crate::guesses::{Clock, Guesses, OwnGuesses};
use crate::options::Password;
use crate::shared::Shared;

/// State that all answers share.
pub struct Admin {
    /// The gateway.
    pub shared: Arc<Shared>,
    /// Whether the gateway's threads make progress.
    pub pulse: Arc<Pulse>,
    observer: Sender<Asked>,
    guesses: Guesses,
    clock: TokioClock,
}

/// Time since the admin port began.
struct TokioClock {
    began_at: Instant,
}

impl Clock for TokioClock {
    fn now(&self) -> Nanoseconds {
        self.began_at.elapsed().as_nanos() as Nanoseconds
    }

    fn sleep_until(&self, deadline: Nanoseconds) -> impl Future<Output = ()> {
        sleep_until(self.began_at + Duration::from_nanos(deadline))
    }
}

impl Admin {
    /// The admin port of a gateway. Questions sent to `observer` reach the observer thread.
    pub fn new(shared: Arc<Shared>, pulse: Arc<Pulse>, observer: Sender<Asked>) -> Self {
        Self {
            shared,
            pulse,
            observer,
            guesses: Guesses::new(1),
            clock: TokioClock {
                began_at: Instant::now(),
            },
        }
    }

    /// Answers a request, which must carry `password` if there is one.
    pub async fn answer(
        &self,
        request: &Request<Incoming>,
        password: Option<&Password>,
        stay: &Stay,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/metrics" | "/healthz" | "/readyz" | "/status") {
            let words = "/metrics, /healthz, /readyz and /status are here\n";
            return response(Answer::text(StatusCode::NOT_FOUND, words));
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let words = "nothing can be changed at this port\n";
            let mut refusal = response(Answer::text(StatusCode::METHOD_NOT_ALLOWED, words));
            refusal
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let question = match path {
            "/healthz" => return response(self.health()),
            "/readyz" => Question::Ready,
            "/status" => Question::Status,
            _ => Question::Metrics(format_of(request)),
        };
        // Health and readiness need no password.
        if question != Question::Ready
            && let Some(password) = password
            && !self.is_allowed(request, password, stay).await
        {
            let mut refusal = response(Answer::text(
                StatusCode::UNAUTHORIZED,
                "the password is required\n",
            ));
            refusal.headers_mut().insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"stonecast\""),
            );
            return refusal;
        }
        stay.answer();
        let mut response = response(ask(&self.observer, question).await);
        if let Question::Metrics(_) = question {
            let headers = response.headers_mut();
            headers.insert(VARY, HeaderValue::from_static("Accept"));
        }
        response
    }

    fn health(&self) -> Answer {
        if self.pulse.is_alive() {
            Answer::text(StatusCode::OK, "alive\n")
        } else {
            Answer::text(
                StatusCode::SERVICE_UNAVAILABLE,
                "a thread of the gateway hangs\n",
            )
        }
    }

    /// Waits for the turn of this guess, then returns whether the head of the request carries the password. Any user
    /// name is accepted.
    async fn is_allowed(
        &self,
        request: &Request<Incoming>,
        password: &Password,
        stay: &Stay,
    ) -> bool {
        let Some(said) = said(request.headers().get(AUTHORIZATION)) else {
            return false;
        };
        let own = OwnGuesses::new(stay.origin);
        let turn = self.guesses.turn(&own, &self.clock).await;
        let counters = &self.shared.admin;
        counters.passwords_delayed.add(turn.was_late.into());
        let is_right = password.is(&said);
        if !is_right {
            counters.wrong_passwords.add(1);
            turn.was_wrong();
        }
        is_right
    }
}

/// The password in an `Authorization` header.
fn said(authorization: Option<&HeaderValue>) -> Option<Vec<u8>> {
    let (scheme, credentials) = authorization?.to_str().ok()?.split_once(' ')?;
    let decoded = BASE64_STANDARD.decode(credentials.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    scheme
        .eq_ignore_ascii_case("Basic")
        .then(|| decoded[colon + 1..].to_vec())
}

/// The text format that a request asks for.
fn format_of(request: &Request<Incoming>) -> Format {
    let accept = request.headers().get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    Format::asked_for(&accept)
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_follows_the_first_colon() {
        let said = |value: &'static str| said(Some(&HeaderValue::from_static(value)));
        // any:open sesame
        assert_eq!(said("Basic YW55Om9wZW4gc2VzYW1l").unwrap(), b"open sesame");
        // :a:b
        assert_eq!(said("basic  OmE6Yg==").unwrap(), b"a:b");
        for wrong in ["Basic", "Bearer OmE=", "Basic !", "Basic YQ==", ""] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
