//! A pool in memory that can lose power, at any store.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, Means, PersistCounts, PersistError, PersistState,
    PersistenceDomain, PersistentRegion, ReceiveBuffers, Region,
};
use stonecast_structures::{LogKey, Medium};

use crate::memory::Memory;

/// Memory whose lines become durable by write-backs. A test may ask for the state that a crash after some more stores
/// would leave.
pub struct Pool {
    memory: Memory,
    /// Stores and persists until the crash, and the memory that the crash leaves.
    crash_in: Cell<Option<u64>>,
    wreck: RefCell<Option<Memory>>,
    /// After this many reads another party stores a word: reads left, offset, word.
    meddling: Cell<Option<(u64, u64, u64)>>,
    /// Something that happens after some more stores and persists.
    event: RefCell<Option<(u64, Event)>>,
}

type Event = Box<dyn FnOnce()>;

impl Pool {
    pub fn new(memory: Memory) -> Rc<Self> {
        Rc::new(Self {
            memory,
            crash_in: Cell::new(None),
            wreck: RefCell::default(),
            meddling: Cell::new(None),
            event: RefCell::default(),
        })
    }

    /// The bytes.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Keeps the memory that a crash leaves after `steps` more stores and persists.
    pub fn crash_in(&self, steps: u64) {
        self.crash_in.set(Some(steps));
    }

    /// The memory that the crash has left, if it has happened.
    pub fn take_wreck(&self) -> Option<Memory> {
        self.crash_in.set(None);
        self.wreck.take()
    }

    /// Lets another party store `word` after some more reads.
    pub fn meddle(&self, reads: u64, offset: u64, word: u64) {
        self.meddling.set(Some((reads, offset, word)));
    }

    /// Lets `event` happen after `steps` more stores and persists. It must use nothing of the pool but its memory.
    pub fn happens_in(&self, steps: u64, event: impl FnOnce() + 'static) {
        self.event.replace(Some((steps, Box::new(event))));
    }

    fn step(&self) {
        let due = self.event.take().and_then(|(steps, event)| match steps {
            0 => Some(event),
            _ => {
                self.event.replace(Some((steps - 1, event)));
                None
            }
        });
        if let Some(event) = due {
            event();
        }
        match self.crash_in.get() {
            Some(0) => {
                self.crash_in.set(None);
                self.wreck.replace(Some(self.memory.fork()));
            }
            Some(steps) => self.crash_in.set(Some(steps - 1)),
            None => {}
        }
    }
}

/// The pool as the back-end has it.
pub fn medium(pool: &Rc<Pool>) -> Rc<Medium> {
    Rc::new(medium_of(pool))
}

/// The medium of [`medium`], not yet shared.
pub fn medium_of(pool: &Rc<Pool>) -> Medium {
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let declared = (platform, Durability::Power);
    let medium = Medium::new(pool.clone(), declared, LogKey(0xfeed), 0x1234_5678);
    medium.expect("there is a plan for such memory")
}

/// The result of a future that waits for nothing but the memory above.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("this memory lets nobody wait"),
    }
}

impl Region for Pool {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        self.memory.read(offset, into);
        match self.meddling.get() {
            Some((0, offset, word)) => {
                self.meddling.set(None);
                self.memory.store(offset, word);
            }
            Some((reads, offset, word)) => self.meddling.set(Some((reads - 1, offset, word))),
            None => {}
        }
    }

    fn write(&self, offset: u64, from: &[u8]) {
        for (index, word) in from.chunks(8).enumerate() {
            self.step();
            self.memory.write(offset + index as u64 * 8, word);
        }
    }

    fn load(&self, offset: u64) -> u64 {
        self.memory.load(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        self.step();
        self.memory.store(offset, value);
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.step();
        self.memory.compare_exchange(offset, current, new)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.step();
        self.memory.fetch_add(offset, add)
    }
}

impl PersistentRegion for Pool {
    fn means(&self) -> Means {
        Means::WriteBack
    }

    fn persist_counts(&self) -> PersistCounts {
        PersistCounts::default()
    }

    fn poll_persist(
        &self,
        spans: &[Span],
        _: &mut PersistState,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        self.step();
        self.memory.persist(spans);
        self.step();
        Poll::Ready(Ok(()))
    }
}
