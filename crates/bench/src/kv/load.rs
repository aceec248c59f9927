//! Stores the records of a data set before a measurement.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_kv::StoreError;
use stonecast_workload::KeyName;

use super::Session;
use crate::data_set::DataSet;

/// The number of puts in flight at a time.
const IN_FLIGHT: u32 = 128;
/// The number of records stored between two calls of the watcher.
const PIECE: u64 = 1 << 14;

/// Stores all records of `data`, and tells `watch` at intervals how many records are stored.
pub fn load(
    session: &Session,
    data: DataSet,
    mut watch: impl FnMut(u64),
) -> Result<(), StoreError> {
    let mut from = 0;
    while from < data.keys {
        let to = data.keys.min(from + PIECE);
        load_piece(session, data, from, to)?;
        from = to;
        watch(from);
    }
    Ok(())
}

fn load_piece(session: &Session, data: DataSet, from: u64, to: u64) -> Result<(), StoreError> {
    let next = Rc::new(Cell::new(from));
    session.run_tasks(IN_FLIGHT, || {
        let (client, next) = (session.client().clone(), next.clone());
        async move {
            let mut value = vec![0; data.value_size];
            while next.get() < to {
                let number = next.replace(next.get() + 1);
                data.value(number, &mut value);
                // No other task continues after a failure.
                client
                    .put(KeyName::of(number).as_bytes(), &value)
                    .await
                    .inspect_err(|_| next.set(to))?;
            }
            Ok(())
        }
    })
}
