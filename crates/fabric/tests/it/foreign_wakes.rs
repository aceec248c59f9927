//! A result that another thread hands to a task ends the pause of the task's executor, whatever the executor parks on.
//! The test binaries of the real providers include this file.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_fabric::{BusyPoll, Park};

/// The seed of the moments at which the other thread answers.
const SEED: u64 = 20;
/// Only a wake ends a park in these tests: they find a missed wake without measuring time.
const PARK_NS: Nanoseconds = 20_000_000_000;

/// Parks for [`PARK_NS`] whatever the executor asks for, and counts the parks that lasted so long.
struct Patient {
    park: Rc<dyn Park>,
    parks: Cell<u64>,
    slept_through: Cell<u64>,
}

impl Patient {
    fn new(park: Rc<dyn Park>) -> Rc<Self> {
        Rc::new(Self {
            park,
            parks: Cell::new(0),
            slept_through: Cell::new(0),
        })
    }

    fn report(&self, what: &str) {
        assert_eq!(
            self.slept_through.get(),
            0,
            "{what}: wakes that ended no park, seed {SEED}"
        );
        assert!(self.parks.get() > 0, "{what}: the executor never parked");
    }
}

impl Park for Patient {
    fn now(&self) -> Nanoseconds {
        self.park.now()
    }

    fn park(&self, _timeout: Nanoseconds) {
        let start = Instant::now();
        self.park.park(PARK_NS);
        self.parks.set(self.parks.get() + 1);
        if start.elapsed() >= Duration::from_nanos(PARK_NS) {
            self.slept_through.set(self.slept_through.get() + 1);
        }
    }

    fn unpark(&self) -> Option<Waker> {
        self.park.unpark()
    }
}

/// A client of another service, with a thread of its own. The thread answers each request after some microseconds with
/// the moment of the answer.
fn client() -> (
    mpsc::Sender<oneshot::Sender<Instant>>,
    thread::JoinHandle<()>,
) {
    let (requests, asked) = mpsc::channel::<oneshot::Sender<Instant>>();
    let answering = thread::spawn(move || {
        let mut random = random_from_seed(SEED);
        for request in asked {
            // Some answers meet a parked executor, others one that is about to park.
            match random.random_range(0..3) {
                0 => {}
                1 => (0..random.random_range(0..2_000)).for_each(|_| std::hint::spin_loop()),
                _ => thread::sleep(Duration::from_micros(random.random_range(0..100))),
            }
            let _ = request.send(Instant::now());
        }
    });
    (requests, answering)
}

/// Waits for `count` answers of a client, one after the other, and prints the delay after the sending of each.
pub fn answers_of_another_thread_end_the_pause(provider: &str, park: Rc<dyn Park>, count: usize) {
    let patient = Patient::new(park);
    let executor = BusyPoll::new(patient.clone(), 0);
    let (requests, client) = client();
    let mut latencies = executor.block_on(async {
        let mut latencies = Vec::new();
        for _ in 0..count {
            let (answer, awaited) = oneshot::channel();
            requests.send(answer).expect("the client is alive");
            let sent = awaited.await.expect("the client answers");
            latencies.push(sent.elapsed());
        }
        latencies
    });
    drop(requests);
    client.join().expect("the client does not panic");
    latencies.sort_unstable();
    println!(
        "{provider}: {count} answers of another thread in {} parks, seen after {:?} (median), {:?} (99 of 100), {:?} (longest)",
        patient.parks.get(),
        latencies[count / 2],
        latencies[count * 99 / 100],
        latencies[count - 1]
    );
    patient.report(provider);
}

/// Counts in bursts that a task waits for: most wakes find the task queued, and the last one must not be mistaken for
/// one of those. The task reads the count without any ordering of its own.
pub fn the_last_of_many_wakes_is_not_lost(provider: &str, park: Rc<dyn Park>, bursts: u64) {
    const BURST: u64 = 20;
    let patient = Patient::new(park);
    let executor = BusyPoll::new(patient.clone(), 0);
    let (wakers, awaited) = mpsc::channel::<Waker>();
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let counting = thread::spawn(move || {
        for waker in awaited {
            for _ in 0..BURST {
                counted.fetch_add(1, Ordering::Relaxed);
                waker.wake_by_ref();
            }
        }
    });
    executor.block_on(async {
        for burst in 1..=bursts {
            let mut is_counting = false;
            std::future::poll_fn(|context| {
                if !is_counting {
                    is_counting = true;
                    wakers
                        .send(context.waker().clone())
                        .expect("the counting thread is alive");
                }
                match count.load(Ordering::Relaxed) == burst * BURST {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        }
    });
    drop(wakers);
    counting.join().expect("counting does not panic");
    patient.report(provider);
}
