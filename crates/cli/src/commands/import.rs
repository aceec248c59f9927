//! `import`: every entry of an NDJSON file, in its order.
//!
//! Many puts are in flight on one connection. The client commits them in the order in which they are first polled, which
//! is the order of the file, so the order of versions is the order of lines.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::iter;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Instant;

use clap::Args;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use stonecast_kv::{Client, StoreError};

use crate::failure::Failure;
use crate::flags::Connection;
use crate::ndjson::{Entry, LineError, Reader};
use crate::output;
use crate::progress::Progress;
use crate::session::Session;

/// Stores every entry of an NDJSON file, in its order.
///
/// Each line is {"key":KEY,"value":VALUE}, each of the two a string or {"base64":"..."}. A broken line ends the
/// import: the lines before it are stored, nothing of it or after it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a file, and the output of another program
  stonecast import entries.ndjson
  zcat entries.ndjson.gz | stonecast import")]
pub struct Import {
    /// The file; stdin if it is not given or is `-`.
    pub file: Option<PathBuf>,
    /// Operations that wait for an answer at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Bytes read from the file at once.
const BUFFER_SIZE: usize = 1 << 20;

/// What an import or export came to.
#[derive(Serialize)]
pub struct Transferred {
    /// Entries.
    pub entries: u64,
    /// Bytes of NDJSON.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// See the module documentation. Connects only when the file can be read.
pub fn run(flags: &Import) -> Result<(), Failure> {
    let (input, size) = open(flags.file.as_deref())?;
    let session = Session::open(&flags.connection)?;
    let start = Instant::now();
    let progress = Progress::of_bytes("importing", size);
    let in_flight = flags.in_flight as usize;
    let result = session
        .run(async |client| Ok(store_all(client, Reader::new(input), in_flight, &progress).await));
    drop(progress);
    let Stored {
        entries,
        bytes,
        failure,
    } = result?;
    session.close();
    match failure {
        None => report(
            flags.json,
            "imported",
            Transferred {
                entries,
                bytes,
                seconds: start.elapsed().as_secs_f64(),
            },
        ),
        Some(failure) => Err(failure.into_failure(entries)),
    }
}

/// Says what was transferred, to the program or the person that wants to know.
pub fn report(json: bool, what: &str, transferred: Transferred) -> Result<(), Failure> {
    if json {
        return output::json(&transferred);
    }
    let Transferred {
        entries,
        bytes,
        seconds,
    } = transferred;
    output::say(format_args!(
        "{what} {entries} entries ({}) in {seconds:.1} s",
        output::size(bytes)
    ));
    Ok(())
}

fn open(path: Option<&Path>) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    match path {
        None => Ok((Box::new(io::stdin().lock()), None)),
        Some(path) if path == Path::new("-") => Ok((Box::new(io::stdin().lock()), None)),
        Some(path) => {
            let refuse =
                |error| Failure::operation(format!("cannot read {}: {error}", path.display()));
            let file = File::open(path).map_err(refuse)?;
            let metadata = file.metadata().map_err(refuse)?;
            let size = metadata.is_file().then_some(metadata.len());
            Ok((Box::new(BufReader::with_capacity(BUFFER_SIZE, file)), size))
        }
    }
}

/// What was stored until the end or the first failure.
struct Stored {
    entries: u64,
    bytes: u64,
    failure: Option<ImportFailure>,
}

/// Why an import ended early.
enum ImportFailure {
    /// A line is broken: what stands before it is stored.
    Line(LineError),
    /// The store refused an entry. Some after it may be stored, because they were in flight together.
    Store { line: u64, error: StoreError },
}

impl ImportFailure {
    fn into_failure(self, entries: u64) -> Failure {
        match self {
            Self::Line(error) => Failure::operation(format!(
                "{error}. Nothing of this line was stored; the {entries} entries before it are. Mend the line and import again"
            )),
            Self::Store { line, error } => Failure::operation(format!(
                "line {line}: {error}. {entries} entries of the file are stored"
            )),
        }
    }
}

async fn store_all(
    client: &Client,
    mut reader: Reader<impl BufRead>,
    in_flight: usize,
    progress: &Progress,
) -> Stored {
    let (broken, refused) = (Cell::new(None), Cell::new(false));
    let entries = iter::from_fn(|| {
        // After a refusal nothing more is sent; what is in flight is waited for.
        let next = if refused.get() {
            Ok(None)
        } else {
            reader.next_entry()
        };
        next.map_err(|error| broken.set(Some(error)))
            .ok()
            .flatten()
            .map(|(entry, bytes)| (reader.line(), entry, bytes))
    });
    let put = |(line, Entry { key, value }, bytes)| async move {
        (line, bytes, client.put(&key, &value).await)
    };
    let mut puts = pin!(stream::iter(entries).map(put).buffered(in_flight));
    let mut stored = Stored {
        entries: 0,
        bytes: 0,
        failure: None,
    };
    while let Some((line, bytes, result)) = puts.next().await {
        match result {
            Ok(_) => {
                stored.entries += 1;
                stored.bytes += bytes;
                progress.advance(bytes);
            }
            // They come in the order of the file: the first one is the earliest.
            Err(error) if stored.failure.is_none() => {
                refused.set(true);
                stored.failure = Some(ImportFailure::Store { line, error });
            }
            Err(_) => {}
        }
    }
    let broken = broken.take().map(ImportFailure::Line);
    Stored {
        failure: stored.failure.or(broken),
        ..stored
    }
}
