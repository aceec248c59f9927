//! Front-ends that append to logs at the mirror: the passes that the source was given for them.
//!
//! ```text
//!   admit ─▶ waiting ── enter ─▶ inside ── end of the connection ─▶ leaving ── window closed ─▶ gone, or unquiesced
//!   expel        └────────────────────────── the source hears that nothing more lands ◀──────────────┘
//! ```

use std::collections::BTreeMap;

use stonecast_base::Span;
use stonecast_fabric::QueuePair;

/// The stage of a front-end with a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The front-end has not entered; it may write to this log.
    Waiting(Span),
    /// The front-end has a window.
    Inside(QueuePair),
    /// The front-end's window is closing.
    Leaving,
    /// The front-end is gone; tells whether a write that had begun may still end.
    Gone { is_unquiesced: bool },
}

/// The next thing to do about a front-end that is to be expelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expulsion {
    /// The front-end's connection has to be ended first.
    End(QueuePair),
    /// The front-end's window is closing.
    Later,
    /// No write of the front-end lands any more.
    Done,
    /// The front-end's window is closed, and a write that had begun may still end.
    Unquiesced,
}

/// The passes of a mirror.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    given: u64,
    stages: BTreeMap<u64, Stage>,
    is_unquiesced: bool,
}

impl Admissions {
    /// A pass for `log`.
    pub fn admit(&mut self, log: Span) -> u64 {
        self.given += 1;
        self.stages.insert(self.given, Stage::Waiting(log));
        self.given
    }

    /// The log of a pass, once: the peer of `qp` gets a window on it.
    pub fn enter(&mut self, pass: u64, qp: QueuePair) -> Option<Span> {
        let stage = self.stages.get_mut(&pass)?;
        let Stage::Waiting(log) = *stage else {
            return None;
        };
        *stage = Stage::Inside(qp);
        Some(log)
    }

    /// Notes that the window of a front-end is being closed.
    pub fn leave(&mut self, pass: u64) {
        self.stages.insert(pass, Stage::Leaving);
    }

    /// Notes that the window of a front-end is closed.
    pub fn note_gone(&mut self, pass: u64, is_unquiesced: bool) {
        self.stages.insert(pass, Stage::Gone { is_unquiesced });
        self.is_unquiesced |= is_unquiesced;
    }

    /// Whether a former front-end may still write to its log. After a promotion, such a log is not reused before the
    /// process is gone, like any log of an earlier run; a source has no such log.
    pub fn is_unquiesced(&self) -> bool {
        self.is_unquiesced
    }

    /// Denies a front-end the entry from now on. An unknown pass was expelled before.
    pub fn expel(&mut self, pass: u64) -> Expulsion {
        let expulsion = match self.stages.get(&pass) {
            Some(Stage::Inside(qp)) => return Expulsion::End(*qp),
            Some(Stage::Leaving) => return Expulsion::Later,
            Some(Stage::Gone { is_unquiesced }) if *is_unquiesced => Expulsion::Unquiesced,
            Some(Stage::Gone { .. } | Stage::Waiting(_)) | None => Expulsion::Done,
        };
        self.stages.remove(&pass);
        expulsion
    }

    /// Forgets the passes of a source that is gone, whose windows are closed.
    pub fn clear(&mut self) {
        self.stages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Span = Span::new(4096, 64);

    #[test]
    fn a_pass_opens_one_log_to_one_peer_once() {
        let mut admissions = Admissions::default();
        let (first, second) = (admissions.admit(LOG), admissions.admit(LOG));
        assert_ne!(first, second);
        assert_eq!(admissions.enter(first, QueuePair(1)), Some(LOG));
        assert_eq!(admissions.enter(first, QueuePair(2)), None);
        assert_eq!(admissions.enter(first + second, QueuePair(2)), None);
        admissions.leave(first);
        assert_eq!(admissions.enter(first, QueuePair(1)), None);
        admissions.clear();
        assert_eq!(admissions.enter(second, QueuePair(3)), None);
    }

    #[test]
    fn an_expulsion_is_done_when_the_window_is_closed_and_not_before() {
        let mut admissions = Admissions::default();
        let pass = admissions.admit(LOG);
        admissions.enter(pass, QueuePair(1));
        assert_eq!(admissions.expel(pass), Expulsion::End(QueuePair(1)));
        admissions.leave(pass);
        assert_eq!(admissions.expel(pass), Expulsion::Later);
        admissions.note_gone(pass, false);
        assert_eq!(admissions.expel(pass), Expulsion::Done);

        let never_inside = admissions.admit(LOG);
        assert_eq!(admissions.expel(never_inside), Expulsion::Done);
        assert_eq!(admissions.enter(never_inside, QueuePair(1)), None);

        let stopped = admissions.admit(LOG);
        admissions.enter(stopped, QueuePair(1));
        admissions.leave(stopped);
        assert!(!admissions.is_unquiesced(), "nobody was stopped inside");
        admissions.note_gone(stopped, true);
        assert_eq!(admissions.expel(stopped), Expulsion::Unquiesced);
        admissions.clear();
        assert!(
            admissions.is_unquiesced(),
            "its write may end at any moment"
        );
    }
}
