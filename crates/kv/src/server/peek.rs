//! Reading in the server's own process: for checks of what a recovery found, without a client and its fabric.

use stonecast_base::{Corruption, LINE_SIZE};

use super::Server;
use crate::error::StoreError;
use crate::index::{FoundRecord, Generations, LookUp, LookUpStep, WholeRecord};
use crate::wire::KeyHash;
use crate::wire::limits::check_key;

impl Server {
    /// Reads the value of `key` into `value` and returns its version; `None` if the key is absent. The record is checked as
    /// a client checks it.
    pub fn peek(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        check_key(key)?;
        let hash = KeyHash::of(self.format.tag_key, key);
        let wanted = WholeRecord {
            format: &self.format,
            key,
            generations: &Generations::default(),
        };
        let state = self.state.borrow();
        let table = state.index.table();
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
                LookUpStep::Found(FoundRecord { version, value: at }) => {
                    value.truncate(at.end);
                    value.drain(..at.start);
                    return Ok(Some(version));
                }
                LookUpStep::Absent => return Ok(None),
                LookUpStep::Fault(found) => {
                    return Err(self.damage(look_up.word().position(), found));
                }
                LookUpStep::Moved => unreachable!("no bucket of the current table is marked"),
            };
        }
    }

    fn damage(&self, position: u64, found: String) -> StoreError {
        StoreError::from(Corruption {
            what: "record".into(),
            file: self.pool.backing().name().into(),
            offset: position,
            found,
            expected: "a record that carries the tag of its place".to_owned(),
        })
    }
}
