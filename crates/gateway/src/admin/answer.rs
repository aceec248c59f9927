//! Answers requests to the admin port.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use stonecast_fabric::Runtime;

use super::exposition::Format;
use super::http::{Answer, Head, Status};
use super::pulse::Pulse;
use super::questions::{Asked, Question, ask};
use super::stay::Stay;
use crate::guesses::{Guesses, OwnGuesses};
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
}

impl Admin {
    /// The admin port of a gateway. Questions sent to `observer` reach the observer thread.
    pub fn new(shared: Arc<Shared>, pulse: Arc<Pulse>, observer: Sender<Asked>) -> Self {
        Self {
            shared,
            pulse,
            observer,
            guesses: Guesses::new(1),
        }
    }

    /// Answers a request, which must carry `password` if there is one.
    pub async fn answer(
        &self,
        request: &Head,
        password: Option<&Password>,
        stay: &Stay,
        runtime: &Rc<dyn Runtime>,
    ) -> Answer {
        let path = &*request.path;
        if !matches!(path, "/metrics" | "/healthz" | "/readyz" | "/status") {
            let words = "/metrics, /healthz, /readyz and /status are here\n";
            return Answer::text(Status::NotFound, words);
        }
        if request.method != "GET" && request.method != "HEAD" {
            let words = "nothing can be changed at this port\n";
            return Answer::text(Status::MethodNotAllowed, words).with("allow", "GET, HEAD");
        }
        let question = match path {
            "/healthz" => return self.health(),
            "/readyz" => Question::Ready,
            "/status" => Question::Status,
            _ => Question::Metrics(format_of(request)),
        };
        // Health and readiness need no password.
        if question != Question::Ready
            && let Some(password) = password
            && !self.is_allowed(request, password, stay, runtime).await
        {
            return Answer::text(Status::Unauthorized, "the password is required\n")
                .with("www-authenticate", "Basic realm=\"stonecast\"");
        }
        stay.answer();
        let answer = ask(&self.observer, question).await;
        match question {
            Question::Metrics(_) => answer.with("vary", "Accept"),
            _ => answer,
        }
    }

    fn health(&self) -> Answer {
        if self.pulse.is_alive() {
            Answer::text(Status::Ok, "alive\n")
        } else {
            Answer::text(
                Status::ServiceUnavailable,
                "a thread of the gateway hangs\n",
            )
        }
    }

    /// Waits for the turn of this guess, then returns whether the head of the request carries the password. Any user
    /// name is accepted.
    async fn is_allowed(
        &self,
        request: &Head,
        password: &Password,
        stay: &Stay,
        runtime: &Rc<dyn Runtime>,
    ) -> bool {
        let Some(said) = said(request.authorization.as_deref()) else {
            return false;
        };
        let own = OwnGuesses::new(stay.origin);
        let turn = self.guesses.turn(&own, runtime).await;
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
fn said(authorization: Option<&str>) -> Option<Vec<u8>> {
    let (scheme, credentials) = authorization?.split_once(' ')?;
    let decoded = BASE64_STANDARD.decode(credentials.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    scheme
        .eq_ignore_ascii_case("Basic")
        .then(|| decoded[colon + 1..].to_vec())
}

/// The text format that a request asks for.
fn format_of(request: &Head) -> Format {
    let accept: Vec<&str> = request.accept.iter().map(String::as_str).collect();
    Format::asked_for(&accept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_follows_the_first_colon() {
        let said = |value| said(Some(value));
        // any:open sesame
        assert_eq!(said("Basic YW55Om9wZW4gc2VzYW1l").unwrap(), b"open sesame");
        // :a:b
        assert_eq!(said("basic  OmE6Yg==").unwrap(), b"a:b");
        for wrong in ["Basic", "Bearer OmE=", "Basic !", "Basic YQ==", ""] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }
}
