//! The loop of the control thread.

use std::io;
use std::sync::Arc;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::Timespec;

use super::packets;
use super::{ControlEvent, Entry, GREETING_MAX, Phase, Shared, State};
use crate::clock;
use crate::message::PACKET_SIZE_MAX;
use crate::socket;

/// Token of the event that ends the thread.
pub(super) const STOP: u64 = 0;
/// How long a peer may take to say what it wants.
const GREETING_NS: u64 = 5_000_000_000;
/// How long no new peers are taken when there are too many or no descriptors left.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// How often silent peers are looked for while there are any.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Runs until told to stop.
pub(super) fn run(shared: &Shared) {
    let mut buffer = [0; PACKET_SIZE_MAX];
    let mut events = [Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    }; 32];
    let mut listeners_paused = false;
    let mut is_greeting = false;
    loop {
        let timeout = match (listeners_paused, is_greeting) {
            (true, _) => Some(&PAUSE),
            (false, true) => Some(&TICK),
            (false, false) => None,
        };
        let count = match epoll::wait(&shared.epoll, &mut events, timeout) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => panic!("waiting for peers failed: {error}"),
        };
        let state = &mut *shared.lock();
        if listeners_paused {
            watch_listeners(shared, state, EventFlags::IN);
            listeners_paused = false;
        }
        for event in &events[..count] {
            let token = event.data.u64();
            if token == STOP {
                return;
            }
            if state.listeners.contains_key(&token) {
                if !accept_all(shared, state, token) {
                    watch_listeners(shared, state, EventFlags::empty());
                    listeners_paused = true;
                }
            } else {
                read_all(shared, state, token, &mut buffer);
            }
        }
        is_greeting = drop_silent(shared, state);
    }
}

fn watch_listeners(shared: &Shared, state: &State, flags: EventFlags) {
    for (&token, listener) in &state.listeners {
        // A listener that cannot be watched is a bug; new peers would then stay in its backlog.
        let _ = epoll::modify(
            &shared.epoll,
            &listener.socket,
            EventData::new_u64(token),
            flags,
        );
    }
}

/// Takes everybody who waits. False when there are too many for now.
fn accept_all(shared: &Shared, state: &mut State, listener: u64) -> bool {
    loop {
        let greeting = |entry: &&Entry| matches!(entry.phase, Phase::Greeting { .. });
        if state.sockets.values().filter(greeting).count() >= GREETING_MAX {
            return false;
        }
        let socket = match state.listeners[&listener].accept() {
            Ok(socket) => Arc::new(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            // Who gave up meanwhile is nobody's problem.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            // No descriptors or no memory left: others may free some.
            Err(_) => return false,
        };
        let Ok(peer) = socket::peer(&socket) else {
            continue;
        };
        let token = state.new_token();
        let phase = Phase::Greeting {
            deadline_ns: clock::now().saturating_add(GREETING_NS),
        };
        if shared
            .add(state, token, socket, peer, shared.is_same_user(peer), phase)
            .is_err()
        {
            return false;
        }
    }
}

/// Takes every packet of a peer, and its end.
fn read_all(shared: &Shared, state: &mut State, token: u64, buffer: &mut [u8]) {
    while let Some(entry) = state.sockets.get(&token) {
        match socket::receive(&entry.socket, buffer) {
            Ok(packet) if packet.size == 0 => return hung_up(shared, state, token),
            Ok(packet) => packets::handle(
                shared,
                state,
                token,
                &buffer[..packet.size],
                packet.descriptors,
            ),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                packets::handle(shared, state, token, &[], Vec::new());
            }
            Err(_) => return hung_up(shared, state, token),
        }
    }
}

fn hung_up(shared: &Shared, state: &mut State, token: u64) {
    let Some(phase) = state.sockets.get(&token).map(|entry| entry.phase) else {
        return;
    };
    shared.forget(state, token);
    let token = super::Token(token);
    match phase {
        Phase::Greeting { .. } => {}
        Phase::Asked => shared.tell(state, ControlEvent::Withdrawn { token }),
        Phase::Connecting { .. } => {
            let reason = "the peer hung up without an answer".into();
            shared.tell(state, ControlEvent::Rejected { token, reason });
        }
        Phase::Connected { .. } | Phase::Broken => shared.tell(state, ControlEvent::Gone { token }),
    }
}

/// Drops peers that said nothing for too long. Returns whether any may still be dropped.
fn drop_silent(shared: &Shared, state: &mut State) -> bool {
    let mut any = false;
    let mut silent = Vec::new();
    for (&token, entry) in &state.sockets {
        if let Phase::Greeting { deadline_ns } = entry.phase {
            any = true;
            if clock::now() >= deadline_ns {
                silent.push(token);
            }
        }
    }
    for token in silent {
        shared.refuse(state, token, "nothing was said for too long");
    }
    any
}
