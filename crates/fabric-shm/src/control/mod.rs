//! The control thread of a device. It answers peers on Unix sockets and sees their deaths, whatever the device's own
//! thread is busy with.
//!
//! ```text
//!   device thread                    State (one mutex)                    control thread
//!     listen, connect, accept ...  ->  sockets, shared regions  <-          epoll: new peers, packets, hang-ups
//!     next_event                   <-  events                   <-          reports to the device
//! ```
//!
//! The life of a socket: Greeting (accepted, silent so far) -> Asked (its request was handed up) -> Connected, or
//! Connecting (the request of this device is out) -> Connected. A peer that sends something wrong before it is
//! connected is told the reason and dropped. Afterwards the socket stays open until the device's own thread ends it,
//! because its end tells the peer that no one is inside the peer's memory.
//!
//! A peer's death closes its sockets in the kernel; the hang-up arrives here at once and wakes the device.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use stonecast_fabric::DisconnectCause;

use crate::bell::Bell;
use crate::grants::SharedRegion;
use crate::message::{Hello, Message};
use crate::options::Log;
use crate::socket::{self, Listener, Peer, SocketAccess};

mod door;
mod packets;
mod thread;

use door::Door;

/// Names a socket for the life of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// A report to the device.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// A peer wants to connect. The descriptors are counted; nothing else is checked.
    Request {
        token: Token,
        peer: Peer,
        same_user: bool,
        hello: Hello,
        descriptors: Vec<OwnedFd>,
    },
    /// A peer that wanted to connect is gone.
    Withdrawn { token: Token },
    /// The peer accepted the request.
    Accepted {
        token: Token,
        hello: Hello,
        descriptors: Vec<OwnedFd>,
    },
    /// The peer rejected the request, for this reason.
    Rejected { token: Token, reason: String },
    /// The peer's answer on a region.
    Region {
        token: Token,
        region: u32,
        writable: bool,
        grant: Option<RegionFile>,
    },
    /// The peer has ended the connection.
    Disconnected {
        token: Token,
        cause: DisconnectCause,
    },
    /// The peer's socket hung up: the peer is dead, or has left the memory of this process for good.
    Gone { token: Token },
    /// The peer sent a message that no honest peer sends.
    Broken { token: Token },
}

/// A region of a peer, ready to be mapped.
#[derive(Debug)]
pub(crate) struct RegionFile {
    pub(crate) file: OwnedFd,
    pub(crate) file_offset: u64,
    pub(crate) size: u64,
}

/// An established or pending connection, from the view of the device's thread.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) token: Token,
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) peer: Peer,
    /// Whether the peer counts as the same user.
    pub(crate) same_user: bool,
}

/// The device's side. Its drop ends the thread and hangs up every socket.
#[derive(Debug)]
pub(crate) struct Control {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    /// Ends the thread.
    stop: OwnedFd,
    /// Whether there are events.
    pending: AtomicBool,
    bell: Bell,
    /// Whether every peer is treated as another user.
    copying_only: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_token: u64,
    listeners: BTreeMap<u64, Listener>,
    sockets: BTreeMap<u64, Entry>,
    events: VecDeque<ControlEvent>,
    regions: BTreeMap<u32, SharedRegion>,
}

#[derive(Debug)]
struct Entry {
    socket: Arc<OwnedFd>,
    peer: Peer,
    same_user: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Silent so far; dropped if it is still silent at the deadline.
    Greeting { deadline_ns: u64 },
    /// Waits for the answer of the device.
    Asked,
    /// The peer has not answered the request of this queue pair yet.
    Connecting { queue_pair: u32 },
    /// Belongs to this queue pair.
    Connected { queue_pair: u32 },
    /// The peer sent an invalid message; only its end matters.
    Broken,
}

impl Control {
    /// Starts the thread.
    pub(crate) fn start(bell: Bell, copying_only: bool, log: Log) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(
            &epoll,
            &stop,
            EventData::new_u64(thread::STOP),
            EventFlags::IN,
        )?;
        let shared = Arc::new(Shared {
            epoll,
            stop,
            pending: AtomicBool::new(false),
            bell,
            copying_only,
            state: Mutex::new(State {
                next_token: thread::STOP + 1,
                ..State::default()
            }),
        });
        let for_thread = shared.clone();
        let door = Door::new(log)?;
        let run = move || thread::run(&for_thread, door);
        let thread = std::thread::Builder::new()
            .name("stonecast-control".into())
            .spawn(run)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Starts accepting connections at `path`.
    pub(crate) fn listen(&self, path: &Path, access: SocketAccess) -> io::Result<()> {
        let listener = Listener::new(path, access)?;
        let state = &mut *self.shared.lock();
        let token = state.new_token();
        epoll::add(
            &self.shared.epoll,
            &listener.socket,
            EventData::new_u64(token),
            EventFlags::IN,
        )?;
        state.listeners.insert(token, listener);
        Ok(())
    }

    /// Connects to the listener at `path`, without sending anything yet.
    pub(crate) fn dial(&self, path: &Path) -> io::Result<Line> {
        let socket = Arc::new(socket::connect(path)?);
        let peer = socket::peer(&socket)?;
        let token = Token(self.shared.lock().new_token());
        Ok(Line {
            token,
            socket,
            peer,
            same_user: self.shared.is_same_user(peer),
        })
    }

    /// Sends the request; the answer comes as an event.
    pub(crate) fn request(
        &self,
        line: &Line,
        hello: Hello,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let phase = Phase::Connecting {
            queue_pair: hello.queue_pair,
        };
        let packet = Message::Connect(hello).encode();
        // The socket is registered before an answer can arrive.
        let state = &mut *self.shared.lock();
        self.shared.add(
            state,
            line.token.0,
            line.socket.clone(),
            line.peer,
            line.same_user,
            phase,
        )?;
        match socket::send(&line.socket, &packet, descriptors) {
            // A peer that hung up may have sent a reason, which is read like any other answer.
            Err(error) if socket::is_hang_up(&error) => Ok(()),
            Err(error) => {
                self.shared.forget(state, line.token.0);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Answers a request: connects it to `queue_pair`.
    pub(crate) fn accept(
        &self,
        token: Token,
        queue_pair: u32,
        hello: Hello,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Line> {
        let state = &mut *self.shared.lock();
        let asked = |entry: &&mut Entry| entry.phase == Phase::Asked;
        let entry = state
            .sockets
            .get_mut(&token.0)
            .filter(asked)
            .ok_or(io::ErrorKind::NotConnected)?;
        socket::send(&entry.socket, &Message::Accept(hello).encode(), descriptors)?;
        entry.phase = Phase::Connected { queue_pair };
        Ok(Line {
            token,
            socket: entry.socket.clone(),
            peer: entry.peer,
            same_user: entry.same_user,
        })
    }

    /// Rejects a request.
    pub(crate) fn reject(&self, token: Token, reason: &str) {
        let state = &mut *self.shared.lock();
        if state.sockets.contains_key(&token.0) {
            self.shared.refuse(state, token.0, reason);
        }
    }

    /// Abandons a request that was sent.
    pub(crate) fn hang_up(&self, token: Token) {
        let state = &mut *self.shared.lock();
        if let Some(entry) = state.sockets.get(&token.0) {
            socket::end(&entry.socket);
        }
        self.shared.forget(state, token.0);
    }

    /// Whether [`Control::next_event`] has something. One load.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// The oldest event.
    pub(crate) fn next_event(&self) -> Option<ControlEvent> {
        if !self.has_events() {
            return None;
        }
        let state = &mut *self.shared.lock();
        let event = state.events.pop_front();
        if state.events.is_empty() {
            self.shared.pending.store(false, Ordering::Release);
        }
        event
    }

    /// Lets `change` modify the regions that peers may receive.
    pub(crate) fn with_regions<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<u32, SharedRegion>) -> T,
    ) -> T {
        change(&mut self.shared.lock().regions)
    }

    /// Hangs up every socket, as the death of this process would.
    pub(crate) fn abandon(&self) {
        let state = &mut *self.shared.lock();
        std::mem::take(&mut state.listeners)
            .into_values()
            .for_each(Listener::abandon);
        for entry in std::mem::take(&mut state.sockets).into_values() {
            // Fails only if the descriptor is not watched.
            let _ = epoll::delete(&self.shared.epoll, &*entry.socket);
            socket::end(&entry.socket);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // An eventfd accepts this many more.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A control thread that panicked has already reported it.
            let _ = thread.join();
        }
        self.shared.lock().listeners.clear();
        self.abandon();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn is_own_user(&self, peer: Peer) -> bool {
        peer.user == rustix::process::geteuid().as_raw()
    }

    fn is_same_user(&self, peer: Peer) -> bool {
        !self.copying_only && self.is_own_user(peer)
    }

    fn add(
        &self,
        state: &mut State,
        token: u64,
        socket: Arc<OwnedFd>,
        peer: Peer,
        same_user: bool,
        phase: Phase,
    ) -> io::Result<()> {
        epoll::add(
            &self.epoll,
            &*socket,
            EventData::new_u64(token),
            EventFlags::IN | EventFlags::RDHUP,
        )?;
        state.sockets.insert(
            token,
            Entry {
                socket,
                peer,
                same_user,
                phase,
            },
        );
        Ok(())
    }

    /// Stops watching a socket. The socket is closed when its last holder drops it.
    fn forget(&self, state: &mut State, token: u64) {
        if let Some(entry) = state.sockets.remove(&token) {
            // Fails only if the descriptor is not watched.
            let _ = epoll::delete(&self.epoll, entry.socket.as_fd());
        }
    }

    /// Ignores everything on this socket but its end.
    fn mark_broken(&self, state: &mut State, token: u64) {
        if let Some(entry) = state.sockets.get_mut(&token) {
            entry.phase = Phase::Broken;
            // Without this call the packets would be read and thrown away.
            let _ = epoll::modify(
                &self.epoll,
                entry.socket.as_fd(),
                EventData::new_u64(token),
                EventFlags::RDHUP,
            );
        }
    }

    /// Tells a peer why it is not accepted, and drops it.
    fn refuse(&self, state: &mut State, token: u64, reason: &str) {
        if let Some(entry) = state.sockets.get(&token) {
            // A peer that does not listen is not told.
            let _ = socket::send(&entry.socket, &Message::Reject(reason.into()).encode(), &[]);
            socket::end_sending(&entry.socket);
        }
        self.forget(state, token);
    }

    /// Reports an event to the device.
    fn tell(&self, state: &mut State, event: ControlEvent) {
        state.events.push_back(event);
        self.pending.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl State {
    fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}
