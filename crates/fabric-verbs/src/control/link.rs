//! One control connection, from its first byte to its last.
//!
//! ```text
//!   server:  Greeting --key proven--> Invited --ticket redeemed--> Asked --accept--> Answered --ready--> Up
//!   client:  Calling  --welcome-----> Waiting --accepted------------------------------------------------> Up
//!   both:    any --goodbye said--> Leaving, until the peer has closed its side
//! ```
//!
//! From the first sealed message on, both sides send heartbeats and watch the lease.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::frame::Wire;
use super::handshake::{
    GREETING_SIZE, Greeting, Initiator, REPLY_SIZE, Reply, Seal, VERDICT_KEY, VERDICT_VERSION,
    VERDICT_WELCOME, VERSION, check_magic, greeting, name_of, respond,
};
use super::message::{EndCause, Message, Welcome};
use super::plane::{ControlOptions, Offer};
use super::profile::PeerProfile;
use super::ticket::Ticket;
use super::{ControlError, LeaseTerms};
use crate::path::Endpoint;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Time for which a side that said goodbye waits for the other to close.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Link {
    wire: Wire,
    stage: Stage,
    seal: Option<Seal>,
    terms: LeaseTerms,
    /// Name of the client's key, once proven.
    pub name: String,
    /// The peer's address, for messages.
    pub address: String,
    /// Beginning of the current stage.
    since: Instant,
    heard: Instant,
    said: Instant,
}

enum Stage {
    Greeting,
    Invited { ticket: Ticket },
    Asked,
    Answered,
    Calling(Box<(Initiator, Offer)>),
    Waiting { profile: PeerProfile },
    Up,
    Leaving,
}

/// An event for the program.
pub(super) enum Heard {
    /// A client asks to connect.
    Asked {
        endpoint: Endpoint,
        profile: PeerProfile,
        private_data: Vec<u8>,
    },
    /// The server accepts.
    Accepted {
        endpoint: Endpoint,
        profile: PeerProfile,
        private_data: Vec<u8>,
    },
    /// The client is connected.
    Ready,
    /// The peer says goodbye.
    Goodbye(EndCause),
    /// The other side has closed the connection after this side left it.
    Left,
}

impl Link {
    /// A client that has just connected.
    pub fn incoming(
        stream: TcpStream,
        address: String,
        options: &ControlOptions,
        now: Instant,
    ) -> Result<Self, ControlError> {
        Self::new(
            stream,
            Stage::Greeting,
            String::new(),
            address,
            options.terms,
            now,
        )
    }

    /// A call to a server that has just been reached.
    pub fn outgoing(
        stream: TcpStream,
        address: String,
        options: &ControlOptions,
        offer: Offer,
        now: Instant,
    ) -> Result<Self, ControlError> {
        let (name, key) = options.keys.own().ok_or(ControlError::NoKey)?;
        let hello = greeting(name);
        let (initiator, first) = Initiator::begin(&hello, key);
        let mut link = Self::new(
            stream,
            Stage::Calling(Box::new((initiator, offer))),
            name.into(),
            address,
            options.terms,
            now,
        )?;
        link.wire.put(&hello)?;
        link.wire.put_frame(&first)?;
        link.wire.flush()?;
        Ok(link)
    }

    fn new(
        stream: TcpStream,
        stage: Stage,
        name: String,
        address: String,
        terms: LeaseTerms,
        now: Instant,
    ) -> Result<Self, ControlError> {
        let wire = Wire::new(stream).map_err(|source| ControlError::Connection { source })?;
        Ok(Self {
            wire,
            stage,
            seal: None,
            terms,
            name,
            address,
            since: now,
            heard: now,
            said: now,
        })
    }

    pub fn stream(&self) -> &TcpStream {
        self.wire.stream()
    }

    pub fn has_output(&self) -> bool {
        self.wire.has_output()
    }

    /// Whether the peer has proven nothing yet.
    pub fn is_stranger(&self) -> bool {
        matches!(self.stage, Stage::Greeting)
    }

    /// Whether the program of this side knows of the connection.
    pub fn is_known(&self) -> bool {
        matches!(
            self.stage,
            Stage::Asked | Stage::Answered | Stage::Calling(_) | Stage::Waiting { .. } | Stage::Up
        )
    }

    /// Whether this connection occupies a place of the client called `name`.
    pub fn counts_for(&self, name: &str) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Answered | Stage::Up) && self.name == name
    }

    pub fn is_calling(&self) -> bool {
        matches!(self.stage, Stage::Calling(_) | Stage::Waiting { .. })
    }

    /// The peer, for messages.
    pub fn who(&self) -> String {
        if self.name.is_empty() {
            self.address.clone()
        } else {
            format!("{} at {}", self.name, self.address)
        }
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.stage = stage;
        self.since = now;
    }

    /// Reads the arrived bytes.
    pub fn fill(&mut self, now: Instant) -> Result<(), ControlError> {
        let before = self.wire.arrived().len();
        self.wire.fill()?;
        // Unopened bytes are no sign of life: anyone can send them.
        if self.seal.is_none() && self.wire.arrived().len() > before {
            self.heard = now;
        }
        Ok(())
    }

    /// Writes the pending output.
    pub fn flush(&mut self) -> Result<(), ControlError> {
        self.wire.flush()
    }

    /// Takes one step with the arrived bytes; `None` if it needs more bytes.
    pub fn advance(
        &mut self,
        options: &ControlOptions,
        run: u64,
        now: Instant,
    ) -> Result<Option<Heard>, ControlError> {
        loop {
            let moved = match &self.stage {
                Stage::Leaving => {
                    // Later bytes have no meaning; they are taken so that the peer's side can end in order.
                    let size = self.wire.arrived().len();
                    self.wire.take(size);
                    return Ok(self.wire.is_exhausted().then_some(Heard::Left));
                }
                Stage::Greeting => self.take_greeting(options, run, now)?,
                Stage::Calling(_) => self.take_welcome(options, now)?,
                _ => match self.take_message(now)? {
                    Some(Message::Heartbeat) => true,
                    Some(message) => return self.hear(message, run, now).map(Some),
                    None => false,
                },
            };
            if !moved {
                return if self.wire.is_exhausted() {
                    Err(ControlError::Closed)
                } else {
                    Ok(None)
                };
            }
        }
    }

    /// The next sealed message, once it has arrived.
    fn take_message(&mut self, now: Instant) -> Result<Option<Message>, ControlError> {
        let Some(frame) = self.wire.take_frame()? else {
            return Ok(None);
        };
        let seal = self
            .seal
            .as_mut()
            .expect("stages after the handshake have a seal");
        let message = Message::decode(&seal.open(&frame)?)?;
        self.heard = now;
        Ok(Some(message))
    }

    fn hear(&mut self, message: Message, run: u64, now: Instant) -> Result<Heard, ControlError> {
        match (&mut self.stage, message) {
            (
                Stage::Invited { ticket },
                Message::Connect {
                    ticket: shown,
                    run: of,
                    profile,
                    endpoint,
                    private_data,
                },
            ) => {
                if of != run {
                    return Err(ControlError::TicketUnknown);
                }
                ticket.redeem(&shown, now)?;
                self.enter(Stage::Asked, now);
                Ok(Heard::Asked {
                    endpoint,
                    profile,
                    private_data,
                })
            }
            (
                Stage::Waiting { profile },
                Message::Accepted {
                    endpoint,
                    private_data,
                },
            ) => {
                let profile = *profile;
                self.enter(Stage::Up, now);
                Ok(Heard::Accepted {
                    endpoint,
                    profile,
                    private_data,
                })
            }
            (Stage::Waiting { .. }, Message::Rejected { reason }) => {
                Err(ControlError::Rejected { reason })
            }
            (Stage::Answered, Message::Ready) => {
                self.enter(Stage::Up, now);
                Ok(Heard::Ready)
            }
            (
                Stage::Asked | Stage::Answered | Stage::Waiting { .. } | Stage::Up,
                Message::Goodbye { cause },
            ) => Ok(Heard::Goodbye(cause)),
            (_, message) => Err(ControlError::OutOfPlace {
                message: message.name(),
            }),
        }
    }

    /// The server's part of the handshake. Returns whether it continued.
    fn take_greeting(
        &mut self,
        options: &ControlOptions,
        run: u64,
        now: Instant,
    ) -> Result<bool, ControlError> {
        let arrived = self.wire.arrived();
        check_magic(arrived)?;
        let Ok((head, rest)) = Greeting::read_from_prefix(arrived) else {
            return Ok(false);
        };
        if head.version.get() != VERSION {
            self.wire.put(Reply::new(VERDICT_VERSION).as_bytes())?;
            return Err(ControlError::Version {
                found: head.version.get(),
                supported: VERSION,
            });
        }
        let size = GREETING_SIZE + usize::from(head.name_size);
        // The first message of the handshake follows directly; the server answers nothing before it has arrived.
        let Some(frame) = rest.get(usize::from(head.name_size)..) else {
            return Ok(false);
        };
        let Some(length) = frame
            .first_chunk::<2>()
            .map(|length| usize::from(u16::from_le_bytes(*length)))
        else {
            return Ok(false);
        };
        if length <= super::frame::FRAME_SIZE_MAX && frame.len() < 2 + length {
            return Ok(false);
        }
        let hello = self.wire.take(size).expect("the greeting has arrived");
        let frame = self.wire.take_frame()?.expect("the frame has arrived");
        let name = name_of(&hello)?.to_owned();
        let ticket = Ticket::new(now, self.terms.ticket_lifetime);
        let welcome = Welcome {
            run,
            ticket: ticket.bytes(),
            terms: self.terms,
            profile: options.profile,
        };
        let (seal, answer) = match respond(&hello, &name, &options.keys, &frame, &welcome.encode())
        {
            Ok(session) => session,
            Err(error) => {
                self.wire.put(Reply::new(VERDICT_KEY).as_bytes())?;
                return Err(error);
            }
        };
        self.wire.put(Reply::new(VERDICT_WELCOME).as_bytes())?;
        self.wire.put_frame(&answer)?;
        self.seal = Some(seal);
        self.name = name;
        self.enter(Stage::Invited { ticket }, now);
        Ok(true)
    }

    /// The client's part of the handshake. Returns whether it continued.
    fn take_welcome(
        &mut self,
        options: &ControlOptions,
        now: Instant,
    ) -> Result<bool, ControlError> {
        let arrived = self.wire.arrived();
        check_magic(arrived)?;
        let Ok((reply, rest)) = Reply::read_from_prefix(arrived) else {
            return Ok(false);
        };
        match reply.verdict {
            _ if reply.version.get() != VERSION => {
                return Err(ControlError::Version {
                    found: reply.version.get(),
                    supported: VERSION,
                });
            }
            VERDICT_WELCOME => {}
            VERDICT_KEY => {
                return Err(ControlError::KeyRefused {
                    name: self.name.clone(),
                });
            }
            _ => {
                return Err(ControlError::Malformed {
                    reason: "an unknown verdict",
                });
            }
        }
        let Some(length) = rest
            .first_chunk::<2>()
            .map(|length| usize::from(u16::from_le_bytes(*length)))
        else {
            return Ok(false);
        };
        if length <= super::frame::FRAME_SIZE_MAX && rest.len() < 2 + length {
            return Ok(false);
        }
        self.wire.take(REPLY_SIZE);
        let frame = self.wire.take_frame()?.expect("the frame has arrived");
        // A call stays a call until it has an answer, so that the caller learns of its end.
        let waiting = Stage::Waiting {
            profile: options.profile,
        };
        let Stage::Calling(call) = std::mem::replace(&mut self.stage, waiting) else {
            unreachable!("the caller looked")
        };
        let (initiator, offer) = *call;
        let (seal, welcome) = initiator.finish(&frame)?;
        let welcome = Welcome::decode(&welcome)?;
        self.seal = Some(seal);
        self.terms = LeaseTerms {
            duration: self.terms.duration.min(welcome.terms.duration),
            ..welcome.terms
        };
        self.heard = now;
        self.enter(
            Stage::Waiting {
                profile: welcome.profile,
            },
            now,
        );
        // The client reveals its own queue pair only here, to a server that has proven that it holds the key.
        self.say(
            &Message::Connect {
                ticket: welcome.ticket,
                run: welcome.run,
                profile: options.profile,
                endpoint: offer.endpoint,
                private_data: offer.private_data,
            },
            now,
        )?;
        Ok(true)
    }

    /// Seals and queues a message.
    fn say(&mut self, message: &Message, now: Instant) -> Result<(), ControlError> {
        let seal = self
            .seal
            .as_mut()
            .expect("only a link with a seal sends messages");
        let sealed = seal.close(&message.encode());
        self.wire.put_frame(&sealed)?;
        self.said = now;
        self.wire.flush()
    }

    /// Sends the program's acceptance.
    pub fn accept(&mut self, offer: Offer, now: Instant) -> Result<(), ControlError> {
        assert!(
            matches!(self.stage, Stage::Asked),
            "a request is answered once"
        );
        self.enter(Stage::Answered, now);
        self.say(
            &Message::Accepted {
                endpoint: offer.endpoint,
                private_data: offer.private_data,
            },
            now,
        )
    }

    /// Tells the server that the client's queue pair is connected.
    pub fn ready(&mut self, now: Instant) -> Result<(), ControlError> {
        self.say(&Message::Ready, now)
    }

    /// Tells the peer the reason of the refusal, if it has proven its identity, and leaves.
    pub fn refuse(&mut self, reason: String, now: Instant) {
        if self.seal.is_some() {
            let _ = self.say(&Message::Rejected { reason }, now);
        }
        self.leave(now);
    }

    /// Says goodbye and leaves.
    pub fn say_goodbye(&mut self, cause: EndCause, now: Instant) {
        if self.seal.is_some() {
            let _ = self.say(&Message::Goodbye { cause }, now);
        }
        self.leave(now);
    }

    /// Sends nothing more. The link stays until the peer has closed: otherwise the peer's further bytes would reset the
    /// connection and lose the last message.
    fn leave(&mut self, now: Instant) {
        let _ = self.wire.flush();
        let _ = self.stream().shutdown(std::net::Shutdown::Write);
        self.enter(Stage::Leaving, now);
    }

    /// The time at which the clock requires an action, at the latest.
    pub fn deadline(&self, options: &ControlOptions) -> Instant {
        match &self.stage {
            Stage::Greeting | Stage::Calling(_) => self.since + options.handshake_patience,
            Stage::Invited { .. } => {
                self.since + self.terms.ticket_lifetime + options.handshake_patience
            }
            Stage::Leaving => self.since + LEAVE_PATIENCE,
            _ => (self.heard + self.terms.duration).min(self.said + self.terms.heartbeat()),
        }
    }

    /// Does the work that is due by the clock.
    pub fn tick(&mut self, options: &ControlOptions, now: Instant) -> Result<(), ControlError> {
        match &self.stage {
            Stage::Leaving if now >= self.since + LEAVE_PATIENCE => Err(ControlError::Closed),
            Stage::Greeting | Stage::Calling(_) | Stage::Invited { .. }
                if now >= self.deadline(options) =>
            {
                let limit = self.deadline(options) - self.since;
                Err(ControlError::Late {
                    limit_ms: limit.as_millis() as u64,
                })
            }
            Stage::Greeting | Stage::Calling(_) | Stage::Invited { .. } | Stage::Leaving => Ok(()),
            _ if now >= self.heard + self.terms.duration => Err(ControlError::LeaseExpired {
                lease_ms: self.terms.duration.as_millis() as u64,
            }),
            _ if now >= self.said + self.terms.heartbeat() => self.say(&Message::Heartbeat, now),
            _ => Ok(()),
        }
    }

    /// Whether the link only waits for the peer to close.
    pub fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Leaving)
    }
}
