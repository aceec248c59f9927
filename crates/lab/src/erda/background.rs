//! A client of the KV store that overwrites keys at a pace that does not depend on the answers: a load beside the
//! measured clients, which leaves segments to clean.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_workload::value_of;

use super::contest::Contest;
use super::contestant::{ContestError, Contestant};
use super::run::key_name;

/// The pause between two writes: 100,000 keys a second.
const PAUSE_NS: Nanoseconds = 10_000;
/// The number of writes before the measurement, one after the other.
pub const WRITER_WARM_UP: u64 = 20_000;

/// A client that overwrites keys at a steady pace.
pub struct Background {
    failure: Rc<RefCell<Option<ContestError>>>,
}

impl Background {
    /// Writes for a while, then returns; the client continues for as long as the world runs.
    pub fn start(
        contest: &Contest,
        mut writer: Contestant,
        keys: u64,
        value_size: usize,
    ) -> Result<Self, ContestError> {
        let (warm, failure) = (
            Rc::new(Cell::new(false)),
            Rc::<RefCell<Option<ContestError>>>::default(),
        );
        let (told, failed, runtime) = (warm.clone(), failure.clone(), writer.runtime());
        let clock = runtime.clone();
        runtime.spawn(Box::pin(async move {
            let mut random = random_from_seed(2);
            let mut value = vec![0; value_size];
            let mut due = clock.now();
            for count in 0_u64.. {
                let number = random.random_range(0..keys);
                value_of(count, number, &mut value);
                if let Err(error) = writer.put(&key_name(number), &value).await {
                    failed.replace(Some(error));
                    told.set(true);
                    return;
                }
                if count < WRITER_WARM_UP {
                    due = clock.now();
                    continue;
                }
                told.set(true);
                due += PAUSE_NS;
                clock.sleep_until(due).await;
            }
        }));
        contest.run_until(&|| warm.get());
        let background = Self { failure };
        background.check()?;
        Ok(background)
    }

    /// Returns the error that stopped the client, if it has stopped.
    pub fn check(&self) -> Result<(), ContestError> {
        self.failure.take().map_or(Ok(()), Err)
    }
}
