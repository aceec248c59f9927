//! Reads in the server's own process: for checks of a recovered pool, without a client and its fabric.

use stonecast_base::{Corruption, LINE_SIZE};
use stonecast_log::Form;

use super::Shard;
use crate::error::StoreError;
use crate::index::{FoundRecord, Generations, LookUp, LookUpStep, Wanted, WholeChunk, WholeRecord};
use crate::wire::limits::check_key;
use crate::wire::{Head, KeyHash};

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
        let (hash, generations) = (self.keys.route(key).hash, Generations::default());
        let wanted = self.whole_record(key, &generations);
        let Some(found) = self.peek_record(wanted, hash, value, file)? else {
            return Ok(None);
        };
        if found.expires.is_some_and(|it| it.has_come(now_ms)) {
            return Ok(None);
        }
        if found.form == Form::Head {
            self.peek_chunks(key, value, file)?;
        }
        Ok(Some(found.version))
    }

    /// Replaces `value`, a head of `key`, by the value that its chunks make up.
    fn peek_chunks(&self, key: &[u8], value: &mut Vec<u8>, file: &str) -> Result<(), StoreError> {
        let head = Head::read(value).ok_or(StoreError::Protocol {
            what: "a record names chunks of impossible sizes",
        })?;
        value.clear();
        let generations = Generations::default();
        let mut chunk = Vec::new();
        for name in head.names(self.keys.whole_hash(key)) {
            let key = name.key();
            let hash = self.keys.route_of(Form::Chunk, &key).hash;
            let wanted = WholeChunk(self.whole_record(&key, &generations));
            let found = self.peek_record(wanted, hash, &mut chunk, file)?;
            if found.is_none() || chunk.len() != head.size_of(name.number) {
                return Err(StoreError::Protocol {
                    what: "chunks of a value are missing while a record names them",
                });
            }
            value.extend_from_slice(&chunk);
        }
        Ok(())
    }

    fn whole_record<'a>(&'a self, key: &'a [u8], generations: &'a Generations) -> WholeRecord<'a> {
        WholeRecord {
            format: &self.format,
            key,
            generations,
        }
    }

    /// Finds the record of a key, or of a chunk, and leaves its value in `value`.
    fn peek_record(
        &self,
        wanted: impl Wanted<Found = FoundRecord>,
        hash: KeyHash,
        value: &mut Vec<u8>,
        file: &str,
    ) -> Result<Option<FoundRecord>, StoreError> {
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
                LookUpStep::Found(found) => {
                    value.truncate(found.value.end);
                    value.drain(..found.value.start);
                    return Ok(Some(found));
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
