//! redb in this process, without syncs: a commit has reached the system's cache, and survives the death of the process,
//! as one of LMDB without syncs does.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use ::redb::backends::FileBackend;
use ::redb::{Database, StorageBackend, TableDefinition};
use tempfile::TempDir;

use super::PeerError;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");

/// A database in this process.
pub struct Redb {
    database: Database,
    _folder: TempDir,
}

impl Redb {
    /// Creates a database in a new folder under `parent`.
    pub fn open(parent: &Path) -> Result<Self, PeerError> {
        let folder = tempfile::Builder::new().prefix("redb-").tempdir_in(parent);
        let folder = folder.map_err(PeerError::system("making a folder for redb"))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.path().join("entries"))
            .map_err(PeerError::system("making a file for redb"))?;
        let backend = FileBackend::new(file).map_err(refused)?;
        let database = Database::builder().create_with_backend(Unsynced(backend));
        Ok(Self {
            database: database.map_err(refused)?,
            _folder: folder,
        })
    }

    /// Stores entries in one transaction.
    pub fn put<V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (u64, V)>,
    ) -> Result<(), PeerError> {
        let transaction = self.database.begin_write().map_err(refused)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(refused)?;
            for (key, value) in entries {
                table.insert(key, value.as_ref()).map_err(refused)?;
            }
        }
        transaction.commit().map_err(refused)
    }
}

fn refused(error: impl Into<::redb::Error>) -> PeerError {
    PeerError::Redb(Box::new(error.into()))
}

/// A file that is written and never synced.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.0.close()
    }
}
