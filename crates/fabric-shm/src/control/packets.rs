//! Handles the packets of peers.

use std::os::fd::{AsFd, OwnedFd};

use super::{ControlEvent, Phase, RegionFile, Shared, State, Token};
use crate::descriptors;
use crate::grants::Grant;
use crate::message::{Message, Misunderstood};
use crate::socket;

/// Handles one packet of the peer `token`.
pub(super) fn handle(
    shared: &Shared,
    state: &mut State,
    token: u64,
    packet: &[u8],
    descriptors: Vec<OwnedFd>,
) {
    let Some(entry) = state.sockets.get_mut(&token) else {
        return;
    };
    if entry.phase == Phase::Broken {
        return;
    }
    let message = match Message::decode(packet) {
        Ok(message) => message,
        Err(error) => return misunderstood(shared, state, token, error),
    };
    let named = Token(token);
    match (entry.phase, message) {
        (Phase::Greeting { .. }, Message::Connect(hello))
            if descriptors.len() == 1 + hello.descriptors() =>
        {
            entry.phase = Phase::Asked;
            let (peer, same_user) = (entry.peer, entry.same_user);
            shared.tell(
                state,
                ControlEvent::Request {
                    token: named,
                    peer,
                    same_user,
                    hello,
                    descriptors,
                },
            );
        }
        (Phase::Connecting { queue_pair }, Message::Accept(hello))
            if descriptors.len() == hello.descriptors() =>
        {
            // From this point the end of the socket is the end of a connection, whether or not the device has noticed.
            entry.phase = Phase::Connected { queue_pair };
            shared.tell(
                state,
                ControlEvent::Accepted {
                    token: named,
                    hello,
                    descriptors,
                },
            );
        }
        (Phase::Connecting { .. }, Message::Reject(reason)) => {
            shared.forget(state, token);
            shared.tell(
                state,
                ControlEvent::Rejected {
                    token: named,
                    reason,
                },
            );
        }
        (Phase::Connected { .. }, message) => connected(shared, state, token, message, descriptors),
        _ => misunderstood(shared, state, token, Misunderstood::Malformed),
    }
}

fn connected(
    shared: &Shared,
    state: &mut State,
    token: u64,
    message: Message,
    mut descriptors: Vec<OwnedFd>,
) {
    let named = Token(token);
    match message {
        Message::RegionWanted { region, writable } => {
            answer(shared, state, token, region, writable)
        }
        Message::RegionGranted {
            region,
            writable,
            file_offset,
            size,
        } => {
            let Some(file) = descriptors.pop().filter(|_| descriptors.is_empty()) else {
                return misunderstood(shared, state, token, Misunderstood::Malformed);
            };
            let grant = Some(RegionFile {
                file,
                file_offset,
                size,
            });
            shared.tell(
                state,
                ControlEvent::Region {
                    token: named,
                    region,
                    writable,
                    grant,
                },
            );
        }
        Message::RegionDenied { region, writable } => {
            shared.tell(
                state,
                ControlEvent::Region {
                    token: named,
                    region,
                    writable,
                    grant: None,
                },
            );
        }
        Message::Disconnect(cause) => shared.tell(
            state,
            ControlEvent::Disconnected {
                token: named,
                cause,
            },
        ),
        Message::Wake => shared.bell.ring(),
        Message::Connect(_) | Message::Accept(_) | Message::Reject(_) => {
            misunderstood(shared, state, token, Misunderstood::Malformed);
        }
    }
}

/// Hands over a region, or denies it.
fn answer(shared: &Shared, state: &mut State, token: u64, region: u32, writable: bool) {
    let entry = &state.sockets[&token];
    let queue_pair = match entry.phase {
        Phase::Connected { queue_pair } => queue_pair,
        Phase::Greeting { .. } | Phase::Asked | Phase::Connecting { .. } | Phase::Broken => return,
    };
    let found = state.regions.get(&region);
    let granted =
        found.and_then(|found| Some((found, found.grant(queue_pair, entry.same_user, writable)?)));
    let sent = match granted {
        Some((found, grant)) => {
            let message = Message::RegionGranted {
                region,
                writable,
                file_offset: found.file_offset,
                size: found.size,
            };
            let file = match &grant {
                Grant::Writable(file) => *file,
                Grant::ReadOnly(file) => file.as_fd(),
            };
            socket::send(&entry.socket, &message.encode(), &[file])
        }
        None => socket::send(
            &entry.socket,
            &Message::RegionDenied { region, writable }.encode(),
            &[],
        ),
    };
    match sent {
        // The read of the socket finds that an asking peer has died.
        Err(error) if socket::is_hang_up(&error) => {}
        // A peer that asks and does not take the answers has filled the socket.
        Err(_) => misunderstood(shared, state, token, Misunderstood::Malformed),
        Ok(()) => {}
    }
}

/// Handles a packet of the peer `token` that arrived without all of its descriptors, because this process has none
/// left.
pub(super) fn without_descriptors(shared: &Shared, state: &mut State, token: u64, packet: &[u8]) {
    let connected = state
        .sockets
        .get(&token)
        .is_some_and(|entry| matches!(entry.phase, Phase::Connected { .. }));
    match Message::decode(packet) {
        // The peer did nothing wrong, so the connection stays, as if the region had been denied.
        Ok(Message::RegionGranted {
            region, writable, ..
        }) if connected => shared.tell(
            state,
            ControlEvent::Region {
                token: Token(token),
                region,
                writable,
                grant: None,
            },
        ),
        _ => turn_down(shared, state, token, &descriptors::exhaustion()),
    }
}

fn misunderstood(shared: &Shared, state: &mut State, token: u64, error: Misunderstood) {
    turn_down(shared, state, token, &error.to_string());
}

/// Ends the request of the peer `token`, for this reason.
fn turn_down(shared: &Shared, state: &mut State, token: u64, reason: &str) {
    let Some(entry) = state.sockets.get(&token) else {
        return;
    };
    let named = Token(token);
    match entry.phase {
        Phase::Greeting { .. } => shared.refuse(state, token, reason),
        Phase::Asked => {
            shared.refuse(state, token, reason);
            shared.tell(state, ControlEvent::Withdrawn { token: named });
        }
        Phase::Connecting { .. } => {
            shared.refuse(state, token, reason);
            shared.tell(
                state,
                ControlEvent::Rejected {
                    token: named,
                    reason: reason.to_owned(),
                },
            );
        }
        // The device's own thread may be inside the peer's memory; it hangs up when it has left.
        Phase::Connected { .. } => {
            shared.mark_broken(state, token);
            shared.tell(state, ControlEvent::Broken { token: named });
        }
        Phase::Broken => {}
    }
}
