//! Who comes in: peers that connect and have not said yet what they want.
//!
//! They are few, and no user but the own one holds many of them, so that nobody keeps others out by saying nothing. Where
//! this process has no descriptors left, whoever waits is told so with one that is kept for that.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Entry, Phase, Shared, State};
use crate::clock;
use crate::descriptors;
use crate::message::{Message, PACKET_SIZE_MAX};
use crate::options::Log;
use crate::socket::{self, Peer};

/// Peers that may be connected without having said anything. More must wait in the backlog.
const GREETING_MAX: usize = 256;
/// So many of them may be of one other user. More are turned away.
const GREETING_USER_MAX: usize = GREETING_MAX / 4;
/// How long a peer may take to say what it wants.
const GREETING_NS: u64 = 5_000_000_000;
/// How often whoever runs the program is told that there are no descriptors left.
const SAY_AGAIN_NS: u64 = 60_000_000_000;
/// Peers turned away at once. Others need the lock, and a peer that is turned away may come again at once.
const TURN_AWAY_MAX: usize = 64;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Door {
    /// Given up to accept a peer that is told why it is turned away.
    spare: Option<OwnedFd>,
    log: Log,
    said_at: Option<u64>,
}

impl Door {
    pub fn new(log: Log) -> io::Result<Self> {
        Ok(Self {
            spare: Some(descriptors::spare()?),
            log,
            said_at: None,
        })
    }

    /// Takes everybody who waits. False when there are too many for now.
    pub fn accept_all(&mut self, shared: &Shared, state: &mut State, listener: u64) -> bool {
        let mut turned_away = 0;
        while turned_away < TURN_AWAY_MAX {
            if greeting(state).count() >= GREETING_MAX {
                return false;
            }
            let socket = match state.listeners[&listener].accept() {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // Who gave up meanwhile is nobody's problem.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    turned_away += 1;
                    continue;
                }
                Err(error) if descriptors::is_exhaustion(&error) => {
                    self.note_exhaustion();
                    if !self.turn_away_next(state, listener) {
                        return false;
                    }
                    turned_away += 1;
                    continue;
                }
                // No memory left: others may free some.
                Err(_) => return false,
            };
            let Ok(peer) = socket::peer(&socket) else {
                turned_away += 1;
                continue;
            };
            if !shared.is_own_user(peer) && holds_too_many(state, peer) {
                let reason = format!(
                    "user {} has {GREETING_USER_MAX} connections that have not said what they want, and may have no more",
                    peer.user
                );
                turn_away(&socket, &reason);
                turned_away += 1;
                continue;
            }
            let token = state.new_token();
            let phase = Phase::Greeting {
                deadline_ns: clock::now().saturating_add(GREETING_NS),
            };
            let same_user = shared.is_same_user(peer);
            if shared
                .add(state, token, Arc::new(socket), peer, same_user, phase)
                .is_err()
            {
                return false;
            }
        }
        false
    }

    /// Tells whoever runs the program that this process has no descriptors left; not again for a while.
    pub fn note_exhaustion(&mut self) {
        let now = clock::now();
        if self
            .said_at
            .is_none_or(|then| now.saturating_sub(then) >= SAY_AGAIN_NS)
        {
            self.said_at = Some(now);
            let exhaustion = descriptors::exhaustion();
            self.log
                .say(&format!("connections are refused: {exhaustion}"));
        }
    }

    /// Takes the next who waits with the spare descriptor, and says that there is no other. False where that fails, too.
    fn turn_away_next(&mut self, state: &State, listener: u64) -> bool {
        let had_spare = self.spare.take().is_some();
        // Another thread may be faster; then there is nothing to say it with.
        let turned_away = had_spare && {
            let next = state.listeners[&listener].accept();
            if let Ok(socket) = &next {
                turn_away(socket, &descriptors::exhaustion());
            }
            next.is_ok()
        };
        self.spare = descriptors::spare().ok();
        turned_away
    }
}

fn greeting(state: &State) -> impl Iterator<Item = &Entry> {
    let says_nothing = |entry: &&Entry| matches!(entry.phase, Phase::Greeting { .. });
    state.sockets.values().filter(says_nothing)
}

fn holds_too_many(state: &State, peer: Peer) -> bool {
    let of_user = greeting(state).filter(|entry| entry.peer.user == peer.user);
    of_user.count() >= GREETING_USER_MAX
}

/// Says why to a peer that gets no further. Its request is read first, and let go: a socket that is closed with something
/// unread loses what was said.
fn turn_away(socket: &OwnedFd, reason: &str) {
    let _ = socket::receive(socket, &mut [0; PACKET_SIZE_MAX]);
    // Who does not listen is not told.
    let _ = socket::send(socket, &Message::Reject(reason.into()).encode(), &[]);
    socket::end_sending(socket);
}
