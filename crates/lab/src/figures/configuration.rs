//! The figure of a change of a cluster's configuration through etcd, beside a put into etcd of the same number of
//! bytes.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_base::random_from_seed;
use stonecast_cluster::{ConfigStore, Configuration, Policy, Swap, Writer, change};
use stonecast_fabric::BusyPoll;
use uuid::Uuid;

use super::plan::CONFIG_ETCD;
use super::{FiguresError, Run};
use crate::peers::{Etcd, PeerError};
use stonecast_bench::median;

const NONCE: Uuid = Uuid::from_u128(0x5707_eca5);
/// Changes and puts of one repetition, in turn.
const CHANGES: usize = 200;

pub(super) fn measure(run: &mut Run<'_>) -> Result<(), FiguresError> {
    if !run.wants(&[&CONFIG_ETCD]) {
        return Ok(());
    }
    let etcd = Etcd::start(1, &run.options.disk_folder);
    let Some(etcd) = run.peer(etcd, &[&CONFIG_ETCD])? else {
        return Ok(());
    };
    let mut bench = Bench::new(&etcd)?;
    let repetitions = run.options.repetitions;
    // The first repetition is a warm-up.
    for repetition in 0..=repetitions {
        (run.say)(&format!(
            "{}, {repetition} of {repetitions}",
            CONFIG_ETCD.name
        ));
        let (mut changes, mut puts) = (Vec::new(), Vec::new());
        for _ in 0..CHANGES {
            changes.push(bench.change()?.as_nanos() as f64 / 1e3);
            puts.push(bench.put(&etcd)?.as_nanos() as f64 / 1e3);
        }
        if repetition > 0 {
            run.add(&CONFIG_ETCD, median(&changes), median(&puts));
        }
    }
    Ok(())
}

/// A cluster of one configuration.
struct Bench {
    store: Rc<dyn ConfigStore>,
    executor: BusyPoll,
    writer: Writer,
    /// The value of the puts: the configuration.
    value: String,
}

fn failed(error: impl ToString) -> FiguresError {
    PeerError::Etcd(error.to_string()).into()
}

impl Bench {
    fn new(etcd: &Etcd) -> Result<Self, FiguresError> {
        let address = format!("etcd://{}/configuration", etcd.endpoint());
        let store = stonecast_config_store::open(&address).map_err(failed)?;
        let executor = stonecast_config_store::executor();
        let attempt = stonecast_cluster::Attempt {
            writer: "bench".to_owned(),
            number: NONCE,
        };
        let first = Configuration::create(NONCE, Policy::new(3, 64), attempt).encode();
        let swap = executor.block_on(store.compare_and_set(None, &first));
        match swap.map_err(failed)? {
            Swap::Done(_) => {}
            Swap::Conflict => return Err(failed("a new etcd has a configuration")),
        }
        // The value decodes to at least as many bytes: base64 has four characters for three bytes.
        let value = "c3RvbmVjYXN0".repeat(first.len().div_ceil(9));
        Ok(Self {
            store,
            executor,
            writer: Writer::new("bench".to_owned(), random_from_seed(1)),
            value,
        })
    }

    /// Changes the known configuration and stores it, as a node that watches the store does.
    fn change(&mut self) -> Result<Duration, FiguresError> {
        let runtime = self.executor.runtime();
        let start = Instant::now();
        let changed = change(&*self.store, &runtime, &mut self.writer, NONCE, |present| {
            let mut next = present.clone();
            next.epoch.0 += 1;
            Ok(Some(next))
        });
        self.executor.block_on(changed).map_err(failed)?;
        Ok(start.elapsed())
    }

    fn put(&self, etcd: &Etcd) -> Result<Duration, FiguresError> {
        let start = Instant::now();
        etcd.put("cHV0", &self.value)?;
        Ok(start.elapsed())
    }
}
