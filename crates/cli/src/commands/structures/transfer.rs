//! Import and export of a structure with keys, as NDJSON.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use stonecast::structures::classic::{Bst, MvBst, SkipList};
use stonecast::structures::{BTree, Error, HashTable, Keyed, MvBTree, Session, Shape};

use super::{failure, session};
use crate::commands::export::Destination;
use crate::commands::import::{Transferred, open_entries, report};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::progress::Progress;
use stonecast_console::ndjson;

/// Puts every entry of an NDJSON file into a structure with keys and values of bytes, which is made if it does not
/// exist.
///
/// Each line is {"key":KEY,"value":VALUE}, where KEY and VALUE are strings or {"base64":"..."}. A broken line ends the
/// import: the lines before it are stored. Programs open the structure as BTree or HashTable with keys and values of
/// type `Vec<u8>`.
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

/// Writes every entry of a structure with keys and values of bytes as NDJSON: by key for a B+tree, in no order for a
/// hash table. The entries stood in the structure at one moment.
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

/// A kind of structure with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Entries in the order of their keys.
    BTree,
    /// Entries in no order.
    HashTable,
    /// Entries in the order of their keys, in versions.
    MvBTree,
    /// A skip list, to compare with.
    SkipList,
    /// A binary search tree, to compare with.
    Bst,
    /// A multi-version binary search tree, to compare with.
    MvBst,
}

/// Work on a structure of a kind that is known when the command runs.
macro_rules! of_kind {
    ($session:expr, $kind:expr, $work:ident($($argument:expr),*)) => {{
        let session = $session;
        match $kind {
            Kind::BTree => session.run(async |session| $work::<BTree<Bytes, Bytes>>(session, $($argument),*).await),
            Kind::HashTable => session.run(async |session| $work::<HashTable<Bytes, Bytes>>(session, $($argument),*).await),
            Kind::MvBTree => session.run(async |session| $work::<MvBTree<Bytes, Bytes>>(session, $($argument),*).await),
            Kind::SkipList => session.run(async |session| $work::<SkipList<Bytes, Bytes>>(session, $($argument),*).await),
            Kind::Bst => session.run(async |session| $work::<Bst<Bytes, Bytes>>(session, $($argument),*).await),
            Kind::MvBst => session.run(async |session| $work::<MvBst<Bytes, Bytes>>(session, $($argument),*).await),
        }
    }};
}

type Bytes = Vec<u8>;

/// Bytes of lines that are held at a time.
const LINES_SIZE_MAX: u64 = 4 << 20;

pub fn import(flags: &Import) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let start = Instant::now();
    let (entries, bytes) = of_kind!(&session, flags.kind, read_all(flags))?;
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

async fn read_all<S: Keyed<Key = Bytes, Value = Bytes>>(
    session: &Session,
    flags: &Import,
) -> Result<(u64, u64), Failure> {
    let mut input = open_entries(flags.file.as_deref())?;
    let mut writer = session.writer::<S>(&flags.name).await.map_err(failure)?;
    let progress = Progress::of_count("importing", None);
    let batch = u64::from(flags.batch);
    let (mut count, mut bytes) = (0, 0);
    let read = 'file: loop {
        let (lines, end) = next_lines(&mut input, batch - count % batch);
        let keys = lines.iter().map(|line| &line.entry.key);
        writer.look_ahead(keys).await.map_err(failure)?;
        for Line {
            number,
            entry,
            size,
        } in &lines
        {
            let staged = writer.stage(&entry.key, &entry.value).await;
            if let Err(error @ (Error::TooLarge { .. } | Error::NoRoom)) = staged {
                break 'file Err(Failure::operation(format!("line {number}: {error}")));
            }
            let _ticket = staged.map_err(failure)?;
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

/// A line of the file.
struct Line {
    number: u64,
    entry: ndjson::Entry,
    /// Bytes of the line.
    size: u64,
}

/// Reads lines whose keys are looked up together: at most `count`, of about [`LINES_SIZE_MAX`] bytes. The end of the
/// file, or of its sound part, comes with the last ones.
fn next_lines(
    input: &mut ndjson::Reader<impl BufRead>,
    count: u64,
) -> (Vec<Line>, Option<Result<(), Failure>>) {
    let (mut lines, mut left) = (Vec::new(), LINES_SIZE_MAX);
    while (lines.len() as u64) < count && left > 0 {
        match input.next_entry() {
            Ok(Some((entry, _))) if entry.expires.is_some() => {
                let number = input.line();
                let refused = Failure::operation(format!(
                    "line {number}: the entry expires, and structures keep no expiry; remove `expires`"
                ));
                return (lines, Some(Err(refused)));
            }
            Ok(Some((entry, size))) => {
                left = left.saturating_sub(size);
                let number = input.line();
                lines.push(Line {
                    number,
                    entry,
                    size,
                });
            }
            Ok(None) => return (lines, Some(Ok(()))),
            Err(broken) => {
                let broken = Failure::operation(broken.to_string());
                return (lines, Some(Err(broken)));
            }
        }
    }
    (lines, None)
}

pub fn export(flags: &Export) -> Result<(), Failure> {
    let session = session(&flags.connection)?;
    let start = Instant::now();
    let found = of_kind!(&session, flags.kind, all_of(&flags.name));
    let found = found.map_err(failure)?;
    let (entries, bytes, to_stdout) = write_all(&found, flags.file.as_deref())?;
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

async fn all_of<S: Keyed<Key = Bytes, Value = Bytes> + Shape>(
    session: &Session,
    name: &str,
) -> Result<Vec<(Bytes, Bytes)>, Error> {
    session.reader::<S>(name).await?.entries().await
}

fn write_all(found: &[(Bytes, Bytes)], file: Option<&Path>) -> Result<(u64, u64, bool), Failure> {
    use std::io::Write as _;
    let mut output = std::io::BufWriter::new(Destination::open(file)?);
    let progress = Progress::of_count("exporting", Some(found.len() as u64));
    let (mut line, mut bytes) = (Vec::new(), 0);
    for (key, value) in found {
        line.clear();
        ndjson::write(&mut line, (key, value), None)?;
        output.write_all(&line)?;
        bytes += line.len() as u64;
        progress.advance(1);
    }
    let output = output
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?;
    let to_stdout = matches!(output, Destination::Stdout(_));
    output.finish()?;
    Ok((found.len() as u64, bytes, to_stdout))
}
