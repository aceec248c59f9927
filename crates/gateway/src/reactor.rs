//! Readiness of sockets: one epoll instance for each thread.
//!
//! Sockets are registered once, edge-triggered, so a request costs no system call other than its read and its write. A
//! [`Readiness`] keeps the report of epoll until a task finds the socket exhausted. Other threads end a wait for events
//! through an eventfd in the same epoll instance.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::Timespec;
use slab::Slab;
use stonecast_base::Nanoseconds;

/// The epoll instance of a thread.
pub struct Reactor {
    epoll: OwnedFd,
    bell: Arc<Bell>,
    sources: RefCell<Slab<Rc<Readiness>>>,
    events: RefCell<Vec<Event>>,
    turns: RefCell<VecDeque<Waker>>,
    /// Bytes that tasks have moved since events were last taken.
    work: Cell<usize>,
}

/// Ends the current wait for events, or the next wait at once. Each ring is an event of its own, so the eventfd is
/// never read.
struct Bell(OwnedFd);

/// The readiness of a socket.
#[derive(Debug, Default)]
pub struct Readiness {
    readable: Cell<bool>,
    writable: Cell<bool>,
    /// Whether the peer has ended; the socket is then always readable, since a read returns at least the end.
    hung_up: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A registered socket. Dropping it ends the registration.
pub struct Source<S: AsFd> {
    reactor: Rc<Reactor>,
    index: usize,
    readiness: Rc<Readiness>,
    socket: S,
}

/// Events of a connected socket, each reported once.
const CONNECTED: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);
/// Events of a source that several threads wait for, reported as long as they hold.
const SHARED: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);
/// Events of the bell, one for each ring.
const RUNG: EventFlags = EventFlags::IN.union(EventFlags::ET);
/// The bell's index among the sources; no source has this index.
const BELL: u64 = u64::MAX;
/// The most events that one call takes.
const EVENTS_MAX: usize = 512;
/// The work between two calls after which a task with much work waits for the next call.
const WORK_MAX: usize = 1 << 20;

impl Reactor {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), RUNG)?;
        Ok(Self {
            epoll,
            bell: Arc::new(Bell(bell)),
            sources: RefCell::default(),
            events: RefCell::new(Vec::with_capacity(EVENTS_MAX)),
            turns: RefCell::default(),
            work: Cell::new(0),
        })
    }

    /// Registers a connected socket. The socket counts as ready until a call finds the opposite.
    pub fn add<S: AsFd>(self: &Rc<Self>, socket: S) -> io::Result<Source<S>> {
        self.register(socket, CONNECTED)
    }

    /// Registers a source for which several threads wait. One of the threads is enough to take the event.
    pub fn add_shared<S: AsFd>(self: &Rc<Self>, socket: S) -> io::Result<Source<S>> {
        self.register(socket, SHARED)
    }

    fn register<S: AsFd>(self: &Rc<Self>, socket: S, flags: EventFlags) -> io::Result<Source<S>> {
        let readiness = Rc::new(Readiness::default());
        readiness.readable.set(true);
        readiness.writable.set(true);
        let index = self.sources.borrow_mut().insert(readiness.clone());
        if let Err(error) = epoll::add(
            &self.epoll,
            &socket,
            EventData::new_u64(index as u64),
            flags,
        ) {
            self.sources.borrow_mut().remove(index);
            return Err(error.into());
        }
        Ok(Source {
            reactor: self.clone(),
            index,
            readiness,
            socket,
        })
    }

    /// Takes events, and waits at most `timeout` nanoseconds for the first one. Returns whether there was an event.
    pub fn poll(&self, timeout: Nanoseconds) -> bool {
        let timeout = Timespec {
            tv_sec: (timeout / 1_000_000_000) as i64,
            tv_nsec: (timeout % 1_000_000_000) as i64,
        };
        let mut events = self.events.borrow_mut();
        events.clear();
        self.work.set(0);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                panic!("waiting for events of the epoll instance of this reactor: {error}")
            }
        }
        let sources = self.sources.borrow();
        for event in events.iter() {
            // Copied, since the event's fields are not aligned.
            let (data, flags) = (event.data, event.flags);
            if let Some(readiness) = sources.get(data.u64() as usize) {
                readiness.note(flags);
            }
        }
        let next = self.turns.borrow_mut().pop_front();
        if let Some(next) = next {
            next.wake();
        }
        !events.is_empty()
    }

    /// Ends the current [`poll`](Self::poll), or the next one at once. Any thread may use the waker.
    pub fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    /// Waits until events have been taken again and the earlier tasks in line have had their turn. A connection with
    /// little work therefore waits for a single connection with much work, however many of the latter there are.
    pub async fn turn(&self) {
        let mut was_asked = false;
        poll_fn(|context| {
            if std::mem::replace(&mut was_asked, true) {
                return Poll::Ready(());
            }
            self.turns.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Counts work, as bytes that were moved.
    pub fn note_work(&self, bytes: usize) {
        self.work.set(self.work.get().saturating_add(bytes));
    }

    /// Returns whether so much work was done since events were taken that long operations wait for a turn.
    pub fn is_late(&self) -> bool {
        self.work.get() >= WORK_MAX
    }

    /// Takes events if the thread is late, for a task that runs for long without a turn.
    pub fn look_if_late(&self) {
        if self.is_late() {
            self.poll(0);
        }
    }

    /// Returns whether a task waits for its turn, so that the thread must not sleep.
    pub fn has_turns(&self) -> bool {
        !self.turns.borrow().is_empty()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // An eventfd counts more rings than a machine makes in its lifetime.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Readiness {
    fn note(&self, flags: EventFlags) {
        let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if ended {
            self.hung_up.set(true);
        }
        if ended || flags.contains(EventFlags::IN) {
            self.readable.set(true);
        }
        if ended || flags.contains(EventFlags::OUT) {
            self.writable.set(true);
        }
        self.wake();
    }

    /// Wakes the waiting task, if any.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Returns whether a read may return bytes.
    pub fn is_readable(&self) -> bool {
        self.readable.get()
    }

    /// Returns whether the socket may take bytes.
    pub fn is_writable(&self) -> bool {
        self.writable.get()
    }

    /// Notes that the socket has no more bytes at the moment.
    pub fn clear_readable(&self) {
        self.readable.set(self.hung_up.get());
    }

    /// Notes that the socket takes no more bytes at the moment.
    pub fn clear_writable(&self) {
        self.writable.set(false);
    }

    /// Makes `wake` wake the task of `context`.
    pub fn register(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &*waker {
            Some(old) if old.will_wake(context.waker()) => {}
            _ => *waker = Some(context.waker().clone()),
        }
    }
}

impl<S: AsFd> Source<S> {
    /// The readiness of the source.
    pub fn readiness(&self) -> &Rc<Readiness> {
        &self.readiness
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Waits until there may be bytes to read.
    pub async fn readable(&self) {
        poll_fn(|context| {
            if self.readiness.is_readable() {
                return Poll::Ready(());
            }
            self.readiness.register(context);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the socket may take bytes.
    pub async fn writable(&self) {
        poll_fn(|context| {
            if self.readiness.is_writable() {
                return Poll::Ready(());
            }
            self.readiness.register(context);
            Poll::Pending
        })
        .await;
    }

    /// Suspends the registration of a shared source, which does not wake this thread until `resume`.
    pub fn pause(&self) -> io::Result<()> {
        Ok(epoll::delete(&self.reactor.epoll, &self.socket)?)
    }

    /// Registers a shared source again. The source then counts as ready.
    pub fn resume(&self) -> io::Result<()> {
        let data = EventData::new_u64(self.index as u64);
        epoll::add(&self.reactor.epoll, &self.socket, data, SHARED)?;
        self.readiness.readable.set(true);
        Ok(())
    }
}

impl<S: AsFd> Drop for Source<S> {
    fn drop(&mut self) {
        // The call fails only for a source that is paused.
        let _ = epoll::delete(&self.reactor.epoll, &self.socket);
        self.reactor.sources.borrow_mut().remove(self.index);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn readiness_comes_once_and_ends_with_a_call_that_finds_nothing() {
        let reactor = Rc::new(Reactor::new().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let source = reactor.add(ours).unwrap();
        assert!(
            source.readiness().is_readable(),
            "ready until it says otherwise"
        );
        reactor.poll(0);
        source.readiness().clear_readable();
        assert!(!reactor.poll(0));
        theirs.write_all(b"a").unwrap();
        assert!(reactor.poll(1_000_000_000));
        assert!(source.readiness().is_readable());
        assert!(!reactor.poll(0), "edge-triggered");
    }

    /// Needs `hung_up`: the last bytes and the end come with one event, and no other event follows.
    #[test]
    fn the_end_stays_readable() {
        let reactor = Rc::new(Reactor::new().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let source = reactor.add(ours).unwrap();
        theirs.write_all(b"a").unwrap();
        drop(theirs);
        assert!(reactor.poll(1_000_000_000));
        let mut byte = [0];
        source.socket().read_exact(&mut byte).unwrap();
        source.readiness().clear_readable();
        assert!(source.readiness().is_readable());
    }

    #[test]
    fn a_source_that_is_dropped_leaves_nothing_behind() {
        let reactor = Rc::new(Reactor::new().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kept = ours.try_clone().unwrap();
        drop(reactor.add(ours).unwrap());
        drop(theirs);
        assert!(
            !reactor.poll(0),
            "another handle of the socket is still open, and no event comes"
        );
        assert!(reactor.sources.borrow().is_empty());
        drop(kept);
    }

    /// Needs the task itself to take events: the thread takes events only when no task has work.
    #[test]
    fn a_task_that_has_done_much_takes_events_itself() {
        let reactor = Rc::new(Reactor::new().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let source = reactor.add(ours).unwrap();
        reactor.poll(0);
        source.readiness().clear_readable();
        theirs.write_all(b"a").unwrap();
        reactor.note_work(WORK_MAX - 1);
        reactor.look_if_late();
        assert!(!source.readiness().is_readable());
        reactor.note_work(1);
        reactor.look_if_late();
        assert!(source.readiness().is_readable() && !reactor.is_late());
    }

    /// Needs one turn for each look: otherwise a short command would wait for several long commands.
    #[test]
    fn between_two_looks_one_task_has_its_turn() {
        struct Woken(AtomicUsize);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let reactor = Reactor::new().unwrap();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let mut turns: Vec<_> = (0..3).map(|_| Box::pin(reactor.turn())).collect();
        for turn in &mut turns {
            assert!(
                turn.as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        for count in 1..=3 {
            reactor.poll(0);
            assert_eq!(woken.0.load(Ordering::Relaxed), count);
        }
        assert!(!reactor.has_turns());
    }
}
