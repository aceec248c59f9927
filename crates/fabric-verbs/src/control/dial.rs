//! A call that is not yet connected: one address after the other, again and again with pauses, until patience ends.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::plane::Offer;
use super::{BackOff, ControlError};
use crate::address::ControlAddress;

/// Time that one attempt may take.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Dial {
    address: ControlAddress,
    places: Vec<SocketAddr>,
    offer: Offer,
    back_off: BackOff,
    begun: Instant,
    failures: u32,
    state: State,
}

enum State {
    /// To be tried at this time.
    Pausing(Instant),
    /// In progress since this time.
    Connecting(OwnedFd, Instant),
}

impl Dial {
    pub fn new(
        address: ControlAddress,
        places: Vec<SocketAddr>,
        offer: Offer,
        back_off: BackOff,
        now: Instant,
    ) -> Self {
        assert!(
            !places.is_empty(),
            "a name without addresses was refused earlier"
        );
        Self {
            address,
            places,
            offer,
            back_off,
            begun: now,
            failures: 0,
            state: State::Pausing(now),
        }
    }

    pub fn into_parts(self) -> (ControlAddress, Offer) {
        (self.address, self.offer)
    }

    /// The socket to wait for until it is writable.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Connecting(socket, _) => Some(socket.as_fd()),
            State::Pausing(_) => None,
        }
    }

    /// The time at which [`Dial::advance`] has work by the clock.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Pausing(until) => Some(until),
            State::Connecting(_, since) => Some(since + ATTEMPT_PATIENCE),
        }
    }

    /// Continues the call. Returns a connected stream, nothing yet, or the end of patience.
    pub fn advance(&mut self, now: Instant) -> Result<Option<TcpStream>, ControlError> {
        let failure = match &self.state {
            State::Pausing(until) if now < *until => return Ok(None),
            State::Pausing(_) => match self.begin() {
                Ok(socket) => {
                    self.state = State::Connecting(socket, now);
                    return Ok(None);
                }
                Err(error) => error,
            },
            State::Connecting(socket, since) => match sockopt::socket_error(socket) {
                Ok(Ok(())) if is_connected(socket) => {
                    let State::Connecting(socket, _) =
                        std::mem::replace(&mut self.state, State::Pausing(now))
                    else {
                        unreachable!("just matched")
                    };
                    return Ok(Some(TcpStream::from(socket)));
                }
                Ok(Ok(())) if now < *since + ATTEMPT_PATIENCE => return Ok(None),
                Ok(Ok(())) => io::ErrorKind::TimedOut.into(),
                Ok(Err(error)) | Err(error) => error.into(),
            },
        };
        self.failures += 1;
        // Every address is tried before the first pause; afterwards each failure is followed by a pause.
        let round = self.failures / self.places.len() as u32;
        let pause = if round == 0 {
            Duration::ZERO
        } else {
            self.back_off.pause(round)
        };
        if now + pause > self.begun + self.back_off.patience && round > 0 {
            return Err(ControlError::Unreachable {
                address: self.address.to_string(),
                source: failure,
            });
        }
        self.state = State::Pausing(now + pause);
        Ok(None)
    }

    fn begin(&self) -> io::Result<OwnedFd> {
        let place = self.places[self.failures as usize % self.places.len()];
        let family = if place.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let socket = socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        match connect(&socket, &place) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_connected(socket: &OwnedFd) -> bool {
    rustix::net::getpeername(socket).is_ok()
}
