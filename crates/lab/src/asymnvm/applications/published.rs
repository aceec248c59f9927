//! Rows in structures of an instance of AsymNVM as published.

use stonecast_published::PublishedError;
use stonecast_published::asymnvm::AsymWriter;

use super::{Row, RowPlace, borrowed, changes_of, keys_of};

/// The tables of a writer.
pub(super) struct PublishedTables {
    pub writer: AsymWriter,
    /// Whether a transaction is acknowledged with its batch, and not before.
    pub is_told_with_batch: bool,
}

impl PublishedTables {
    /// Rows as they are with everything that the writer has done.
    pub async fn read(&mut self, places: &[RowPlace]) -> Result<Vec<Row>, PublishedError> {
        let keys = keys_of(places);
        self.writer.read_rows(&borrowed(&keys)).await
    }

    /// Does the changes of a transaction as one operation.
    pub async fn commit(&mut self, changes: &[(RowPlace, Row)]) -> Result<(), PublishedError> {
        self.writer.transact(&changes_of(changes)).await
    }
}
