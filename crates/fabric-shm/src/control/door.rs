//! Incoming peers: connected, and silent so far about their request.
//!
//! Such peers are few, and no other user holds many of them, so that no one keeps others out by silence. If this
//! process has no descriptors left, waiting peers are told so with a descriptor that is reserved for that.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{Entry, Phase, Shared, State};
use crate::clock;
use crate::descriptors;
use crate::message::{Message, PACKET_SIZE_MAX};
use crate::options::Log;
use crate::socket::{self, Peer};

/// Peers that may be connected without having sent anything. Further peers wait in the backlog.
const GREETING_MAX: usize = 256;
/// The most silent peers of one other user. Further peers of that user are turned away.
const GREETING_USER_MAX: usize = GREETING_MAX / 4;
/// Time that a peer may take to send its request.
const GREETING_NS: u64 = 5_000_000_000;
/// Time between two reports to the operator that there are no descriptors left.
const SAY_AGAIN_NS: u64 = 60_000_000_000;
/// Peers turned away at once. Other threads need the lock, and a peer that is turned away may come again at once.
const TURN_AWAY_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Door {
    /// Given up to accept a peer that is then told why it is turned away.
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

    /// Takes all waiting peers. Returns false if there are too many at this moment.
    pub fn accept_all(&mut self, shared: &Shared, state: &mut State, listener: u64) -> bool {
        let mut turned_away = 0;
        while turned_away < TURN_AWAY_MAX {
            if greeting(state).count() >= GREETING_MAX {
                return false;
            }
            let socket = match state.listeners[&listener].accept() {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // A peer that gave up meanwhile needs no answer.
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
                // No memory is left: other processes may free some.
                Err(_) => return false,
            };
            let Ok(peer) = socket::peer(&socket) else {
                turned_away += 1;
                continue;
            };
            if !shared.is_own_user(peer) && holds_too_many(state, peer) {
                let reason = format!(
                    "user {} has {GREETING_USER_MAX} connections that have not sent a request yet, and may have no more",
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

    /// Reports to the operator that this process has no descriptors left, at most once in a while.
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

    /// Takes the next waiting peer with the spare descriptor, and tells it that there is no other. Returns false if
    /// that fails, too.
    fn turn_away_next(&mut self, state: &State, listener: u64) -> bool {
        let had_spare = self.spare.take().is_some();
        // Another thread may take the descriptor first; then there is none to answer with.
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

/// Tells a peer why it is turned away. Its request is read and discarded first: a socket that is closed with unread
/// data loses the answer.
fn turn_away(socket: &OwnedFd, reason: &str) {
    let _ = socket::receive(socket, &mut [0; PACKET_SIZE_MAX]);
    // A peer that does not listen is not told.
    let _ = socket::send(socket, &Message::Reject(reason.into()).encode(), &[]);
    socket::end_sending(socket);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd as _;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::bell::Bell;
    use crate::control::{Control, ControlEvent, Line};
    use crate::key_table::KeyTable;
    use crate::message::Hello;
    use crate::socket::{Listener, SocketAccess};

    const REASON: &str = "the house is full";
    /// Time that an answer may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A caller, and a door that turns every peer away.
    struct Stage {
        caller: Control,
        house: Listener,
        path: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Stage {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let access = SocketAccess {
                mode: 0o600,
                group: None,
            };
            let bell = Bell::new(KeyTable::new().unwrap().memory().clone()).unwrap();
            Self {
                caller: Control::start(bell, false, Log::new(|_| {})).unwrap(),
                house: Listener::new(&path, access).unwrap(),
                path,
                _folder: folder,
            }
        }

        /// Sends a request, with descriptors as a device does.
        fn ask(&self, line: &Line) {
            let hello = Hello {
                queue_pair: 1,
                rnr_retry_count: 0,
                rnr_retry_delay_ns: 0,
                bell: false,
                append: None,
                private_data: Vec::new(),
            };
            let files = [self.house.socket.as_fd(); 2];
            self.caller.request(line, hello, &files).unwrap();
        }

        /// The reason that the caller learns.
        fn learnt(&self, when: &str) -> String {
            let deadline = Instant::now() + PATIENCE;
            loop {
                match self.caller.next_event() {
                    Some(ControlEvent::Rejected { reason, .. }) => return reason,
                    Some(event) => panic!("{when}: {event:?}"),
                    None => std::thread::yield_now(),
                }
                assert!(Instant::now() < deadline, "{when}: no answer");
            }
        }
    }

    /// Needs the check for an answer when the request finds a closed socket, and the second check after a reset.
    #[test]
    fn a_caller_that_is_turned_away_learns_why_whenever_its_request_arrives() {
        let stage = Stage::new();
        for _ in 0..50 {
            let line = stage.caller.dial(&stage.path).unwrap();
            stage.ask(&line);
            turn_away(&stage.house.accept().unwrap(), REASON);
            assert_eq!(stage.learnt("before the door checks"), REASON);

            let line = stage.caller.dial(&stage.path).unwrap();
            let met = stage.house.accept().unwrap();
            turn_away(&met, REASON);
            stage.ask(&line);
            drop(met);
            assert_eq!(stage.learnt("after the check, before the end"), REASON);

            let line = stage.caller.dial(&stage.path).unwrap();
            turn_away(&stage.house.accept().unwrap(), REASON);
            stage.ask(&line);
            assert_eq!(stage.learnt("after the end"), REASON);
        }
    }

    /// The same story with the kernel's own scheduling.
    #[test]
    fn callers_that_race_with_the_door_all_learn_why() {
        const CALLERS: usize = 3_000;
        let stage = Stage::new();
        let house = stage.house.socket.try_clone().unwrap();
        let door = std::thread::spawn(move || {
            for _ in 0..CALLERS {
                let socket = loop {
                    let flags =
                        rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
                    match rustix::net::accept_with(&house, flags) {
                        Ok(socket) => break socket,
                        Err(_) => std::thread::yield_now(),
                    }
                };
                turn_away(&socket, REASON);
            }
        });
        for n in 0..CALLERS {
            let line = stage.caller.dial(&stage.path).unwrap();
            stage.ask(&line);
            assert_eq!(stage.learnt(&format!("caller {n}")), REASON);
        }
        door.join().unwrap();
    }
}
