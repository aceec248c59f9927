//! `restore`: stores the state of a backup in an empty store, and compares what is stored with the backup.

use std::path::PathBuf;
use std::pin::pin;
use std::time::{Instant, SystemTime};

use clap::Args;
use futures_util::{TryStreamExt, stream};
use serde::Serialize;
use stonecast::backup::Chain;
use stonecast::local::Client;
use stonecast::{Expiry, Record, Write, Written};

use crate::failure::{Failure, Status};
use crate::flags::{Connection, FlightFlags};
use crate::output;
use crate::progress::Progress;
use crate::session::Session;

/// Stores the state of a full backup, and of the incremental ones that follow it, in an empty store.
///
/// All files are verified first, and nothing is stored if one is damaged or missing. Then all records are stored, in
/// the order of their versions, and read back and compared. The keys get new versions. Keys that have expired
/// meanwhile, by the server's time, are absent. Start the server of a new pool for it, and let others in afterwards: a
/// restore that ends early leaves a part of the keys, and begins again with a new pool.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: check a chain, and restore it into a new pool
  stonecast restore --verify sunday.backup monday.backup
  stonecast serve --data /srv/new --capacity 64GiB &
  stonecast restore sunday.backup monday.backup --data /srv/new")]
pub struct Restore {
    /// A full backup, and each incremental one that follows it, in any order.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Only verifies: reads every byte of the files, checks that each is whole and that they follow each other, and
    /// needs no server.
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub flight: FlightFlags,
    /// Prints {"version":..,"keys":..,"expired":..,"bytes":..,"seconds":..} to stdout at the end.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The report of a restore, or of a verification.
#[derive(Serialize)]
struct Report {
    /// The version of the backup.
    version: u64,
    keys: u64,
    /// Keys of the backup that have expired.
    expired: u64,
    /// Bytes of all keys and values of the backup.
    bytes: u64,
    seconds: f64,
}

/// Restores, or verifies.
pub fn run(flags: &Restore) -> Result<(), Failure> {
    let start = Instant::now();
    let chain = Chain::open(&flags.files)?;
    let bytes = chain.verify()?;
    let keys = chain.identity().keys;
    let expired = match flags.verify {
        true => 0,
        false => restore(flags, &chain)?,
    };
    let report = Report {
        version: chain.identity().version,
        keys: keys - expired,
        expired,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
    };
    let what = match flags.verify {
        true => "verified",
        false => "restored",
    };
    if flags.json {
        return output::report(&report, format_args!("the backup is {what}"));
    }
    let left_out = match expired {
        0 => String::new(),
        _ => format!("; {expired} have expired"),
    };
    output::say(format_args!(
        "{what} {} keys at version {} ({}) in {:.1} s{left_out}",
        report.keys,
        report.version,
        output::size(bytes),
        report.seconds
    ));
    Ok(())
}

/// Stores and compares all records. Returns the number of keys that have expired.
fn restore(flags: &Restore, chain: &Chain) -> Result<u64, Failure> {
    let session = Session::open_for_many(&flags.connection)?;
    let in_flight = flags.flight.in_flight as usize;
    let keys = chain.identity().keys;
    let expired = session.run(async |client| {
        let found = client.stat().await?.keys;
        if found > 0 {
            return Err(Failure::operation(format!(
                "the store has {found} keys already, and nothing was stored: a restore needs an empty store. Start a server with a new pool"
            ))
            .with("keys", found));
        }
        let progress = Progress::of_count("restoring", Some(keys));
        let records = stream::iter(chain.records()?).map_err(Failure::from);
        let puts = records.map_ok(|record| put(client, record));
        let mut puts = pin!(puts.try_buffered(in_flight));
        let mut stored = 0_u64;
        while let Some(()) = puts.try_next().await.map_err(|failure| part_is_stored(failure, stored))? {
            stored += 1;
            progress.advance(1);
        }
        drop(progress);
        compare(client, chain, in_flight).await
    })?;
    session.close();
    Ok(expired)
}

/// The failure of a restore that has stored a part of the keys.
fn part_is_stored(failure: Failure, stored: u64) -> Failure {
    let status = match failure.reason() {
        Some(_) if failure.status() == Status::Unreachable as u8 => Status::Unreachable,
        _ => Status::Failed,
    };
    Failure::new(
        status,
        format!("{failure}. {stored} keys and perhaps a few more are stored: remove that pool, and restore into a new one"),
    )
    .with("stored", stored)
}

async fn put(client: &Client, record: Record) -> Result<(), Failure> {
    let write = record
        .expires
        .map_or_else(Write::new, |moment| Write::new().expires_at(moment));
    match client.put_with(&record.key, &record.value, write).await? {
        Written::Done(_) => Ok(()),
        Written::Conflict(_) => unreachable!("the write has no condition"),
    }
}

/// Compares the store with the backup. Returns the number of keys that have expired.
async fn compare(client: &Client, chain: &Chain, in_flight: usize) -> Result<u64, Failure> {
    let progress = Progress::of_count("comparing", Some(chain.identity().keys));
    let records = stream::iter(chain.records()?).map_err(Failure::from);
    let compared = records.map_ok(|record| is_stored(client, record));
    let mut compared = pin!(compared.try_buffered(in_flight));
    let (mut present, mut expired) = (0_u64, 0_u64);
    while let Some(is_present) = compared.try_next().await? {
        match is_present {
            true => present += 1,
            false => expired += 1,
        }
        progress.advance(1);
    }
    let found = client.stat().await?.keys;
    if !(present..=present + expired).contains(&found) {
        return Err(Failure::operation(format!(
            "the store has {found} keys, and {present} were restored: another client writes to it. Restore into a new pool that nobody else uses"
        )));
    }
    Ok(expired)
}

/// Whether the store has `record`; false if the key has expired.
async fn is_stored(client: &Client, record: Record) -> Result<bool, Failure> {
    let found = client.get(&record.key).await?;
    match found {
        Some(found) if found.value == record.value && found.expires == record.expires => Ok(true),
        None if may_have_expired(&record, SystemTime::now()) => Ok(false),
        found => {
            let what = match found {
                None if record.expires.is_some() => {
                    "is absent before it expires by the clock of this machine"
                }
                None => "is absent",
                Some(_) => "has another value or expiry",
            };
            Err(Failure::operation(format!(
                "the key {:?} {what} in the store: another client writes to it, or the store has lost a write. Restore into a new pool that nobody else uses",
                String::from_utf8_lossy(&record.key)
            )))
        }
    }
}

/// Whether the key of `record` may have expired by the server's time, which is ahead by up to ten seconds after a
/// restart. The server alone decides which keys are present, so the clock of this machine drops none.
fn may_have_expired(record: &Record, now: SystemTime) -> bool {
    let ahead = now + std::time::Duration::from_secs(10);
    let moment = record.expires.map(Expiry::time);
    moment.is_some_and(|moment| moment <= ahead)
}
