//! The measured loops: operations of a sequence against one client, one at a time, in batches, or many in flight.
//!
//! ```text
//!   in flight 1, batch 1     get, get, get ...                       one task, no turn of the executor between reads
//!   in flight 1, batch n     multi_get or multi_put of n
//!   in flight n              n tasks, each: next operation, await     the sequence is shared, so every operation is done
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stonecast_base::random_from_seed;
use stonecast_kv::{Client, Pair, StoreError, Values};
use stonecast_workload::{Sequence, ValuePool};

use super::Session;
use crate::cpu_time::thread_cpu_ns;
use crate::latency::Stopwatch;
use crate::measured::Measured;

/// The length of a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// The loop ends after this time.
    Time(Duration),
    /// The loop ends after this number of operations.
    Operations(u64),
}

/// A measured loop over operations that were drawn before.
#[derive(Clone)]
pub struct Loop {
    /// The operations.
    pub sequence: Arc<Sequence>,
    /// The index in the sequence at which the loop starts.
    pub start: usize,
    /// Bytes of the values that updates write and reads must find.
    pub value_size: usize,
    /// The number of operations in flight at a time.
    pub in_flight: u32,
    /// The number of reads in one `multi_get` or updates in one `multi_put`; 1 stands for `get` and `put`. A larger
    /// batch requires one operation in flight, and only reads or only updates.
    pub batch: u32,
    /// One of this many operations (or batches) is timed.
    pub interval: u32,
    /// The length of the loop.
    pub amount: Amount,
    /// The number of operations that were begun, for a watcher. The loop updates the number once a round, so that the
    /// update costs nothing.
    pub begun: Arc<AtomicU64>,
}

/// The error for which a loop ended early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The store failed. The measurements before the failure are lost.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel did not tell the CPU time.
    #[error("reading the CPU time: {0}")]
    CpuTime(io::Error),
}

/// The number of operations between two looks at the clock for the end.
const ROUND: u64 = 512;

/// Gives out rounds of operations until the amount is reached.
struct Pacer {
    start: Instant,
    amount: Amount,
    given: u64,
    begun: Arc<AtomicU64>,
}

impl Pacer {
    fn new(amount: Amount, begun: &Arc<AtomicU64>) -> Self {
        Self {
            start: Instant::now(),
            amount,
            given: 0,
            begun: begun.clone(),
        }
    }

    /// Returns the number of operations of the next round; 0 stands for the end.
    fn round(&mut self, most: u64) -> u64 {
        let round = match self.amount {
            Amount::Operations(all) => most.min(all - self.given),
            Amount::Time(time) if self.start.elapsed() >= time => 0,
            Amount::Time(_) => most,
        };
        self.given += round;
        self.begun.fetch_add(round, Ordering::Relaxed);
        round
    }
}

impl Loop {
    /// Runs the loop to its end. A full pool ends the run early and counts as one error, since the operations before it
    /// are a measurement.
    pub fn run(&self, session: &Session) -> Result<Measured, DriveError> {
        assert!(
            self.batch == 1 || self.in_flight == 1,
            "batches are for one operation in flight"
        );
        let cpu_start = thread_cpu_ns().map_err(DriveError::CpuTime)?;
        let (hits, misses) = session.client().location_counts();
        let start = Instant::now();
        let mut measured = match (self.in_flight, self.batch) {
            (1, 1) => session.block_on(self.run_one_by_one(session.client())),
            (1, _) if self.sequence.operations()[0].is_update() => {
                session.block_on(self.run_put_batches(session.client()))
            }
            (1, _) => session.block_on(self.run_batches(session.client())),
            _ => self.run_in_flight(session),
        }?;
        measured.seconds = start.elapsed().as_secs_f64();
        let (hits_now, misses_now) = session.client().location_counts();
        (measured.location_hits, measured.location_misses) = (hits_now - hits, misses_now - misses);
        measured.client_cpu_ns = thread_cpu_ns().map_err(DriveError::CpuTime)? - cpu_start;
        Ok(measured)
    }

    async fn run_one_by_one(&self, client: &Client) -> Result<Measured, StoreError> {
        let mut cursor = self.sequence.cursor(self.start);
        let mut pool = self.value_pool();
        let mut stopwatch = Stopwatch::every(self.interval);
        let mut pacer = Pacer::new(self.amount, &self.begun);
        let mut value = Vec::new();
        let (mut ops, mut errors) = (0, 0);
        'rounds: loop {
            let round = pacer.round(ROUND);
            if round == 0 {
                break;
            }
            for _ in 0..round {
                let operation = cursor.take();
                let began = stopwatch.begin();
                if operation.is_update() {
                    match client.put(operation.key(), pool.take()).await {
                        Ok(_) => {}
                        Err(error) if error.is_for_want_of_room() => {
                            errors += 1;
                            break 'rounds;
                        }
                        Err(error) => return Err(error),
                    }
                } else {
                    let found = client.get(operation.key(), &mut value).await?;
                    errors += u64::from(found.is_none() || value.len() != self.value_size);
                }
                stopwatch.end(began);
                ops += 1;
            }
        }
        Ok(Measured {
            ops,
            errors,
            latencies: stopwatch.into_latencies(),
            ..Measured::default()
        })
    }

    async fn run_batches(&self, client: &Client) -> Result<Measured, StoreError> {
        let mut cursor = self.sequence.cursor(self.start);
        let mut stopwatch = Stopwatch::every(self.interval);
        let mut pacer = Pacer::new(self.amount, &self.begun);
        let mut values = Values::default();
        let (mut ops, mut errors) = (0, 0);
        let mut keys: Vec<&[u8]> = Vec::with_capacity(self.batch as usize);
        loop {
            let round = pacer.round(ROUND.next_multiple_of(self.batch.into()));
            if round == 0 {
                break;
            }
            for _ in 0..round / u64::from(self.batch) {
                keys.clear();
                keys.extend((0..self.batch).map(|_| cursor.take().key()));
                let began = stopwatch.begin();
                client.multi_get(&keys, &mut values).await?;
                stopwatch.end(began);
                let found = (0..keys.len()).filter(|&i| {
                    values
                        .get(i)
                        .is_some_and(|(value, _)| value.len() == self.value_size)
                });
                errors += (keys.len() - found.count()) as u64;
                ops += keys.len() as u64;
            }
        }
        Ok(Measured {
            ops,
            errors,
            latencies: stopwatch.into_latencies(),
            ..Measured::default()
        })
    }

    async fn run_put_batches(&self, client: &Client) -> Result<Measured, StoreError> {
        let mut cursor = self.sequence.cursor(self.start);
        let mut pool = self.value_pool();
        let mut stopwatch = Stopwatch::every(self.interval);
        let mut pacer = Pacer::new(self.amount, &self.begun);
        let (mut ops, mut errors) = (0, 0);
        let mut outcomes = Vec::new();
        loop {
            let round = pacer.round(ROUND.next_multiple_of(self.batch.into()));
            if round == 0 {
                break;
            }
            for _ in 0..round / u64::from(self.batch) {
                let pairs: Vec<Pair<'_>> = pool
                    .take_many(self.batch as usize)
                    .map(|value| {
                        let operation = cursor.take();
                        assert!(operation.is_update(), "batches are of one kind");
                        (operation.key(), value)
                    })
                    .collect();
                let began = stopwatch.begin();
                client.multi_put(&pairs, &mut outcomes).await;
                stopwatch.end(began);
                for outcome in outcomes.drain(..) {
                    match outcome {
                        Ok(_) => ops += 1,
                        Err(error) if error.is_for_want_of_room() => errors += 1,
                        Err(error) => return Err(error),
                    }
                }
            }
            if errors > 0 {
                break;
            }
        }
        Ok(Measured {
            ops,
            errors,
            latencies: stopwatch.into_latencies(),
            ..Measured::default()
        })
    }

    fn run_in_flight(&self, session: &Session) -> Result<Measured, StoreError> {
        let shared = Rc::new(Shared {
            next: Cell::new(self.start),
            left: Cell::new(0),
            pacer: RefCell::new(Pacer::new(self.amount, &self.begun)),
            pool: RefCell::new(self.value_pool()),
            stopwatch: RefCell::new(Stopwatch::every(self.interval)),
            ops: Cell::new(0),
            errors: Cell::new(0),
        });
        session.run_tasks(self.in_flight, || {
            let (plan, client, shared) = (self.clone(), session.client().clone(), shared.clone());
            async move { plan.run_task(&client, &shared).await }
        })?;
        let latencies = shared
            .stopwatch
            .replace(Stopwatch::every(1))
            .into_latencies();
        Ok(Measured {
            ops: shared.ops.get(),
            errors: shared.errors.get(),
            latencies,
            ..Measured::default()
        })
    }

    async fn run_task(&self, client: &Client, shared: &Shared) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        while let Some(index) = shared.take(self.sequence.operations().len()) {
            let operation = &self.sequence.operations()[index];
            let began = shared.stopwatch.borrow_mut().begin();
            if operation.is_update() {
                bytes.clear();
                bytes.extend_from_slice(shared.pool.borrow_mut().take());
                match client.put(operation.key(), &bytes).await {
                    Ok(_) => {}
                    Err(error) if error.is_for_want_of_room() => {
                        shared.errors.set(shared.errors.get() + 1);
                        shared.end();
                        return Ok(());
                    }
                    Err(error) => {
                        shared.end();
                        return Err(error);
                    }
                }
            } else {
                let found = client
                    .get(operation.key(), &mut bytes)
                    .await
                    .inspect_err(|_| shared.end())?;
                let wrong = found.is_none() || bytes.len() != self.value_size;
                shared.errors.set(shared.errors.get() + u64::from(wrong));
            }
            shared.stopwatch.borrow_mut().end(began);
            shared.ops.set(shared.ops.get() + 1);
        }
        Ok(())
    }

    fn value_pool(&self) -> ValuePool {
        ValuePool::new(self.value_size, &mut random_from_seed(self.start as u64))
    }
}

/// The state that the tasks of one client share.
struct Shared {
    next: Cell<usize>,
    /// Operations left of the present round.
    left: Cell<u64>,
    pacer: RefCell<Pacer>,
    pool: RefCell<ValuePool>,
    stopwatch: RefCell<Stopwatch>,
    ops: Cell<u64>,
    errors: Cell<u64>,
}

impl Shared {
    /// Returns the index of the next operation; `None` at the end.
    fn take(&self, length: usize) -> Option<usize> {
        if self.left.get() == 0 {
            self.left.set(self.pacer.borrow_mut().round(ROUND));
            if self.left.get() == 0 {
                return None;
            }
        }
        self.left.set(self.left.get() - 1);
        let index = self.next.get() % length;
        self.next.set(index + 1);
        Some(index)
    }

    /// Lets no further operation begin.
    fn end(&self) {
        self.left.set(0);
        self.pacer.borrow_mut().amount = Amount::Time(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_to_the_requested_operations() {
        let begun = Arc::default();
        let mut pacer = Pacer::new(Amount::Operations(1100), &begun);
        assert_eq!([(); 4].map(|()| pacer.round(ROUND)), [512, 512, 76, 0]);
        assert_eq!(begun.load(Ordering::Relaxed), 1100);
    }

    #[test]
    fn rounds_end_when_the_time_is_over() {
        let begun = Arc::default();
        assert_eq!(
            Pacer::new(Amount::Time(Duration::ZERO), &begun).round(ROUND),
            0
        );
        assert_eq!(
            Pacer::new(Amount::Time(Duration::from_secs(3600)), &begun).round(ROUND),
            ROUND
        );
    }
}
