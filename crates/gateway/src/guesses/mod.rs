//! A limit on the wrong passwords that are compared in a second.
//!
//! ```text
//!   a password --> turn of the connection --> turn of its origin --> turn of all --> compared
//!                                                                      right: the turns are given back
//!                                                                      wrong: they are used
//! ```
//!
//! The turn comes before the comparison: if only the answer were late, an attacker would take silence for a no. A right
//! password uses no turn, so clients that know the password never wait for each other, however many connect at once. A
//! wrong password locks no account: a legitimate client waits at most for the guesses that came before its own from the
//! same origin, or from all origins if many guess at once. Each connection has one guess at a time, and connections
//! without a password have a bounded number of places.

mod pace;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use crate::origin::Origin;

pub use pace::Pace;

/// The wrong passwords that one connection may send: the number at once, and then the number each second.
const CONNECTION: Pace = Pace::new(3, 1);
/// The wrong passwords that all connections of one origin may send: at once, and then each second.
const ORIGIN: (u64, u64) = (100, 100);
/// The wrong passwords that all origins together may send: at once, and then each second.
const ALL: (u64, u64) = (1000, 1000);
/// The number of origins that are remembered before an origin is forgotten.
const ORIGINS_MIN: usize = 1024;

/// A clock for waits.
pub trait Clock {
    /// The time.
    fn now(&self) -> Nanoseconds;
    /// Waits until `deadline`.
    fn sleep_until(&self, deadline: Nanoseconds) -> impl Future<Output = ()>;
}

impl Clock for Rc<dyn Runtime> {
    fn now(&self) -> Nanoseconds {
        (**self).now()
    }

    fn sleep_until(&self, deadline: Nanoseconds) -> impl Future<Output = ()> {
        (**self).sleep_until(deadline)
    }
}

/// The guesses of one thread.
pub struct Guesses {
    all: RefCell<Pace>,
    /// The pace of an origin that has not guessed.
    of_origin: Pace,
    origins: RefCell<Origins>,
}

struct Origins {
    paces: HashMap<Origin, Pace>,
    /// The number of origins above which idle origins are forgotten.
    kept_max: usize,
}

/// The guesses of one connection.
pub struct OwnGuesses {
    origin: Origin,
    pace: RefCell<Pace>,
}

/// The right to compare one password. Dropping the value gives the turns back.
pub struct GuessTurn<'g> {
    guesses: &'g Guesses,
    own: &'g OwnGuesses,
    /// The number of turns that were taken, out of three.
    taken: u8,
    /// Whether the guess had to wait for its turn.
    pub was_late: bool,
}

impl OwnGuesses {
    /// The guesses of a connection that begins.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            pace: RefCell::new(CONNECTION),
        }
    }
}

impl Guesses {
    /// The guesses of one of `threads` threads. The threads share the pace of all origins together and of each origin.
    pub fn new(threads: usize) -> Self {
        let share = |of_all: u64| (of_all / threads.max(1) as u64).max(1);
        Self {
            all: RefCell::new(Pace::new(share(ALL.0), share(ALL.1))),
            of_origin: Pace::new(share(ORIGIN.0), share(ORIGIN.1)),
            origins: RefCell::new(Origins {
                paces: HashMap::new(),
                kept_max: ORIGINS_MIN,
            }),
        }
    }

    /// Waits for the turn of a connection.
    pub async fn turn<'g>(&'g self, own: &'g OwnGuesses, clock: &impl Clock) -> GuessTurn<'g> {
        let mut turn = GuessTurn {
            guesses: self,
            own,
            taken: 0,
            was_late: false,
        };
        // The turns are taken one after the other: a guess that waits for its connection's turn holds no turn for which
        // other connections wait.
        for level in 0..GuessTurn::LEVELS {
            let now = clock.now();
            let at = turn.of_level(level, |pace| pace.take(now));
            turn.taken += 1;
            if at > now {
                turn.was_late = true;
                clock.sleep_until(at).await;
            }
        }
        self.origins.borrow_mut().forget(clock.now());
        turn
    }
}

impl Origins {
    /// Forgets origins that have not guessed for a while, if there are many.
    fn forget(&mut self, now: Nanoseconds) {
        if self.paces.len() > self.kept_max {
            self.paces.retain(|_, pace| !pace.is_fresh(now));
            self.kept_max = (self.paces.len() * 2).max(ORIGINS_MIN);
        }
    }
}

impl GuessTurn<'_> {
    const LEVELS: u8 = 3;

    /// Uses the turns: the password was wrong.
    pub fn was_wrong(mut self) {
        self.taken = 0;
    }

    fn of_level<T>(&self, level: u8, work: impl FnOnce(&mut Pace) -> T) -> T {
        match level {
            0 => work(&mut self.own.pace.borrow_mut()),
            1 => {
                let mut origins = self.guesses.origins.borrow_mut();
                let fresh = self.guesses.of_origin;
                work(origins.paces.entry(self.own.origin).or_insert(fresh))
            }
            _ => work(&mut self.guesses.all.borrow_mut()),
        }
    }
}

impl Drop for GuessTurn<'_> {
    fn drop(&mut self) {
        (0..self.taken).for_each(|level| self.of_level(level, Pace::give_back));
    }
}

#[cfg(test)]
mod tests;
