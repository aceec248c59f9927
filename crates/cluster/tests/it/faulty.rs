//! A store that fails in every possible way, and a clock for its callers.

use std::cell::{Cell, RefCell};
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_cluster::{
    ConfigStore, Configuration, Pending, Revision, StoreError, Stored, Swap, Writer,
};
use stonecast_fabric::{Runtime, Timer};

use crate::cluster::random;

/// A clock that jumps to the deadline of each timer.
#[derive(Default)]
struct Jumping(Cell<Nanoseconds>);

impl Runtime for Jumping {
    fn now(&self) -> Nanoseconds {
        self.0.get()
    }

    fn wall_clock(&self) -> Nanoseconds {
        unreachable!("no server runs here")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()>>>) {
        unreachable!("nothing runs beside a change")
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        self.0.set(deadline);
        waker.wake_by_ref();
        Timer {
            deadline,
            serial: 0,
        }
    }

    fn cancel(&self, _: Timer) {}
}

pub fn finish<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(output) = work.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the work never ends")
}

/// A store in memory with drawn faults.
pub struct Faulty {
    pub stored: RefCell<Option<Stored>>,
    /// A compare-and-set that takes effect later.
    pub late: RefCell<Option<(Option<Revision>, Vec<u8>)>>,
    random: RefCell<Random>,
    fault_percent: u32,
    pub reads: Cell<u32>,
}

impl Faulty {
    pub fn with(configuration: &Configuration, seed: u64, fault_percent: u32) -> Self {
        let stored = Stored {
            revision: Revision(1),
            bytes: configuration.encode(),
        };
        let empty = Self::empty(seed, fault_percent);
        empty.stored.replace(Some(stored));
        empty
    }

    pub fn empty(seed: u64, fault_percent: u32) -> Self {
        Self {
            stored: RefCell::default(),
            late: RefCell::default(),
            random: RefCell::new(random(seed)),
            fault_percent,
            reads: Cell::new(0),
        }
    }

    pub fn configuration(&self) -> Configuration {
        self.swap_late();
        Configuration::decode(&self.stored.borrow().as_ref().unwrap().bytes).unwrap()
    }

    pub fn swap(&self, expected: Option<Revision>, bytes: &[u8]) -> Swap {
        let stored = &mut *self.stored.borrow_mut();
        let revision = stored.as_ref().map(|stored| stored.revision);
        if revision != expected {
            return Swap::Conflict;
        }
        let revision = Revision(revision.map_or(1, |revision| revision.0 + 1));
        *stored = Some(Stored {
            revision,
            bytes: bytes.to_vec(),
        });
        Swap::Done(revision)
    }

    fn swap_late(&self) {
        if let Some((expected, bytes)) = self.late.take() {
            self.swap(expected, &bytes);
        }
    }

    fn fails(&self) -> bool {
        self.random.borrow_mut().random_range(0..100) < self.fault_percent
    }

    fn refused() -> StoreError {
        StoreError::Refused {
            store: "memory".to_owned(),
            reason: "not reached".to_owned(),
        }
    }

    fn unknown() -> StoreError {
        StoreError::Unknown {
            store: "memory".to_owned(),
            reason: "the answer was lost".to_owned(),
        }
    }
}

impl ConfigStore for Faulty {
    fn name(&self) -> &str {
        "memory"
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        self.reads.update(|reads| reads + 1);
        // A late compare-and-set may take effect before a read or after it.
        if self.random.borrow_mut().random() {
            self.swap_late();
        }
        let answer = if self.fails() {
            Err(Self::refused())
        } else {
            Ok(self.stored.borrow().clone())
        };
        Box::pin(ready(answer))
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        self.swap_late();
        let fate = if self.fails() {
            self.random.borrow_mut().random_range(0..4)
        } else {
            4
        };
        let answer = match fate {
            0 => Err(Self::refused()),
            1 => Err(Self::unknown()),
            2 => {
                self.swap(expected, bytes);
                Err(Self::unknown())
            }
            3 => {
                *self.late.borrow_mut() = Some((expected, bytes.to_vec()));
                Err(Self::unknown())
            }
            _ => Ok(self.swap(expected, bytes)),
        };
        Box::pin(ready(answer))
    }

    fn changed(&self, _: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        unreachable!("no change waits for another one")
    }
}

pub fn writer(seed: u64) -> Writer {
    Writer::new("d".to_owned(), random(seed))
}

pub fn runtime() -> Rc<dyn Runtime> {
    Rc::new(Jumping::default())
}
