//! `structures import`: every line of a file, in the order of the file.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use stonecast::structures::classic::{Bst, MvBst, SkipList};
use stonecast::structures::{
    BTree, Error, HashTable, Keyed, MvBTree, Queue, Sequence, Session, Shape, Stack, Writer,
};
use stonecast_console::ndjson;

use super::{Bytes, Entries, Kind, Values};
use crate::commands::import::{Transferred, open_entries, report};
use crate::commands::structures::{failure, session};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::progress::Progress;

/// Puts every line of an NDJSON file into a structure of bytes, which is made if it does not exist.
///
/// Each line is {"key":KEY,"value":VALUE}, and {"value":VALUE} for a stack or a queue, where KEY and VALUE are strings
/// or {"base64":"..."}. A broken line ends the import: the lines before it are stored. Programs open the structure as
/// BTree or HashTable with keys and values of type `Vec<u8>`, or as Stack or Queue of `Vec<u8>`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast structures import packages packages.ndjson --connect shm:/srv/structures/socket")]
pub struct Import {
    /// The name of the structure.
    name: String,
    /// The file; stdin if FILE is missing or `-`.
    file: Option<PathBuf>,
    /// The kind of a structure that is made.
    #[arg(long, value_enum, default_value = "b-tree")]
    kind: Kind,
    /// Entries that become visible together.
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Bytes of lines that are held at a time.
const LINES_SIZE_MAX: u64 = 4 << 20;

pub fn import(flags: &Import) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let start = Instant::now();
    let imported = session.run(async |session| match flags.kind {
        Kind::BTree => read_all::<Entries<BTree<Bytes, Bytes>>>(session, flags).await,
        Kind::HashTable => read_all::<Entries<HashTable<Bytes, Bytes>>>(session, flags).await,
        Kind::MvBTree => read_all::<Entries<MvBTree<Bytes, Bytes>>>(session, flags).await,
        Kind::SkipList => read_all::<Entries<SkipList<Bytes, Bytes>>>(session, flags).await,
        Kind::Bst => read_all::<Entries<Bst<Bytes, Bytes>>>(session, flags).await,
        Kind::MvBst => read_all::<Entries<MvBst<Bytes, Bytes>>>(session, flags).await,
        Kind::Stack => read_all::<Values<Stack<Bytes>>>(session, flags).await,
        Kind::Queue => read_all::<Values<Queue<Bytes>>>(session, flags).await,
    });
    let (entries, bytes) = imported?;
    let seconds = start.elapsed().as_secs_f64();
    report(
        flags.json,
        "imported",
        Transferred {
            entries,
            bytes,
            seconds,
        },
    )
}

/// The work done for several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prepared {
    /// The lines are stored.
    Done,
    /// The lines must be staged one by one.
    OneByOne,
}

/// The content of lines, and the structure that takes it.
trait Input {
    type Shape: Shape;
    type Item;

    /// The content of the next line with its bytes; `None`: the end of the file.
    fn next(input: &mut ndjson::Reader<impl BufRead>)
    -> Result<Option<(Self::Item, u64)>, Failure>;

    /// Does everything together that it can. Lines may be staged all the same.
    async fn prepare(
        writer: &mut Writer<Self::Shape>,
        lines: &[Line<Self::Item>],
    ) -> Result<Prepared, Error>;

    async fn stage(writer: &mut Writer<Self::Shape>, item: &Self::Item) -> Result<(), Error>;
}

impl<S: Keyed<Key = Bytes, Value = Bytes>> Input for Entries<S> {
    type Shape = S;
    type Item = ndjson::Entry;

    fn next(
        input: &mut ndjson::Reader<impl BufRead>,
    ) -> Result<Option<(ndjson::Entry, u64)>, Failure> {
        let next = input.next_entry();
        let next = next.map_err(|broken| Failure::operation(broken.to_string()))?;
        if let Some((entry, _)) = &next
            && entry.expires.is_some()
        {
            let number = input.line();
            return Err(Failure::operation(format!(
                "line {number}: the entry expires, and structures keep no expiry; remove `expires`"
            )));
        }
        Ok(next)
    }

    /// Stores the lines, as far as they are in order from the leaves up.
    async fn prepare(
        writer: &mut Writer<S>,
        lines: &[Line<ndjson::Entry>],
    ) -> Result<Prepared, Error> {
        let entries = lines.iter().map(|line| (&line.item.key, &line.item.value));
        match writer.bulk_load(entries).await {
            Ok(()) => Ok(Prepared::Done),
            // One by one, the line at fault shows.
            Err(error) if is_of_one_line(&error) => Ok(Prepared::OneByOne),
            Err(error) => Err(error),
        }
    }

    async fn stage(writer: &mut Writer<S>, entry: &ndjson::Entry) -> Result<(), Error> {
        let _ticket = writer.stage(&entry.key, &entry.value).await?;
        Ok(())
    }
}

impl<S: Sequence<Value = Bytes>> Input for Values<S> {
    type Shape = S;
    type Item = Bytes;

    fn next(input: &mut ndjson::Reader<impl BufRead>) -> Result<Option<(Bytes, u64)>, Failure> {
        let next = input.next_value();
        next.map_err(|broken| Failure::operation(broken.to_string()))
    }

    /// A push has one place, which its writer knows.
    async fn prepare(_: &mut Writer<S>, _: &[Line<Bytes>]) -> Result<Prepared, Error> {
        Ok(Prepared::OneByOne)
    }

    async fn stage(writer: &mut Writer<S>, value: &Bytes) -> Result<(), Error> {
        let _ticket = writer.stage_push(value).await?;
        Ok(())
    }
}

async fn read_all<I: Input>(session: &Session, flags: &Import) -> Result<(u64, u64), Failure> {
    let mut input = open_entries(flags.file.as_deref())?;
    let writer = session.writer::<I::Shape>(&flags.name).await;
    let mut writer = writer.map_err(failure)?;
    let progress = Progress::of_count("importing", None);
    let batch = u64::from(flags.batch);
    let (mut count, mut bytes) = (0, 0);
    let read = 'file: loop {
        let (lines, end) = next_lines::<I>(&mut input, batch - count % batch);
        let prepared = I::prepare(&mut writer, &lines).await.map_err(failure)?;
        for Line { number, item, size } in &lines {
            if prepared == Prepared::OneByOne {
                match I::stage(&mut writer, item).await {
                    Err(error) if is_of_one_line(&error) => {
                        break 'file Err(Failure::operation(format!("line {number}: {error}")));
                    }
                    staged => staged.map_err(failure)?,
                }
            }
            count += 1;
            bytes += size;
        }
        if count % batch == 0 {
            writer.publish().await.map_err(failure)?;
            progress.advance(batch);
        }
        if let Some(end) = end {
            break end;
        }
    };
    writer.release().await.map_err(failure)?;
    read.map(|()| (count, bytes))
}

/// Whether the writer goes on after the error, so that the lines before are stored.
fn is_of_one_line(error: &Error) -> bool {
    matches!(
        error,
        Error::TooLarge { .. } | Error::TooLong { .. } | Error::NoRoom | Error::OverQuota { .. }
    )
}

/// A line of the file.
struct Line<T> {
    number: u64,
    item: T,
    /// Bytes of the line.
    size: u64,
}

/// Lines that are stored together. The end of the file, or of its sound part, comes with the last ones.
type Lines<T> = (Vec<Line<T>>, Option<Result<(), Failure>>);

/// Reads at most `count` lines, of about [`LINES_SIZE_MAX`] bytes.
fn next_lines<I: Input>(input: &mut ndjson::Reader<impl BufRead>, count: u64) -> Lines<I::Item> {
    let (mut lines, mut left) = (Vec::new(), LINES_SIZE_MAX);
    while (lines.len() as u64) < count && left > 0 {
        match I::next(input) {
            Ok(Some((item, size))) => {
                left = left.saturating_sub(size);
                let number = input.line();
                lines.push(Line { number, item, size });
            }
            Ok(None) => return (lines, Some(Ok(()))),
            Err(broken) => return (lines, Some(Err(broken))),
        }
    }
    (lines, None)
}
