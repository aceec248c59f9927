//! `import`: every entry of an NDJSON file, in the order of the file.
//!
//! Many puts are in flight on one connection. The client commits them in the order in which they are first polled,
//! which is the order of the file, so the order of versions is the order of lines.

mod input;
mod outcome;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use clap::Args;
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use stonecast::local::Client;
use stonecast::{Expiry, Write, Written};
use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use crate::failure::Failure;
use crate::flags::{Connection, FlightFlags};
use crate::output;
use crate::progress::Progress;
use crate::session::Session;
use crate::signals::Stop;
use input::Source;
use outcome::{Cause, Outcome};
use stonecast_console::ndjson::{Entry, Reader};

/// Stores every entry of an NDJSON file, in the order of the file.
///
/// Each line is {"key":KEY,"value":VALUE}, where KEY and VALUE are strings or {"base64":"..."}. A "version", as `get
/// --json` prints it, is ignored. A broken line ends the import: the lines before it are stored, and nothing else. An
/// import that ends early, also at a signal, says which lines are stored, which lines may be stored, and at which line
/// to continue.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a file, and the output of another program
  stonecast import entries.ndjson
  zcat entries.ndjson.gz | stonecast import
  stonecast get greeting --json | stonecast import --connect shm:/srv/other/socket")]
pub struct Import {
    /// The file; stdin if FILE is missing or `-`.
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub flight: FlightFlags,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The interval at which a wait for answers checks for a signal.
const LOOK_NS: Nanoseconds = 50_000_000;
/// The time for which an import waits for answers after a signal: far longer than a working server takes for a batch.
const PATIENCE_NS: Nanoseconds = 5_000_000_000;

/// The result of an import or export.
#[derive(Serialize)]
pub struct Transferred {
    /// Entries that were stored or printed.
    pub entries: u64,
    /// Bytes of NDJSON.
    pub bytes: u64,
    /// The duration of the transfer.
    pub seconds: f64,
}

/// The entries of a file, or of stdin, one after the other; a read ends at a signal.
pub fn open_entries(file: Option<&Path>) -> Result<Reader<impl BufRead + use<>>, Failure> {
    let stop = Rc::new(Stop::on_signals()?);
    Ok(Reader::new(input::open(file, stop)?.lines))
}

/// Stores every entry of the file. Connects only after the file was opened.
pub fn run(flags: &Import) -> Result<(), Failure> {
    let stop = Rc::new(Stop::on_signals()?);
    let source = input::open(flags.file.as_deref(), stop.clone())?;
    let session = Session::open_for_many(&flags.connection)?;
    let start = Instant::now();
    let progress = Progress::of_bytes("importing", source.size);
    let outcome = session.run(async |client| {
        let import = Run {
            client,
            runtime: session.runtime(),
            stop: &stop,
            progress: &progress,
        };
        Ok(import.run(source, flags.flight.in_flight as usize).await)
    })?;
    drop(progress);
    if outcome.ended_early() {
        // The connection is not closed in order here: a server that does not answer would keep the import waiting.
        return Err(outcome.failure());
    }
    session.close();
    report(
        flags.json,
        "imported",
        Transferred {
            entries: outcome.entries,
            bytes: outcome.bytes,
            seconds: start.elapsed().as_secs_f64(),
        },
    )
}

/// Reports the transfer, as JSON for a program or in words for a person.
pub fn report(json: bool, what: &str, transferred: Transferred) -> Result<(), Failure> {
    if json {
        let done = format_args!("{} entries are {what}", transferred.entries);
        return output::report(&transferred, done);
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

/// An import under way.
struct Run<'a> {
    client: &'a Client,
    runtime: &'a Rc<dyn Runtime>,
    stop: &'a Stop,
    progress: &'a Progress,
}

impl Run<'_> {
    async fn run(&self, source: Source, in_flight: usize) -> Outcome {
        let Source { lines, waits, .. } = source;
        let mut reader = Reader::new(lines);
        let (broken, ends) = (Cell::new(None), Cell::new(false));
        let sent = RefCell::new(VecDeque::new());
        let entries = stream::poll_fn(|_| {
            // After a refusal or a signal, nothing more is sent, but the answers to everything in flight are awaited.
            if ends.get() || self.stop.asked() {
                return Poll::Ready(None);
            }
            // Answers that are due come soon and poll this future again, so a read waits for input only if no answer is
            // due.
            waits.set(sent.borrow().is_empty());
            match reader.next_entry() {
                Ok(Some((entry, bytes))) => {
                    sent.borrow_mut().push_back(reader.line());
                    Poll::Ready(Some((entry, bytes)))
                }
                Ok(None) => Poll::Ready(None),
                Err(error) if error.is_pause() => Poll::Pending,
                Err(error) => {
                    broken.set(Some(error));
                    Poll::Ready(None)
                }
            }
        });
        let put = |(entry, bytes)| async move {
            let Entry {
                key,
                value,
                expires,
            } = entry;
            let put = match expires.and_then(Expiry::at_ms) {
                None => self.client.put(&key, &value).await,
                Some(moment) => put_until(self.client, &key, &value, moment).await,
            };
            (bytes, put)
        };
        let mut puts = pin!(entries.map(put).buffered(in_flight));
        let mut outcome = Outcome::default();
        loop {
            match self.next(puts.as_mut()).await {
                Next::Answer((bytes, result)) => {
                    // Answers come in the order of the lines.
                    let line = sent.borrow_mut().pop_front().expect("it was sent");
                    if result.is_ok() {
                        self.progress.advance(bytes);
                    }
                    ends.set(ends.get() | result.is_err());
                    outcome.take(line, bytes, result);
                }
                Next::End => break,
                Next::Late => {
                    outcome.give_up(sent.take().into_iter());
                    break;
                }
            }
        }
        if self.stop.asked() {
            outcome.end(Cause::Interrupted);
        } else if let Some(error) = broken.take() {
            outcome.end(Cause::Line(error));
        }
        outcome
    }

    /// Waits for the next answer, after a signal no longer than [`PATIENCE_NS`].
    async fn next<T>(&self, mut answers: Pin<&mut impl Stream<Item = T>>) -> Next<T> {
        let mut deadline = None;
        loop {
            match self.runtime.within(LOOK_NS, answers.next()).await {
                Ok(Some(answer)) => return Next::Answer(answer),
                Ok(None) => return Next::End,
                Err(_) if self.stop.asked() => {
                    let now = self.runtime.now();
                    if now >= *deadline.get_or_insert(now + PATIENCE_NS) {
                        return Next::Late;
                    }
                }
                Err(_) => {}
            }
        }
    }
}

/// Stores an entry that expires.
async fn put_until(
    client: &Client,
    key: &[u8],
    value: &[u8],
    moment: Expiry,
) -> Result<u64, stonecast::Error> {
    match client
        .put_with(key, value, Write::new().expires_at(moment))
        .await?
    {
        Written::Done(version) => Ok(version),
        Written::Conflict(_) => unreachable!("the write has no condition"),
    }
}

/// The next event of an import.
enum Next<T> {
    Answer(T),
    End,
    /// No answer came within the limit.
    Late,
}
