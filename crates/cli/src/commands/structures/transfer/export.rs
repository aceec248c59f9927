//! `structures export`: everything that a structure holds, in the order in which an import makes the same structure.

use std::io::{BufWriter, IntoInnerError, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use stonecast::structures::classic::{Bst, MvBst, SkipList};
use stonecast::structures::{
    BTree, HashTable, MvBTree, Ordered, Queue, Reader, Session, Stack, Versioned,
};
use stonecast_console::{ndjson, values};

use super::{Bytes, Entries, Kind, Values, Versions};
use crate::commands::export::Destination;
use crate::commands::import::{Transferred, report};
use crate::commands::structures::{failure, session};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::progress::Progress;

/// Writes every entry of a structure of bytes as NDJSON: by key where keys have an order, in no order for a hash table,
/// a queue from its first value and a stack from its bottom, so that an import makes the same structure.
///
/// Entries with keys are read while they are written. Beside a writer, each leaf, or bucket of a hash table, is as it
/// was at a moment of the export, and a structure with versions as a whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures export packages packages.ndjson --connect shm:/srv/structures/socket")]
pub struct Export {
    /// The name of the structure.
    name: String,
    /// The file; stdout if FILE is missing or `-`.
    file: Option<PathBuf>,
    /// The kind of the structure.
    #[arg(long, value_enum, default_value = "b-tree")]
    kind: Kind,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end; requires FILE.
    #[arg(long, requires = "file")]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn export(flags: &Export) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let start = Instant::now();
    let mut output = Output {
        file: BufWriter::new(Destination::open(flags.file.as_deref())?),
        line: Vec::new(),
        entries: 0,
        bytes: 0,
    };
    let (name, into) = (flags.name.as_str(), &mut output);
    session.run(async |session| match flags.kind {
        Kind::BTree => Entries::<BTree<Bytes, Bytes>>::write(session, name, into).await,
        Kind::HashTable => write_table(session, name, into).await,
        Kind::MvBTree => Versions::<MvBTree<Bytes, Bytes>>::write(session, name, into).await,
        Kind::SkipList => Entries::<SkipList<Bytes, Bytes>>::write(session, name, into).await,
        Kind::Bst => Entries::<Bst<Bytes, Bytes>>::write(session, name, into).await,
        Kind::MvBst => Versions::<MvBst<Bytes, Bytes>>::write(session, name, into).await,
        Kind::Stack => Values::<Stack<Bytes>>::write(session, name, into).await,
        Kind::Queue => Values::<Queue<Bytes>>::write(session, name, into).await,
    })?;
    let (entries, bytes) = (output.entries, output.bytes);
    let file = output.file.into_inner();
    let file = file.map_err(IntoInnerError::into_error)?;
    let to_stdout = matches!(file, Destination::Stdout(_));
    file.finish()?;
    if to_stdout {
        return Ok(());
    }
    let seconds = start.elapsed().as_secs_f64();
    report(
        flags.json,
        "exported",
        Transferred {
            entries,
            bytes,
            seconds,
        },
    )
}

/// The lines of an export.
struct Output {
    file: BufWriter<Destination>,
    line: Vec<u8>,
    entries: u64,
    bytes: u64,
}

impl Output {
    fn entry(&mut self, (key, value): (&[u8], &[u8])) -> Result<(), Failure> {
        self.line.clear();
        ndjson::write(&mut self.line, (key, value), None)?;
        self.write_line()
    }

    fn value(&mut self, value: &[u8]) -> Result<(), Failure> {
        self.line.clear();
        values::write(&mut self.line, value)?;
        self.write_line()
    }

    fn write_line(&mut self) -> Result<(), Failure> {
        self.file.write_all(&self.line)?;
        self.entries += 1;
        self.bytes += self.line.len() as u64;
        Ok(())
    }
}

impl<S: Ordered<Key = Bytes, Value = Bytes>> Entries<S> {
    async fn write(session: &Session, name: &str, output: &mut Output) -> Result<(), Failure> {
        let reader = session.reader::<S>(name).await.map_err(failure)?;
        write_range(reader, output).await
    }
}

impl<S: Versioned + Ordered<Key = Bytes, Value = Bytes>> Versions<S> {
    async fn write(session: &Session, name: &str, output: &mut Output) -> Result<(), Failure> {
        let (domain, structure) = name.split_once('/').unwrap_or((name, name));
        let snapshot = session.snapshot(domain).await.map_err(failure)?;
        let reader = snapshot.reader::<S>(structure).await.map_err(failure)?;
        write_range(reader, output).await
    }
}

async fn write_range<S: Ordered<Key = Bytes, Value = Bytes>>(
    mut reader: Reader<S>,
    output: &mut Output,
) -> Result<(), Failure> {
    let length = reader.len().await.map_err(failure)?;
    let progress = Progress::of_count("exporting", Some(length));
    let mut entries = reader.range(..);
    while let Some((key, value)) = entries.next().await.map_err(failure)? {
        output.entry((&key, &value))?;
        progress.advance(1);
    }
    Ok(())
}

async fn write_table(session: &Session, name: &str, output: &mut Output) -> Result<(), Failure> {
    let reader = session.reader::<HashTable<Bytes, Bytes>>(name).await;
    let mut reader = reader.map_err(failure)?;
    let length = reader.len().await.map_err(failure)?;
    let progress = Progress::of_count("exporting", Some(length));
    let mut entries = reader.scan();
    while let Some((key, value)) = entries.next().await.map_err(failure)? {
        output.entry((&key, &value))?;
        progress.advance(1);
    }
    Ok(())
}

impl Values<Queue<Bytes>> {
    async fn write(session: &Session, name: &str, output: &mut Output) -> Result<(), Failure> {
        let mut reader = session
            .reader::<Queue<Bytes>>(name)
            .await
            .map_err(failure)?;
        let values = reader.values().await.map_err(failure)?;
        write_values(values.iter(), output)
    }
}

impl Values<Stack<Bytes>> {
    /// The bottom was put in first.
    async fn write(session: &Session, name: &str, output: &mut Output) -> Result<(), Failure> {
        let mut reader = session
            .reader::<Stack<Bytes>>(name)
            .await
            .map_err(failure)?;
        let values = reader.values().await.map_err(failure)?;
        write_values(values.iter().rev(), output)
    }
}

fn write_values<'a>(
    values: impl ExactSizeIterator<Item = &'a Bytes>,
    output: &mut Output,
) -> Result<(), Failure> {
    let progress = Progress::of_count("exporting", Some(values.len() as u64));
    for value in values {
        output.value(value)?;
        progress.advance(1);
    }
    Ok(())
}
