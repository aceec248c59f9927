//! Several structures of one instance, under its one lock: the tables of a program whose transactions read and change
//! rows of several of them.
//!
//! A transaction is one operation, so its rows are in one transaction of the memory log, and in one batch.

use stonecast_base::Span;
use stonecast_media::Region;
use stonecast_structures::shapes::{Description, Many};
use stonecast_structures::{DomainWriter, Verb};

use super::layout::AsymLayout;
use super::writer::{AsymWriter, Change, DOMAIN, KEY, apply, failed, grant};
use crate::PublishedError;

impl AsymWriter {
    /// Makes structures in the memory of an instance, numbered from 1, with these changes done. Costs no time of a
    /// network.
    ///
    /// # Errors
    /// [`PublishedError::Full`].
    pub fn load_tables(
        memory: &dyn Region,
        (layout, instance): (AsymLayout, u32),
        tables: &[Description],
        changes: impl IntoIterator<Item = (u32, Change)>,
    ) -> Result<(), PublishedError> {
        let territory = layout.territory(instance);
        let read = &mut |span: Span| {
            territory.holds(span).then(|| {
                let mut bytes = vec![0; span.size as usize];
                memory.read(span.offset, &mut bytes);
                bytes
            })
        };
        let of = (grant(1), &territory);
        let writer = DomainWriter::new(KEY, DOMAIN, of, read);
        let mut writer = writer.map_err(|_| PublishedError::Protocol("a damaged table"))?;
        let creates = (1..).zip(tables).map(|(number, description)| {
            let name = match number {
                1 => "structure".to_owned(),
                number => format!("structure-{number}"),
            };
            let create = Change {
                verb: Verb::Create,
                key: name.into_bytes(),
                value: description.encode(),
            };
            (0, create)
        });
        for (staged, (structure, change)) in (1..).zip(creates.chain(changes)) {
            let operation = change.operation(structure);
            writer.stage(&operation, read).map_err(failed)?;
            if staged % 64 == 0 {
                let record = writer.publish();
                let end = record.as_ref().map_or(0, |record| record.end);
                apply(memory, &territory, record);
                writer.note_applied(writer.log().chain().operation);
                writer.note_trimmed(end);
            }
        }
        apply(memory, &territory, writer.publish());
        Ok(())
    }

    /// The values of encoded keys, each in the structure with this number, with everything that this writer has done.
    /// Places that the writer has not are read at once, one round trip a level.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn read_rows(
        &mut self,
        keys: &[(u32, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>, PublishedError> {
        let roots = self.writer.roots();
        let find = |(number, key): &(u32, &[u8])| roots.structure(*number)?.find(key);
        let finds: Option<Vec<_>> = keys.iter().map(find).collect();
        let finds = finds.ok_or(PublishedError::Protocol("a structure without keys"))?;
        let recalling = self.writer.recalling(Many::new(finds));
        let found = self.view.drive(recalling).await?;
        let found = found.and_then(|ends| ends.into_iter().collect());
        found.map_err(|_| PublishedError::Protocol("a damaged structure"))
    }

    /// Does changes of several structures, each with its number, as one operation.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn transact(&mut self, changes: &[(u32, Change)]) -> Result<(), PublishedError> {
        match changes {
            [(structure, change)] => self.execute(&change.operation(*structure)).await,
            changes => self.execute(&Change::group(changes).operation()).await,
        }
    }
}
