//! `import`: every entry of an NDJSON file, in its order.
//!
//! Many puts are in flight on one connection. They are posted in the order of the file and committed in the order in
//! which they were posted, so the order of versions is the order of lines. Answers come in that order, too, so it is
//! enough to wait for the oldest.

use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use serde::Serialize;
use stonecast_store_direct::{Client, StoreError};

use crate::arguments::Import;
use crate::failure::Failure;
use crate::ndjson::{Entry, LineError, Reader};
use crate::output;
use crate::progress::Progress;
use crate::session::Session;

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
pub fn run(flags: &Import, connect: impl FnOnce() -> Result<Session, Failure>) -> Result<(), Failure> {
    let (input, size) = open(flags.file.as_deref())?;
    let session = connect()?;
    let start = Instant::now();
    let progress = Progress::of_bytes("importing", size);
    let in_flight = flags.in_flight as usize;
    let result = session.run(async |client| Ok(store_all(client, Reader::new(input), in_flight, &progress).await));
    drop(progress);
    let Stored { entries, bytes, failure } = result?;
    session.close();
    match failure {
        None => report(flags.json, "imported", Transferred { entries, bytes, seconds: start.elapsed().as_secs_f64() }),
        Some(failure) => Err(failure.into_failure(entries)),
    }
}

/// Says what was transferred, to the program or the person that wants to know.
pub fn report(json: bool, what: &str, transferred: Transferred) -> Result<(), Failure> {
    if json {
        return output::json(&transferred);
    }
    let Transferred { entries, bytes, seconds } = transferred;
    output::say(format_args!("{what} {entries} entries ({}) in {seconds:.1} s", output::size(bytes)));
    Ok(())
}

fn open(path: Option<&Path>) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    match path {
        None => Ok((Box::new(io::stdin().lock()), None)),
        Some(path) if path == Path::new("-") => Ok((Box::new(io::stdin().lock()), None)),
        Some(path) => {
            let refuse = |error| Failure::operation(format!("cannot read {}: {error}", path.display()));
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
            Self::Store { line, error } => {
                Failure::operation(format!("line {line}: {error}. {entries} entries of the file are stored"))
            }
        }
    }
}

type Put<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>;

async fn store_all(client: &Client, mut reader: Reader<impl BufRead>, in_flight: usize, progress: &Progress) -> Stored {
    let mut flying: VecDeque<(u64, u64, Put<'_>)> = VecDeque::with_capacity(in_flight);
    let mut stored = Stored { entries: 0, bytes: 0, failure: None };
    loop {
        if flying.len() == in_flight {
            land(&mut flying, &mut stored, progress).await;
        }
        let next = if stored.failure.is_none() { reader.next_entry() } else { Ok(None) };
        match next {
            Ok(Some((Entry { key, value }, bytes))) => {
                let mut put: Put<'_> = Box::pin(async move { client.put(&key, &value).await });
                // Posts it, which is all that the first poll can do; its turn to be waited for comes.
                match poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await {
                    Poll::Pending => flying.push_back((reader.line(), bytes, put)),
                    Poll::Ready(result) => {
                        flying.push_back((reader.line(), bytes, Box::pin(std::future::ready(result))));
                    }
                }
            }
            Ok(None) => break,
            Err(error) => {
                stored.failure = Some(ImportFailure::Line(error));
                break;
            }
        }
    }
    while !flying.is_empty() {
        land(&mut flying, &mut stored, progress).await;
    }
    stored
}

/// Waits for the oldest put. Of failures the first is kept: it names the earliest line.
async fn land(flying: &mut VecDeque<(u64, u64, Put<'_>)>, stored: &mut Stored, progress: &Progress) {
    let Some((line, bytes, put)) = flying.pop_front() else { return };
    match put.await {
        Ok(_) => {
            stored.entries += 1;
            stored.bytes += bytes;
            progress.advance(bytes);
        }
        Err(error) => {
            let earlier = matches!(&stored.failure, Some(ImportFailure::Store { line: known, .. }) if *known < line);
            if !earlier {
                stored.failure = Some(ImportFailure::Store { line, error });
            }
        }
    }
}
