//! Front-ends that the back-end expels from the mirror.

use std::collections::VecDeque;
use std::rc::Rc;

use super::link::lost;
use crate::backend::{MirrorLost, Stopped};
use crate::frontend::{Reply, Talk};
use crate::wire::{Answer, Request};

/// Expulsions that the mirror has not concluded. One request is sent at a time, so that requests of other kinds find a
/// slot. A front-end that is stopped in a write delays no other front-end.
#[derive(Default)]
pub(super) struct Expulsions {
    waiting: VecDeque<u64>,
    asked: Option<(u64, Rc<Reply>)>,
    ended: Vec<(u64, Stopped)>,
}

impl Expulsions {
    /// Begins to expel the front-end with `pass`.
    pub fn begin(&mut self, pass: u64) {
        self.waiting.push_back(pass);
    }

    /// Takes the answer of the mirror, and requests the next expulsion. The call does not wait.
    pub fn go_on(&mut self, talk: &Talk) -> Result<(), MirrorLost> {
        if let Some((pass, reply)) = &self.asked {
            let (pass, Some(answer)) = (*pass, reply.take()) else {
                return Ok(());
            };
            self.asked = None;
            match answer {
                Answer::Settled => self.ended.push((pass, Stopped::Certainly)),
                Answer::Unquiesced => self.ended.push((pass, Stopped::Perhaps)),
                Answer::Later { .. } => self.waiting.push_back(pass),
                _ => return Err(lost("it serves another back-end")),
            }
        }
        if let Some(pass) = self.waiting.front().copied() {
            let sent = talk.send(Request::Expel { pass }).map_err(lost)?;
            if let Some(reply) = sent {
                self.waiting.pop_front();
                self.asked = Some((pass, reply));
            }
        }
        Ok(())
    }

    /// Takes the expelled front-ends, each with whether a write that had begun may still land.
    pub fn take_ended(&mut self) -> Vec<(u64, Stopped)> {
        std::mem::take(&mut self.ended)
    }
}
