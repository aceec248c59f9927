//! Rows in structures of a lock domain of `structures`.

use std::rc::Rc;

use stonecast_published::asymnvm::Change;
use stonecast_structures::shapes::Description;
use stonecast_structures::{BackEnd, FrontEndError, Ticket, Verb, Writer};

use super::{Row, RowPlace, borrowed, changes_of, keys_of};

/// Slabs of a domain.
const SLABS: u32 = 24;

/// The tables of a writer.
pub(super) struct OurTables {
    pub writer: Writer,
}

fn create(description: &Description, number: usize) -> Change {
    Change {
        verb: Verb::Create,
        key: format!("table-{number}").into_bytes(),
        value: description.encode(),
    }
}

impl OurTables {
    /// Makes the tables in a domain of their own.
    pub async fn load(
        back_end: &Rc<BackEnd>,
        tables: &[Description],
        rows: &[(RowPlace, Row)],
    ) -> Result<Self, FrontEndError> {
        let domain = back_end.create_domain(SLABS).await?;
        let writer = back_end.writer(domain).await?;
        Self::load_into(writer, tables, rows).await
    }

    /// Makes the tables in the domain of a writer, which has none.
    pub async fn load_into(
        mut writer: Writer,
        tables: &[Description],
        rows: &[(RowPlace, Row)],
    ) -> Result<Self, FrontEndError> {
        for (number, description) in tables.iter().enumerate() {
            let create = create(description, number);
            let (_, _ticket) = writer.stage(&create.operation(0)).await?;
        }
        let mut this = Self { writer };
        for rows in rows.chunks(64) {
            let _ticket = this.stage(rows).await?;
            if this.writer.waiting() >= 8 {
                this.writer.publish().await?;
            }
        }
        this.writer.publish().await?;
        Ok(this)
    }

    /// Rows as they are with everything staged.
    pub async fn read(&mut self, places: &[RowPlace]) -> Result<Vec<Row>, FrontEndError> {
        let keys = keys_of(places);
        self.writer.read_staged(&borrowed(&keys)).await
    }

    /// Stages the changes of a transaction as one operation.
    pub async fn stage(&mut self, changes: &[(RowPlace, Row)]) -> Result<Ticket, FrontEndError> {
        let group = Change::group(&changes_of(changes));
        let (_, ticket) = self.writer.stage(&group.operation()).await?;
        Ok(ticket)
    }
}
