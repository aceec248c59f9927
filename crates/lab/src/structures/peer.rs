//! LMDB in this process, with the entries of the comparison.

use std::path::Path;

use lmdb::{
    Cursor as _, Database, Environment, InactiveTransaction, RoTransaction, Transaction as _,
    WriteFlags,
};
use tempfile::TempDir;

use super::{Hundred, RANGE, StructuresError, is_right};
use crate::peers::lmdb::{Syncs, open};

/// Address space of LMDB.
const MAP_SIZE: usize = 16 << 30;

/// The other store.
pub(super) struct Peer {
    pub environment: Environment,
    database: Database,
    _folder: TempDir,
}

impl Peer {
    pub fn open(parent: &Path, syncs: Syncs) -> Result<Self, StructuresError> {
        let (environment, folder) = open(parent, MAP_SIZE, syncs)?;
        let database = environment.open_db(None)?;
        Ok(Self {
            environment,
            database,
            _folder: folder,
        })
    }

    /// Stores entries in one transaction.
    pub fn put(&self, keys: &[u64]) -> Result<usize, StructuresError> {
        let mut transaction = self.environment.begin_rw_txn()?;
        for key in keys {
            let value = Hundred::of(*key);
            let key = key.to_be_bytes();
            transaction.put(self.database, &key, &value.0, WriteFlags::empty())?;
        }
        transaction.commit()?;
        Ok(keys.len())
    }

    pub fn get(&self, transaction: &RoTransaction<'_>, key: u64) -> Result<(), StructuresError> {
        let found = transaction.get(self.database, &key.to_be_bytes())?;
        is_right("LMDB", key, found.try_into().ok().map(Hundred).as_ref())
    }

    pub fn range(&self, transaction: &RoTransaction<'_>, key: u64) -> Result<(), StructuresError> {
        let mut cursor = transaction.open_ro_cursor(self.database)?;
        let found = cursor.iter_from(key.to_be_bytes()).take(RANGE);
        for (expected, entry) in (key..).zip(found) {
            let (_, value) = entry?;
            is_right(
                "LMDB",
                expected,
                value.try_into().ok().map(Hundred).as_ref(),
            )?;
        }
        Ok(())
    }
}

/// Reads everything that was committed before.
pub(super) fn latest<'a>(
    idle: &mut Option<InactiveTransaction<'a>>,
    read: impl FnOnce(&RoTransaction<'a>) -> Result<(), StructuresError>,
) -> Result<(), StructuresError> {
    let inactive = idle.take().expect("it is given back");
    let transaction = inactive.renew()?;
    read(&transaction)?;
    *idle = Some(transaction.reset());
    Ok(())
}
