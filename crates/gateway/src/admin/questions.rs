//! Questions that need the store, and the thread that asks the store.
//!
//! ```text
//!   HTTP thread --Question--> observer thread --metrics--> store
//!       ^------------Answer-----------'
//! ```
//!
//! The store may take seconds to answer, and a report is a few hundred lines of text. The HTTP thread waits for
//! neither, and so can answer health meanwhile. One report, made after the questions came, answers all questions that
//! wait: the store gets one question at a time, however many clients ask.

use std::iter;
use std::sync::mpsc::{Receiver, Sender};

use futures_channel::oneshot;

use super::exposition::Format;
use super::http::{Answer, Status};
use super::observer::Observer;
use super::{prometheus, status};

/// A question that needs the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// All counters.
    Metrics(Format),
    /// Everything, as JSON.
    Status,
    /// Whether clients are served and the store answers.
    Ready,
}

/// A question, and the channel for its answer.
pub struct Asked {
    question: Question,
    reply: oneshot::Sender<Answer>,
}

/// Asks the observer thread and waits for its answer.
pub async fn ask(observer: &Sender<Asked>, question: Question) -> Answer {
    let (reply, answer) = oneshot::channel();
    let is_sent = observer.send(Asked { question, reply }).is_ok();
    let answer = if is_sent { answer.await.ok() } else { None };
    answer.unwrap_or_else(|| Answer::text(Status::ServiceUnavailable, "the gateway ends\n"))
}

/// Answers questions until all senders are gone.
pub fn answer_all(observer: &Observer, questions: &Receiver<Asked>) {
    while let Ok(first) = questions.recv() {
        let waiting: Vec<Asked> = iter::once(first).chain(questions.try_iter()).collect();
        let report = observer.report();
        let mut answers: Vec<(Question, Answer)> = Vec::new();
        for Asked { question, reply } in waiting {
            let known = answers.iter().find(|(other, _)| *other == question);
            let answer = match known {
                Some((_, answer)) => answer.clone(),
                None => {
                    let answer = report.answer(question, observer);
                    answers.push((question, answer.clone()));
                    answer
                }
            };
            // The connection may have ended meanwhile.
            drop(reply.send(answer));
        }
    }
}

impl super::observer::Report<'_> {
    fn answer(&self, question: Question, observer: &Observer) -> Answer {
        let whole = |content_type, body: String| Answer {
            status: Status::Ok,
            content_type,
            field: None,
            body: body.into(),
        };
        match question {
            Question::Metrics(format) => {
                let metrics = prometheus::metrics(self, &observer.copies(self));
                whole(format.content_type(), format.of(metrics))
            }
            Question::Status => whole("application/json", format!("{}\n", status::json(self))),
            Question::Ready => match self.silent() {
                None if self.shared.is_ready() => Answer::text(Status::Ok, "ready\n"),
                None => Answer::text(
                    Status::ServiceUnavailable,
                    "the gateway is not connected to the store\n",
                ),
                Some(silent) => Answer::text(Status::ServiceUnavailable, silent),
            },
        }
    }
}
