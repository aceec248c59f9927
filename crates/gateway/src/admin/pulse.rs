//! The progress of the threads that serve Redis clients.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::shared::Shared;

/// Tells whether the threads that serve Redis clients make progress.
pub struct Pulse {
    shared: Arc<Shared>,
    /// The rounds of each thread, and the time at which the count was last seen to grow.
    rounds: Mutex<Vec<(u64, Instant)>>,
}

/// Time without a round after which a thread counts as hanging. A thread makes at least ten rounds a second, even while
/// it waits for the store to accept it.
const SILENCE_MAX: Duration = Duration::from_secs(5);

impl Pulse {
    /// The pulse of a gateway whose threads have just been started.
    pub fn new(shared: Arc<Shared>) -> Self {
        let rounds = shared.threads.iter().map(|_| (0, Instant::now()));
        Self {
            rounds: Mutex::new(rounds.collect()),
            shared,
        }
    }

    /// Returns whether every thread makes progress. A thread's silence begins with the call that first sees the
    /// silence, so this function must be called regularly.
    pub fn is_alive(&self) -> bool {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        for ((count, since), thread) in rounds.iter_mut().zip(&self.shared.threads) {
            let now = thread.rounds.get();
            if now != *count {
                (*count, *since) = (now, Instant::now());
            }
        }
        let is_silent = |(_, since): &(u64, Instant)| since.elapsed() >= SILENCE_MAX;
        !rounds.iter().any(is_silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::GatewayOptions;
    use crate::secrets::Secrets;

    /// Needs a thread's silence to begin with its last progress, and not with the last question.
    #[test]
    fn a_thread_that_stands_still_is_noticed_and_is_alive_again_once_it_continues() {
        let address = "127.0.0.1:1".parse().unwrap();
        let options = GatewayOptions::new(address, "shm:/nowhere");
        let secrets = Secrets::of(&options).unwrap();
        let shared = Arc::new(Shared::new(options, secrets, Some(address)));
        let pulse = Pulse::new(shared.clone());
        let long_ago = Instant::now().checked_sub(2 * SILENCE_MAX).unwrap();
        let stand_still = || pulse.rounds.lock().unwrap()[0].1 = long_ago;
        assert!(pulse.is_alive(), "it has just begun");
        stand_still();
        assert!(!pulse.is_alive(), "also before it serves");
        shared.threads[0].rounds.add(1);
        assert!(pulse.is_alive());
        stand_still();
        assert!(!pulse.is_alive());
    }
}
