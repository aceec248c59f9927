//! The loop of the control thread.

use std::io;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::Timespec;

use super::door::Door;
use super::packets;
use super::{ControlEvent, Phase, Shared, State};
use crate::clock;
use crate::message::PACKET_SIZE_MAX;
use crate::socket;

/// Token of the event that ends the thread.
pub(super) const STOP: u64 = 0;
/// Time without new peers when there are too many or no descriptors left.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Time between two checks for silent peers while there are any.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Runs until stopped.
pub(super) fn run(shared: &Shared, mut door: Door) {
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
                if !door.accept_all(shared, state, token) {
                    watch_listeners(shared, state, EventFlags::empty());
                    listeners_paused = true;
                }
            } else {
                read_all(shared, state, token, &mut buffer, &mut door);
            }
        }
        is_greeting = drop_silent(shared, state);
    }
}

fn watch_listeners(shared: &Shared, state: &State, flags: EventFlags) {
    for (&token, listener) in &state.listeners {
        // A listener that cannot be watched is a bug; new peers would stay in its backlog.
        let _ = epoll::modify(
            &shared.epoll,
            &listener.socket,
            EventData::new_u64(token),
            flags,
        );
    }
}

/// Takes every packet of a peer, and its end.
fn read_all(shared: &Shared, state: &mut State, token: u64, buffer: &mut [u8], door: &mut Door) {
    let mut was_reset = false;
    while let Some(entry) = state.sockets.get(&token) {
        match socket::receive(&entry.socket, buffer) {
            Ok(packet) if packet.size == 0 => return hung_up(shared, state, token),
            Ok(packet) if packet.lost_descriptors => {
                door.note_exhaustion();
                packets::without_descriptors(shared, state, token, &buffer[..packet.size]);
            }
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
            // A peer that closes a socket with unread data resets the connection, once; its earlier packets can still
            // be read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !was_reset => {
                was_reset = true;
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

/// Drops peers that were silent for too long. Returns whether any silent peers remain.
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
        shared.refuse(state, token, "no request was sent for too long");
    }
    any
}
