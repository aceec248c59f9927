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
    /// How long an answer may take on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A caller, and a house that turns everybody away.
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

        /// Asks, with descriptors as a device does.
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

        /// What the caller learns.
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

    /// Needs the look at what was said where the request finds a closed socket, and the second look after a reset.
    #[test]
    fn a_caller_that_is_turned_away_learns_why_whenever_its_request_arrives() {
        let stage = Stage::new();
        for _ in 0..50 {
            let line = stage.caller.dial(&stage.path).unwrap();
            stage.ask(&line);
            turn_away(&stage.house.accept().unwrap(), REASON);
            assert_eq!(stage.learnt("before the door looks"), REASON);

            let line = stage.caller.dial(&stage.path).unwrap();
            let met = stage.house.accept().unwrap();
            turn_away(&met, REASON);
            stage.ask(&line);
            drop(met);
            assert_eq!(stage.learnt("after the look, before the end"), REASON);

            let line = stage.caller.dial(&stage.path).unwrap();
            turn_away(&stage.house.accept().unwrap(), REASON);
            stage.ask(&line);
            assert_eq!(stage.learnt("after the end"), REASON);
        }
    }

    /// The same with the kernel's own order of things.
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
