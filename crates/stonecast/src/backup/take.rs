//! Takes a backup of a store that continues to serve.

use std::fs::File;
use std::io::Write;

use stonecast_kv::{HeldPart, StoreError};

use super::BackupError;
use super::format::Identity;
use super::shelf::Shelf;
use super::writer::FileWriter;
use crate::error::Error;
use crate::local::Client;

/// The settings of a backup that is to be taken.
pub struct Plan {
    base: Option<Identity>,
    made_ms: u64,
    scratch: File,
}

impl Plan {
    /// A full backup. `scratch` is an empty file for the records that are overwritten while the backup runs: at most as
    /// long as the backup. The file may be unnamed.
    pub fn full(scratch: File) -> Self {
        Self {
            base: None,
            made_ms: 0,
            scratch,
        }
    }

    /// An incremental backup, which follows the backup with the identity `base`.
    #[must_use]
    pub fn based_on(mut self, base: Identity) -> Self {
        self.base = Some(base);
        self
    }

    /// Notes the present moment in the backup, in milliseconds since 1970 in UTC.
    #[must_use]
    pub fn made_at_ms(mut self, made_ms: u64) -> Self {
        self.made_ms = made_ms;
        self
    }
}

/// A backup that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The identity of the backup.
    pub identity: Identity,
    /// Records that the base has.
    pub retained: u64,
    /// Records in the backup.
    pub records: u64,
    /// Bytes of the backup.
    pub bytes: u64,
}

/// Takes a backup of the store of `client`, and writes it to `output`, which is flushed and not synced. The progress is
/// reported to `told` from time to time. The result is a whole backup only if the call succeeds: write to a temporary
/// name, sync, and rename.
///
/// The client needs 24 bytes of memory for each key.
///
/// # Errors
/// [`BackupError::Store`] with [`StoreError::HoldLost`] if keys are overwritten much faster than they are read, and
/// for a cluster and a server whose clients publish with [`StoreError::NoHold`]; [`BackupError::OtherPool`];
/// [`BackupError::Write`]. The store has not changed.
pub async fn take<W: Write>(
    client: &Client,
    plan: Plan,
    output: W,
    mut told: impl FnMut(&Taken),
) -> Result<(W, Taken), BackupError> {
    let server = client.server()?;
    let (pool, base) = (server.pool(), plan.base);
    if let Some(base) = base.filter(|base| base.pool != pool) {
        return Err(BackupError::OtherPool {
            base: base.pool,
            found: pool,
        });
    }
    let base = base.map_or(0, |base| base.version);
    let of_store = |error: StoreError| BackupError::Store(Error::of_read(error));
    let mut hold = server.hold(base).await.map_err(of_store)?;
    let identity = Identity {
        pool,
        base,
        version: hold.version(),
        keys: hold.keys(),
        made_ms: plan.made_ms,
    };
    let mut taken = Taken {
        identity,
        retained: 0,
        records: 0,
        bytes: 0,
    };
    let mut writer = FileWriter::new(output, &identity).map_err(BackupError::Write)?;
    let (mut shelf, mut parts) = (Shelf::new(plan.scratch), Vec::new());
    loop {
        hold.next(&mut parts).await.map_err(of_store)?;
        if parts.is_empty() {
            break;
        }
        for part in parts.drain(..) {
            write_part(&mut writer, (&mut shelf, &mut taken), part).map_err(BackupError::Write)?;
        }
        taken.bytes = writer.bytes();
        told(&taken);
    }
    hold.end().await.map_err(of_store)?;
    let (output, bytes) = writer.finish().map_err(BackupError::Write)?;
    taken.bytes = bytes;
    Ok((output, taken))
}

fn write_part<W: Write>(
    writer: &mut FileWriter<W>,
    (shelf, taken): (&mut Shelf, &mut Taken),
    part: HeldPart,
) -> std::io::Result<()> {
    let entry = match part {
        HeldPart::Keep(entry) => return shelf.put(&entry),
        HeldPart::Retained(versions) => {
            taken.retained += versions.len() as u64;
            return versions
                .into_iter()
                .try_for_each(|version| writer.retain(version));
        }
        HeldPart::Record(entry) => entry,
        HeldPart::Kept(version) => shelf.take(version)?,
    };
    taken.records += 1;
    writer.record(&entry)
}
