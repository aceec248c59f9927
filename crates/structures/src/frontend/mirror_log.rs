//! The log of a tenure at the mirror, to which a front-end appends the same records at the same places.
//!
//! ```text
//!   ask the back-end ─▶ pass, address ─▶ connect to the mirror ─▶ enter ─▶ a window on the log
//!   flush   WRITEs, READ of the log  ---->  durable there, by the plan of the mirror's platform
//! ```
//!
//! Invariants:
//! - Records reach the log in the order of their numbers. Records that a notice reports are left to the back-end.
//! - The drop of the value ends the connection: the device is done with the bytes of all records.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use stonecast_base::Span;
use stonecast_fabric::{DeviceError, LocalSpan, RemoteAddress, Rkey};
use stonecast_media::Durability;
use stonecast_persist::execute::{
    LentAgreement, LentAppender, NoAgreement, NotAppended, Piece, Route,
};
use stonecast_session::{Endpoint, Listener};

use super::back_end::BackEnd;
use super::error::FrontEndError;
use super::talk::Talk;
use crate::tenure::LogArea;
use crate::wire::{Answer, Request};

/// Outstanding work requests: the pieces of one batch, the READ after them, and a request.
const SENDS: u32 = super::appends::PIECES_MAX as u32 + 32;
/// The most logs at mirrors that the writers of one connection have.
const MIRROR_LOGS_MAX: usize = 8;
/// Completions of all these logs.
pub(super) const COMPLETIONS: u32 = SENDS * MIRROR_LOGS_MAX as u32;

/// The reason why tickets of a tenure end with the answers of the back-end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoMirrorLog {
    /// The pool has no mirror.
    #[error("the pool has no mirror")]
    NoMirror,
    /// The mirror lacks a part of the pool: tenures that begin once the mirror has everything append to both logs.
    #[error("the mirror lacks a part of the pool; later tenures append to both logs")]
    NotWhole,
    /// A processor of the back-end or of the mirror makes records durable.
    #[error(
        "the platform of the back-end or of the mirror needs its processor to make a record durable"
    )]
    NeedsProcessor,
    /// The front-end already has this many logs at mirrors.
    #[error(
        "the writers of this connection append to {MIRROR_LOGS_MAX} logs at the mirror; connect once more for others"
    )]
    TooMany,
    /// The mirror refused: the tenure is over, or already has a log there.
    #[error("the mirror gives this tenure no log")]
    Refused,
    /// This front-end has no connection to the mirror.
    #[error("the mirror at {address} cannot be reached from this front-end: {error}")]
    Unreachable {
        /// The address at which the back-end reaches the mirror.
        address: String,
        /// The error.
        error: FrontEndError,
    },
    /// No plan makes records durable there.
    #[error(transparent)]
    NoAgreement(#[from] NoAgreement),
    /// The connection to the mirror ended during the tenure.
    #[error("the connection to the mirror ended: {reason}")]
    Lost {
        /// The reason, in words.
        reason: String,
    },
}

/// The seats of a connection's logs at the mirror.
#[derive(Default)]
pub(super) struct Seats(Rc<()>);

impl Seats {
    fn take(&self) -> Option<Rc<()>> {
        (Rc::strong_count(&self.0) <= MIRROR_LOGS_MAX).then(|| self.0.clone())
    }
}

/// A front-end's way to the log of its tenure at the mirror.
pub(super) struct MirrorLog {
    talk: Talk,
    listener: Listener,
    /// The pool of the mirror, through the window on the log.
    memory: RemoteAddress,
    appender: LentAppender,
    /// Records that the appender has not received, oldest first.
    gathered: VecDeque<(u64, SmallVec<[Piece; 2]>)>,
    /// Records that the appender has received, and that are not persisted.
    under_way: VecDeque<u64>,
    /// The last persisted record. Each earlier record is persisted, or reported in a notice.
    persisted: u64,
    _seat: Rc<()>,
}

impl MirrorLog {
    /// Reaches the log of the tenure of `domain`, which lies in `area`.
    pub async fn reach(
        back_end: &BackEnd,
        domain: u32,
        area: LogArea,
    ) -> Result<Self, NoMirrorLog> {
        let seat = back_end.mirror_seats.take().ok_or(NoMirrorLog::TooMany)?;
        let answer = back_end.talk.ask(Request::MirrorLog { domain }).await;
        let (pass, address) = match answer.map_err(lost)? {
            Answer::MirrorLog { pass, address } => (pass, address),
            Answer::NoMirrorLog { is_whole: true } => return Err(NoMirrorLog::NeedsProcessor),
            Answer::NoMirrorLog { is_whole: false } => return Err(NoMirrorLog::NotWhole),
            _ => return Err(NoMirrorLog::Refused),
        };
        let entered = while_served(back_end, enter(back_end, &address, pass)).await;
        let (talk, answer) =
            entered.map_err(|error| NoMirrorLog::Unreachable { address, error })?;
        let Answer::Entered {
            address,
            rkey,
            lending,
        } = answer
        else {
            return Err(NoMirrorLog::Refused);
        };
        let agreement = LentAgreement::hear(&lending, Durability::Process)?;
        let rkey = rkey.try_into().map_err(|_| NoMirrorLog::Refused)?;
        let memory = RemoteAddress {
            address,
            rkey: Rkey(rkey),
        };
        let scratch = talk.endpoint.allocate(64).map_err(lost)?;
        let route = Route {
            port: talk.port().clone(),
            qp: talk.endpoint.qp(),
            scratch: LocalSpan {
                region: scratch,
                offset: 0,
                size: 8,
            },
            flush: memory.at(area.offset),
        };
        let appender = LentAppender::new(route, &agreement);
        if !appender.is_one_sided() {
            return Err(NoMirrorLog::NeedsProcessor);
        }
        Ok(Self {
            listener: Listener::new(talk.endpoint.inbox()),
            talk,
            memory,
            appender,
            gathered: VecDeque::new(),
            under_way: VecDeque::new(),
            persisted: 0,
            _seat: seat,
        })
    }

    /// Takes the record `number`, whose bytes lie in `pieces` and belong at the places beside them.
    pub fn gather(&mut self, number: u64, pieces: impl Iterator<Item = (LocalSpan, Span)>) {
        let memory = self.memory;
        let pieces = pieces.map(|(local, place)| Piece {
            local,
            remote: memory.at(place.offset),
        });
        self.gathered.push_back((number, pieces.collect()));
    }

    /// Leaves the gathered records to the back-end, to which a notice will report them.
    pub fn leave_gathered(&mut self) {
        self.gathered.clear();
    }

    /// Sends the gathered records.
    pub fn flush(&mut self) -> Result<(), NotAppended> {
        for (number, pieces) in self.gathered.drain(..) {
            self.appender.append(&pieces)?;
            self.under_way.push_back(number);
        }
        match self.appender.flush() {
            // The queue has room again when a batch has ended.
            Err(NotAppended::Refused(DeviceError::QueueFull { .. })) => Ok(()),
            result => result,
        }
    }

    /// Takes persisted records. Returns whether any record was persisted.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Result<bool, NoMirrorLog> {
        let mut has_moved = false;
        loop {
            self.talk.hear().map_err(lost)?;
            self.talk.check().map_err(lost)?;
            while let Poll::Ready(persisted) = self.appender.poll_persisted(context) {
                let (_, _persisted) = persisted.map_err(lost)?;
                let number = self.under_way.pop_front();
                self.persisted = number.expect("the record was handed to the appender");
                has_moved = true;
            }
            if self.listener.poll_activity(context).is_pending() {
                return Ok(has_moved);
            }
        }
    }

    /// The last record that is persisted together with all earlier records that no notice reports.
    pub fn persisted(&self) -> u64 {
        self.persisted
    }

    /// Whether the device is done with the bytes of the record `number`, or never received them.
    pub fn is_done_with(&self, number: u64) -> bool {
        let gathered = self.gathered.front().map(|(number, _)| *number);
        let first = self.under_way.front().copied().or(gathered);
        first.is_none_or(|first| first > number)
    }
}

/// Connects to the mirror, and asks for the window.
async fn enter(
    back_end: &BackEnd,
    address: &str,
    pass: u64,
) -> Result<(Talk, Answer), FrontEndError> {
    let endpoint = Endpoint::new(back_end.port(), Talk::queues(SENDS))?;
    let talk = Talk::connect(endpoint, address).await?;
    let answer = talk.ask(Request::Enter { pass }).await?;
    Ok((talk, answer))
}

/// Waits only while the back-end lives: a mirror that stands still answers no request, and the back-end ends with its
/// mirror.
async fn while_served<T>(
    back_end: &BackEnd,
    entering: impl Future<Output = Result<T, FrontEndError>>,
) -> Result<T, FrontEndError> {
    let mut entering = pin!(entering);
    let mut listener = Listener::new(back_end.talk.endpoint.inbox());
    poll_fn(|context| {
        loop {
            back_end.talk.hear()?;
            back_end.talk.check()?;
            if let Poll::Ready(entered) = entering.as_mut().poll(context) {
                return Poll::Ready(entered);
            }
            if listener.poll_activity(context).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

pub(super) fn lost(reason: impl ToString) -> NoMirrorLog {
    NoMirrorLog::Lost {
        reason: reason.to_string(),
    }
}
