//! Tickets: the right to connect one queue pair, once, within a short time.

use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

use super::ControlError;
use super::handshake::random_bytes;

/// Bytes of a ticket.
pub(super) const TICKET_SIZE: usize = 16;

/// The server's copy of the ticket that it gave to one session.
#[derive(Debug)]
pub(super) struct Ticket {
    bytes: [u8; TICKET_SIZE],
    given: Instant,
    lifetime: Duration,
    used: bool,
}

impl Ticket {
    /// A fresh ticket, which no one can guess.
    pub fn new(now: Instant, lifetime: Duration) -> Self {
        Self {
            bytes: random_bytes(),
            given: now,
            lifetime,
            used: false,
        }
    }

    /// The bytes for the client.
    pub fn bytes(&self) -> [u8; TICKET_SIZE] {
        self.bytes
    }

    /// Takes the ticket that the client shows.
    pub fn redeem(&mut self, shown: &[u8; TICKET_SIZE], now: Instant) -> Result<(), ControlError> {
        if self.used || !bool::from(self.bytes.ct_eq(shown)) {
            return Err(ControlError::TicketUnknown);
        }
        let age = now.saturating_duration_since(self.given);
        if age > self.lifetime {
            let late_ms = (age - self.lifetime).as_millis() as u64;
            return Err(ControlError::TicketExpired {
                late_ms,
                lifetime_ms: self.lifetime.as_millis() as u64,
            });
        }
        self.used = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_until_it_expires() {
        let now = Instant::now();
        let lifetime = Duration::from_millis(500);
        let mut ticket = Ticket::new(now, lifetime);
        let bytes = ticket.bytes();
        let late = ticket.redeem(&bytes, now + Duration::from_millis(700));
        assert!(
            matches!(
                late,
                Err(ControlError::TicketExpired {
                    late_ms: 200,
                    lifetime_ms: 500
                })
            ),
            "{late:?}"
        );
        assert!(matches!(
            ticket.redeem(&[0; TICKET_SIZE], now),
            Err(ControlError::TicketUnknown)
        ));
        ticket.redeem(&bytes, now + lifetime).expect("in time");
        assert!(
            matches!(ticket.redeem(&bytes, now), Err(ControlError::TicketUnknown)),
            "not twice"
        );
        assert_ne!(Ticket::new(now, lifetime).bytes(), bytes);
    }
}
