//! Reads in the server's own process: for checks of a recovered pool, without a client and its fabric.

use stonecast_base::{Corruption, LINE_SIZE};

use super::Shard;
use crate::error::StoreError;
use crate::index::{FoundRecord, Generations, LookUp, LookUpStep, WholeRecord};
use crate::wire::limits::check_key;

impl Shard {
    /// Reads the value of `key` into `value` and returns its version; `None` if the key is absent. The checks of the
    /// record are those of a client. `file` names the log in the error for a damaged record. A key that has expired at
    /// `now_ms` is absent.
    pub fn peek(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        (file, now_ms): (&str, u64),
    ) -> Result<Option<u64>, StoreError> {
        check_key(key)?;
        let hash = self.keys.route(key).hash;
        let wanted = WholeRecord {
            format: &self.format,
            key,
            generations: &Generations::default(),
        };
        let table = self.index.table();
        let mut look_up = LookUp::new(wanted, hash, table.bits());
        let mut line = [0; LINE_SIZE];
        let mut step = LookUpStep::Bucket(look_up.home());
        loop {
            step = match step {
                LookUpStep::Bucket(bucket) => {
                    let offset = bucket * LINE_SIZE as u64;
                    table.memory().read(offset, &mut line);
                    look_up.bucket(&line)
                }
                LookUpStep::Record { position, size } | LookUpStep::Rest { position, size } => {
                    value.resize(size, 0);
                    self.log.read(position, value);
                    look_up.record(value)
                }
                LookUpStep::Found(FoundRecord { expires, .. })
                    if expires.is_some_and(|expires| expires.has_come(now_ms)) =>
                {
                    return Ok(None);
                }
                LookUpStep::Found(FoundRecord {
                    version, value: at, ..
                }) => {
                    value.truncate(at.end);
                    value.drain(..at.start);
                    return Ok(Some(version));
                }
                LookUpStep::Absent => return Ok(None),
                LookUpStep::Fault(found) => {
                    return Err(StoreError::from(Corruption {
                        what: "record".into(),
                        file: file.to_owned().into(),
                        offset: look_up.word().position(),
                        found,
                        expected: "a record that carries the tag of its place".to_owned(),
                    }));
                }
                LookUpStep::Moved => unreachable!("no bucket of the current table is marked"),
            };
        }
    }
}
