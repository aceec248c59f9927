//! Reading in the server's own process: for checks of what a recovery found, without a client and its fabric.

use stonecast_base::Corruption;
use stonecast_log::{KEY_SIZE_MAX, RECORD_START_SIZE, RecordHeader, check_read};

use super::Server;
use crate::error::StoreError;
use crate::wire::KeyHash;

impl Server {
    /// Reads the value of `key` into `value` and returns its version; `None` if the key is absent. The record is checked as
    /// a client checks it.
    pub fn peek(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        if !(1..=KEY_SIZE_MAX).contains(&key.len()) {
            return Err(StoreError::KeySize {
                size: key.len(),
                max: KEY_SIZE_MAX,
            });
        }
        let hash = KeyHash::of(self.format.tag_key, key);
        let mut found = None;
        let state = self.state.borrow();
        state.index.find(hash, |word| {
            let position = word.position();
            let record = self.whole_record(position, value);
            found = Some(record.and_then(|()| {
                match check_read(&self.format, position, word.generation_low(), value) {
                    Ok(record) if record.key == key => {
                        Ok(Some((record.header, record.value.len())))
                    }
                    Ok(_) => Ok(None),
                    Err(fault) => Err(self.damage(position, fault.to_string())),
                }
            }));
            !matches!(found, Some(Ok(None)))
        });
        let Some((header, value_size)) = found.transpose()?.flatten() else {
            return Ok(None);
        };
        let start = header.key_start() + key.len();
        value.copy_within(start..start + value_size, 0);
        value.truncate(value_size);
        Ok(Some(header.sequence()))
    }

    /// Copies the record at `position`, as long as its header says.
    fn whole_record(&self, position: u64, into: &mut Vec<u8>) -> Result<(), StoreError> {
        let room = self.format.segment_size - position % self.format.segment_size;
        into.resize(RECORD_START_SIZE, 0);
        self.log.read(position, into);
        let header = RecordHeader::parse(into.first_chunk().expect("just sized"));
        let size = header
            .map_err(|fault| self.damage(position, fault.to_string()))?
            .size();
        if size > room {
            return Err(self.damage(
                position,
                format!("a record of {size} bytes where {room} are left"),
            ));
        }
        into.resize(size as usize, 0);
        self.log.read(position, into);
        Ok(())
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
