//! The thread of the control plane, and its handle for the device's thread.
//!
//! ```text
//!   device's thread                      control thread
//!     listen, call, accept, ... --commands--> sockets: one poll over all of them
//!     poll_event <--------------events------- links, dials, clocks
//!        bell (eventfd) wakes a device that sleeps
//! ```
//!
//! The thread never waits for the device's thread, and sends the heartbeats: a device that syncs a file for a second is
//! not taken for dead.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use stonecast_fabric::DeviceError;

use super::dial::Dial;
use super::handshake::random_bytes;
use super::link::{Heard, Link};
use super::message::EndCause;
use super::profile::PeerProfile;
use super::{BackOff, ControlError, KeyRing, LeaseTerms};
use crate::address::ControlAddress;
use crate::path::Endpoint;

/// The receiver of log lines about refused and lost peers.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of a control plane.
#[derive(Clone)]
pub struct ControlOptions {
    /// Keys of the clients that may connect here; the first is the key that this process shows on outgoing connections.
    pub keys: KeyRing,
    /// The grants to clients.
    pub terms: LeaseTerms,
    /// The platform that this side declares.
    pub profile: PeerProfile,
    /// Retries while a server does not answer.
    pub back_off: BackOff,
    /// Time that a peer may take to prove its identity.
    pub handshake_patience: Duration,
    /// The most peers that may be proving their identity at the same time.
    pub strangers_max: usize,
    /// The receiver of log lines about refused and lost peers.
    pub log: Log,
}

impl fmt::Debug for ControlOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ControlOptions")
            .field("terms", &self.terms)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// A connection of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// The description that one side gives of itself, once it may.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The queue pair.
    pub endpoint: Endpoint,
    /// At most [`PRIVATE_DATA_SIZE_MAX`](super::PRIVATE_DATA_SIZE_MAX) bytes.
    pub private_data: Vec<u8>,
}

/// An event for the device's thread.
#[derive(Debug)]
pub enum ControlEvent {
    /// A client that holds a key asks to connect.
    Request {
        /// The connection, for the answer.
        link: LinkId,
        /// Name of the peer's key, and the peer's address.
        peer: String,
        /// Name of the peer's key.
        key: String,
        /// The peer's queue pair.
        endpoint: Endpoint,
        /// The platform that the peer declares.
        profile: PeerProfile,
        /// The peer's private data.
        private_data: Vec<u8>,
    },
    /// The server accepts a call.
    Accepted {
        /// The call.
        link: LinkId,
        /// The peer's queue pair.
        endpoint: Endpoint,
        /// The platform that the peer declares.
        profile: PeerProfile,
        /// The peer's private data.
        private_data: Vec<u8>,
    },
    /// A call failed.
    Refused {
        /// The call.
        link: LinkId,
        /// The reason.
        error: ControlError,
    },
    /// The client of an accepted request is connected.
    Ready {
        /// The request.
        link: LinkId,
    },
    /// The connection ended.
    Ended {
        /// The connection.
        link: LinkId,
        /// The reason.
        cause: EndCause,
    },
}

enum Command {
    Listen(TcpListener),
    Call {
        link: LinkId,
        address: ControlAddress,
        places: Vec<SocketAddr>,
        offer: Offer,
    },
    Accept {
        link: LinkId,
        offer: Offer,
    },
    Reject {
        link: LinkId,
        reason: String,
    },
    Ready {
        link: LinkId,
    },
    HangUp {
        link: LinkId,
        cause: EndCause,
    },
    /// Ends as the death of the process would.
    Abandon,
    Stop,
}

/// The state that the two threads share.
struct Shared {
    commands: Mutex<Vec<Command>>,
    /// Readable when there are commands.
    wake: OwnedFd,
    events: Mutex<VecDeque<ControlEvent>>,
    any_events: AtomicBool,
    /// Readable when there are events, or after another thread woke the device.
    bell: OwnedFd,
    /// Whether another thread of this process woke the device.
    unparked: AtomicBool,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unparked.store(true, Ordering::SeqCst);
        ring(&self.bell);
    }
}

/// The handle of the device's thread. Its drop says goodbye to all peers and ends the thread.
pub struct ControlPlane {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    next_link: u64,
}

/// Outgoing calls have odd numbers, incoming connections even ones.
const CALL: u64 = 1;
/// Longest sleep of the thread.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Time for which an ending plane waits until its goodbyes are delivered.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

impl ControlPlane {
    /// Starts the thread.
    pub fn start(options: ControlOptions) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            wake: eventfd(0, flags)?,
            events: Mutex::default(),
            any_events: AtomicBool::new(false),
            bell: eventfd(0, flags)?,
            unparked: AtomicBool::new(false),
        });
        let engine = Engine::new(options, shared.clone());
        let thread = thread::Builder::new()
            .name("verbs-control".into())
            .spawn(move || engine.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
            next_link: CALL,
        })
    }

    fn command(&self, command: Command) {
        self.shared
            .commands
            .lock()
            .expect("no holder panics")
            .push(command);
        ring(&self.shared.wake);
    }

    /// Starts accepting calls at `address`. Returns the actual address: port 0 stands for any free port.
    pub fn listen(&self, address: &ControlAddress) -> Result<SocketAddr, DeviceError> {
        let places = address.resolve()?;
        let cannot = |error: io::Error| {
            let cure = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process listens there; stop it or choose another port"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "this machine does not have that address; ip addr lists its addresses"
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 are reserved for root; choose another port"
                }
                _ => "listening failed",
            };
            address.refuse(format!("{error}; {cure}"))
        };
        let listener = TcpListener::bind(&places[..]).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let place = listener.local_addr().map_err(cannot)?;
        self.command(Command::Listen(listener));
        Ok(place)
    }

    /// Calls the server at `address`: [`ControlEvent::Accepted`] or [`ControlEvent::Refused`] follows.
    pub fn call(&mut self, address: &ControlAddress, offer: Offer) -> Result<LinkId, DeviceError> {
        let places = address.resolve()?;
        let link = LinkId(self.next_link);
        self.next_link += 2;
        self.command(Command::Call {
            link,
            address: address.clone(),
            places,
            offer,
        });
        Ok(link)
    }

    /// Accepts a request: [`ControlEvent::Ready`] follows, or [`ControlEvent::Ended`].
    pub fn accept(&self, link: LinkId, offer: Offer) {
        self.command(Command::Accept { link, offer });
    }

    /// Refuses a request.
    pub fn reject(&self, link: LinkId, reason: String) {
        self.command(Command::Reject { link, reason });
    }

    /// Tells the server that the queue pair of this client is connected.
    pub fn ready(&self, link: LinkId) {
        self.command(Command::Ready { link });
    }

    /// Ends a connection. No event follows.
    pub fn hang_up(&self, link: LinkId, cause: EndCause) {
        self.command(Command::HangUp { link, cause });
    }

    /// Ends every connection as the death of this process would, without a goodbye.
    pub fn abandon(&mut self) {
        self.command(Command::Abandon);
        self.join();
    }

    /// Whether there is an event. Cheap.
    pub fn has_events(&self) -> bool {
        self.shared.any_events.load(Ordering::Acquire)
    }

    /// Takes the oldest event.
    pub fn poll_event(&self) -> Option<ControlEvent> {
        if !self.has_events() {
            return None;
        }
        let mut events = self.shared.events.lock().expect("no holder panics");
        let event = events.pop_front();
        self.shared
            .any_events
            .store(!events.is_empty(), Ordering::Release);
        event
    }

    /// Readable when there may be an event, or another thread woke the device.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Clears the bell. Returns whether another thread of this process woke the device since the last call.
    pub fn silence(&self) -> bool {
        take(&self.shared.bell);
        self.shared.unparked.swap(false, Ordering::SeqCst)
    }

    /// Ends the device's current or next sleep, from any thread.
    pub fn waker(&self) -> Waker {
        Waker::from(self.shared.clone())
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the control thread does not panic");
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.command(Command::Stop);
            self.join();
        }
    }
}

fn ring(bell: &OwnedFd) {
    // A full counter means that the bell is already readable.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn take(bell: &OwnedFd) {
    // An empty counter means that nothing rang.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

/// The state of the control thread.
struct Engine {
    options: ControlOptions,
    shared: Arc<Shared>,
    /// The number of this run; tickets of another run are invalid.
    run: u64,
    listeners: Vec<TcpListener>,
    links: BTreeMap<u64, Link>,
    dials: BTreeMap<u64, Dial>,
    next_link: u64,
    /// Set when the plane ends: the time until which goodbyes may still be delivered.
    stopping: Option<Instant>,
}

/// The owner of a descriptor in the poll.
#[derive(Clone, Copy)]
enum Source {
    Wake,
    Listener(usize),
    Link(u64),
    Dial(u64),
}

impl Engine {
    fn new(options: ControlOptions, shared: Arc<Shared>) -> Self {
        let run = u64::from_le_bytes(random_bytes());
        Self {
            options,
            shared,
            run,
            listeners: Vec::new(),
            links: BTreeMap::new(),
            dials: BTreeMap::new(),
            next_link: 2,
            stopping: None,
        }
    }

    fn run(mut self) {
        loop {
            let ready = self.wait();
            let now = Instant::now();
            if !self.obey(now) {
                return;
            }
            for source in ready {
                match source {
                    Source::Wake => take(&self.shared.wake),
                    Source::Listener(index) => self.welcome_strangers(index, now),
                    Source::Link(number) => self.serve(number, now),
                    Source::Dial(number) => self.dial(number, now),
                }
            }
            self.tick(now);
            if self.stopping.is_some_and(|until| {
                now >= until || self.links.values().all(|link| !link.is_leaving())
            }) {
                return;
            }
        }
    }

    /// Sleeps until a descriptor is ready or a clock runs out.
    fn wait(&self) -> Vec<Source> {
        let mut sources = vec![Source::Wake];
        let mut descriptors = vec![PollFd::from_borrowed_fd(
            self.shared.wake.as_fd(),
            PollFlags::IN,
        )];
        for (index, listener) in self.listeners.iter().enumerate() {
            sources.push(Source::Listener(index));
            descriptors.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        for (&number, link) in &self.links {
            let output = if link.has_output() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            sources.push(Source::Link(number));
            descriptors.push(PollFd::from_borrowed_fd(
                link.stream().as_fd(),
                PollFlags::IN | output,
            ));
        }
        for (&number, dial) in &self.dials {
            if let Some(socket) = dial.socket() {
                sources.push(Source::Dial(number));
                descriptors.push(PollFd::from_borrowed_fd(socket, PollFlags::OUT));
            }
        }
        let now = Instant::now();
        let clocks = self
            .links
            .values()
            .map(|link| link.deadline(&self.options))
            .chain(self.dials.values().filter_map(Dial::deadline));
        let next = clocks.chain(self.stopping).min().unwrap_or(now + SLEEP_MAX);
        let sleep = next.saturating_duration_since(now).min(SLEEP_MAX);
        // Rounded up, so that the thread does not spin for the last part of a millisecond.
        let sleep = sleep + Duration::from_micros(100);
        let timeout = Timespec {
            tv_sec: sleep.as_secs() as i64,
            tv_nsec: sleep.subsec_nanos().into(),
        };
        if poll(&mut descriptors, Some(&timeout)).is_err() {
            return Vec::new();
        }
        descriptors
            .iter()
            .zip(sources)
            .filter(|(descriptor, _)| !descriptor.revents().is_empty())
            .map(|(_, source)| source)
            .collect()
    }

    /// Executes the commands of the device's thread. `false`: end at once.
    fn obey(&mut self, now: Instant) -> bool {
        let commands = std::mem::take(&mut *self.shared.commands.lock().expect("no holder panics"));
        for command in commands {
            match command {
                Command::Listen(listener) => self.listeners.push(listener),
                Command::Call {
                    link,
                    address,
                    places,
                    offer,
                } => {
                    self.dials.insert(
                        link.0,
                        Dial::new(address, places, offer, self.options.back_off, now),
                    );
                    self.dial(link.0, now);
                }
                Command::Accept { link, offer } => {
                    self.with_link(link, |link| link.accept(offer, now), now)
                }
                Command::Ready { link } => self.with_link(link, |link| link.ready(now), now),
                Command::Reject { link, reason } => {
                    if let Some(link) = self.links.get_mut(&link.0) {
                        link.refuse(reason, now);
                    }
                }
                Command::HangUp { link, cause } => {
                    self.dials.remove(&link.0);
                    if let Some(link) = self.links.get_mut(&link.0) {
                        link.say_goodbye(cause, now);
                    }
                }
                Command::Abandon => return false,
                Command::Stop => {
                    self.stopping = Some(now + STOP_PATIENCE);
                    self.listeners.clear();
                    self.dials.clear();
                    self.links.retain(|_, link| !link.is_stranger());
                    self.links
                        .values_mut()
                        .for_each(|link| link.say_goodbye(EndCause::Requested, now));
                }
            }
        }
        true
    }

    /// Lets `work` operate on a link of the program; if the link is gone, the program is told.
    fn with_link(
        &mut self,
        link: LinkId,
        work: impl FnOnce(&mut Link) -> Result<(), ControlError>,
        now: Instant,
    ) {
        let worked = match self.links.get_mut(&link.0) {
            Some(link) if !link.is_leaving() => work(link),
            _ => {
                return self.tell(ControlEvent::Ended {
                    link,
                    cause: EndCause::Died,
                });
            }
        };
        if let Err(error) = worked {
            self.lose(link.0, error, now);
        }
    }

    fn tell(&self, event: ControlEvent) {
        self.shared
            .events
            .lock()
            .expect("no holder panics")
            .push_back(event);
        self.shared.any_events.store(true, Ordering::Release);
        ring(&self.shared.bell);
    }

    /// Takes all callers that wait at a listener, as far as there is room.
    fn welcome_strangers(&mut self, index: usize, now: Instant) {
        while let Some(Ok((stream, address))) = self.listeners.get(index).map(TcpListener::accept) {
            let strangers = self
                .links
                .values()
                .filter(|link| link.is_stranger())
                .count();
            if strangers >= self.options.strangers_max {
                // The oldest is dropped: it had the most time, and peers that only occupy places cannot keep others
                // out.
                let oldest = self
                    .links
                    .iter()
                    .filter(|(_, link)| link.is_stranger())
                    .min_by_key(|(number, _)| **number);
                if let Some((&oldest, link)) = oldest {
                    (self.options.log)(&format!(
                        "dropped {}: too many peers that have not proven who they are",
                        link.who()
                    ));
                    self.links.remove(&oldest);
                }
            }
            let number = self.next_link;
            self.next_link += 2;
            match Link::incoming(stream, address.to_string(), &self.options, now) {
                Ok(link) => drop(self.links.insert(number, link)),
                Err(error) => (self.options.log)(&format!("refused {address}: {error}")),
            }
        }
    }

    /// Continues a call that is not yet connected.
    fn dial(&mut self, number: u64, now: Instant) {
        let Some(dial) = self.dials.get_mut(&number) else {
            return;
        };
        match dial.advance(now) {
            Ok(None) => {}
            Ok(Some(stream)) => {
                let Some(dial) = self.dials.remove(&number) else {
                    return;
                };
                let (address, offer) = dial.into_parts();
                match Link::outgoing(stream, address.to_string(), &self.options, offer, now) {
                    Ok(link) => drop(self.links.insert(number, link)),
                    Err(error) => self.tell(ControlEvent::Refused {
                        link: LinkId(number),
                        error,
                    }),
                }
            }
            Err(error) => {
                self.dials.remove(&number);
                self.tell(ControlEvent::Refused {
                    link: LinkId(number),
                    error,
                });
            }
        }
    }

    /// Reads from and writes to one link.
    fn serve(&mut self, number: u64, now: Instant) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        if let Err(error) = link.fill(now).and_then(|()| link.flush()) {
            return self.lose(number, error, now);
        }
        loop {
            let Some(link) = self.links.get_mut(&number) else {
                return;
            };
            match link.advance(&self.options, self.run, now) {
                Ok(None) => break,
                Ok(Some(heard)) => self.heard(number, heard, now),
                Err(error) => return self.lose(number, error, now),
            }
        }
        if let Some(link) = self.links.get_mut(&number)
            && let Err(error) = link.flush()
        {
            self.lose(number, error, now);
        }
    }

    fn heard(&mut self, number: u64, heard: Heard, now: Instant) {
        let link = LinkId(number);
        match heard {
            Heard::Asked {
                endpoint,
                profile,
                private_data,
            } => {
                let Some(asking) = self.links.get(&number) else {
                    return;
                };
                let (name, peer) = (asking.name.clone(), asking.who());
                let others = self
                    .links
                    .iter()
                    .filter(|(other, link)| **other != number && link.counts_for(&name))
                    .count();
                match self.options.terms.check(&endpoint, others as u32) {
                    Ok(()) => self.tell(ControlEvent::Request {
                        link,
                        peer,
                        key: name,
                        endpoint,
                        profile,
                        private_data,
                    }),
                    Err(error) => self.refuse(number, &error, now),
                }
            }
            Heard::Accepted {
                endpoint,
                profile,
                private_data,
            } => {
                self.tell(ControlEvent::Accepted {
                    link,
                    endpoint,
                    profile,
                    private_data,
                });
            }
            Heard::Ready => self.tell(ControlEvent::Ready { link }),
            Heard::Goodbye(cause) => {
                self.links.remove(&number);
                self.tell(ControlEvent::Ended { link, cause });
            }
            Heard::Left => drop(self.links.remove(&number)),
        }
    }

    /// Refuses a peer that has proven its identity but asks for more than it may have.
    fn refuse(&mut self, number: u64, error: &ControlError, now: Instant) {
        if let Some(link) = self.links.get_mut(&number) {
            (self.options.log)(&format!("refused {}: {error}", link.who()));
            link.refuse(error.to_string(), now);
        }
    }

    /// Ends a link after an error.
    fn lose(&mut self, number: u64, error: ControlError, now: Instant) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        if link.is_leaving() {
            self.links.remove(&number);
            return;
        }
        let id = LinkId(number);
        if link.is_calling() {
            self.links.remove(&number);
            return self.tell(ControlEvent::Refused { link: id, error });
        }
        let known = link.is_known();
        if known {
            (self.options.log)(&format!("lost {}: {error}", link.who()));
            self.links.remove(&number);
            self.tell(ControlEvent::Ended {
                link: id,
                cause: EndCause::Died,
            });
        } else {
            self.refuse(number, &error, now);
        }
    }

    /// Does the work that is due by the clocks.
    fn tick(&mut self, now: Instant) {
        let due: Vec<u64> = self
            .links
            .iter()
            .filter(|(_, link)| now >= link.deadline(&self.options))
            .map(|(&number, _)| number)
            .collect();
        for number in due {
            let Some(link) = self.links.get_mut(&number) else {
                continue;
            };
            if let Err(error) = link.tick(&self.options, now) {
                self.lose(number, error, now);
            }
        }
        let due: Vec<u64> = self
            .dials
            .iter()
            .filter(|(_, dial)| dial.deadline().is_some_and(|at| now >= at))
            .map(|(&number, _)| number)
            .collect();
        due.into_iter().for_each(|number| self.dial(number, now));
    }
}
