//! The protocol between a sleeper and the peers that wake it.
//!
//! ```text
//!   sleeper                                  peer
//!     ticket := bell                           put something where the sleeper looks (release)
//!     sleeping := reasons                      full fence
//!     full fence                               sleeping for this reason?
//!     look everywhere once more; work? stay      bell += 1, wake the futex
//!     wait on the futex while bell = ticket
//!     sleeping := 0
//! ```
//!
//! One of the two full fences comes first: either the sleeper sees the work at its last check, or the peer sees that it
//! sleeps. The bell changes before the futex is woken, so a wake-up before the wait is not lost.
//!
//! Only the sleeper can write the `sleeping` word, so no peer can keep another from waking it. Every peer of the same
//! user can write the bell; peers of other users ask the sleeper's control thread instead.

use crate::primitive::Memory;

/// The device takes arrivals.
pub(crate) const ARRIVALS: u64 = 1;
/// The device also waits for acknowledgements of its messages.
pub(crate) const ACKNOWLEDGEMENTS: u64 = 2;

/// The device takes messages in its multi-packet queues. One without a waiter for them sleeps on.
pub(crate) const APPENDS: u64 = 4;

/// Announces that the sleeper may sleep from this point, to be woken for `reasons`. The sleeper then checks for work
/// once more.
pub(crate) fn announce_sleep(memory: &impl Memory, sleeping: u64, reasons: u64) {
    memory.store(sleeping, reasons);
    memory.full_fence();
}

/// Announces that the sleeper is awake.
pub(crate) fn awake(memory: &impl Memory, sleeping: u64) {
    memory.store(sleeping, 0);
}

/// Whether the sleeper must be woken for the value that the caller has just stored, for one of `reasons`.
pub(crate) fn must_wake(memory: &impl Memory, sleeping: u64, reasons: u64) -> bool {
    memory.full_fence();
    memory.load(sleeping) & reasons != 0
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitive::testing::{Weakness, Words};
    use loom::sync::{Arc, Condvar, Mutex};

    const SLEEPING: u64 = 0;
    const WORK: u64 = 8;

    /// A futex: waits while the bell has the value that the caller saw.
    #[derive(Default)]
    struct Bell {
        count: Mutex<u64>,
        rung: Condvar,
    }

    fn sleep_and_wake(weakness: Weakness) {
        loom::model(move || {
            let memory = Arc::new(Words::weakened(16, weakness));
            let bell = Arc::new(Bell::default());
            let (their_memory, their_bell) = (memory.clone(), bell.clone());
            let peer = loom::thread::spawn(move || {
                their_memory.store(WORK, 1);
                if must_wake(&*their_memory, SLEEPING, ARRIVALS) {
                    *their_bell.count.lock().unwrap() += 1;
                    their_bell.rung.notify_one();
                }
            });
            while memory.load(WORK) == 0 {
                let ticket = *bell.count.lock().unwrap();
                announce_sleep(&*memory, SLEEPING, ARRIVALS);
                if memory.load(WORK) == 0 {
                    let mut count = bell.count.lock().unwrap();
                    while *count == ticket {
                        count = bell.rung.wait(count).unwrap();
                    }
                }
                awake(&*memory, SLEEPING);
            }
            peer.join().unwrap();
        });
    }

    #[test]
    fn loom_no_wake_up_is_lost() {
        sleep_and_wake(Weakness::None);
    }

    /// Without the fences the sleeper misses the work and the peer misses the sleeper; loom reports the deadlock.
    #[test]
    #[should_panic]
    fn loom_waking_needs_the_full_fences() {
        sleep_and_wake(Weakness::Fence);
    }
}
