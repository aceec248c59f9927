//! `ls`: the keys, in the order of their versions.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use serde::Serialize;
use stonecast::local::Client;
use stonecast_kv::Entries;

use crate::failure::Failure;
use crate::flags::Connection;
use crate::session::Session;
use stonecast_console::ndjson::Bytes;

/// Lists all keys, or the keys that begin with PREFIX.
///
/// Keys are listed in the order in which they were stored: a key that is stored again moves to the end. A key that is
/// present all the time is listed. A key that is stored during the listing may be listed twice; the list ends all the
/// same. A cluster lists its keys shard by shard. Without --json, each key is printed unchanged as a line; a key with a
/// line feed takes several lines.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: all keys, those of one kind, and as JSON with their versions
  stonecast ls
  stonecast ls user:
  stonecast ls --json user:")]
pub struct Ls {
    /// Bytes that the keys begin with.
    pub prefix: Option<OsString>,
    /// Prints {"key":..,"version":..} for each key; a key that is not UTF-8 is {"base64":..}.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The most keys whose places are in memory at a time, 24 bytes each; more keys take another scan of the index.
const PAGE_KEYS: usize = 1 << 20;
/// The size of one write to stdout, in bytes.
const BUFFER_SIZE: usize = 64 << 10;

/// A key, as `--json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    key: Bytes<'a>,
    version: u64,
}

/// Prints the keys.
pub fn run(flags: &Ls) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let mut output = BufWriter::with_capacity(BUFFER_SIZE, io::stdout().lock());
    session.run(async |client| print_all(client, flags, &mut output).await)?;
    session.close();
    Ok(output.flush()?)
}

async fn print_all(client: &Client, flags: &Ls, output: &mut impl Write) -> Result<(), Failure> {
    let Some(store) = client.store() else {
        return print_cluster(client, flags, output).await;
    };
    let mut batch = Vec::new();
    let mut pages = Pages::of(store, PAGE_KEYS).await?;
    while let Some(mut page) = pages.next(store).await? {
        loop {
            page.next(store, &mut batch).await?;
            if batch.is_empty() {
                break;
            }
            for entry in &batch {
                print(&entry.key, entry.version, flags, output)?;
            }
        }
    }
    Ok(())
}

/// Prints the keys of a cluster, which gives its keys shard by shard.
async fn print_cluster(
    client: &Client,
    flags: &Ls,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut entries = client.entries().await?;
    loop {
        let batch = entries.next_batch(client).await?;
        if batch.is_empty() {
            return Ok(());
        }
        for record in &batch {
            print(&record.key, record.version, flags, output)?;
        }
    }
}

fn print(key: &[u8], version: u64, flags: &Ls, output: &mut impl Write) -> Result<(), Failure> {
    if !key.starts_with(flags.prefix.as_deref().unwrap_or_default().as_bytes()) {
        return Ok(());
    }
    if flags.json {
        let key = Bytes(key);
        serde_json::to_writer(&mut *output, &Printed { key, version })?;
    } else {
        output.write_all(key)?;
    }
    Ok(output.write_all(b"\n")?)
}

/// All keys, a page at a time, in the order of their versions.
///
/// Each page takes a scan of the whole index. Keys that are stored again move behind the page, so a list that followed
/// them might never end. Therefore the keys that were stored since the list began are its last page.
struct Pages {
    size: usize,
    /// The latest version when the list began.
    begun_at: u64,
    /// The version from which the next page continues; `None` if there is no next page.
    from: Option<u64>,
}

impl Pages {
    async fn of(client: &stonecast_kv::Client, size: usize) -> Result<Self, Failure> {
        Ok(Self {
            size,
            begun_at: client.stat().await?.sequence,
            from: Some(0),
        })
    }

    async fn next(&mut self, client: &stonecast_kv::Client) -> Result<Option<Entries>, Failure> {
        let Some(from) = self.from else {
            return Ok(None);
        };
        let size = match from > self.begun_at {
            true => usize::MAX,
            false => self.size,
        };
        let page = client.entries_from(from, size).await?;
        self.from = page.next_version();
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stonecast::{Durability, Server, local};

    use super::*;

    /// Needs the last page: a list that follows the writer has no end.
    #[test]
    fn a_list_ends_and_misses_nothing_if_every_key_is_stored_again_after_each_page() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::builder(folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20);
        let server = server.serve().unwrap();
        let connection = local::connect(&server.address().to_string()).unwrap();
        let keys: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
        let listed = connection.run(async |client| {
            let client = client.store().expect("a server");
            let store_all = async || {
                for key in &keys {
                    client.put(key, b"v").await.unwrap();
                }
            };
            store_all().await;
            let mut pages = Pages::of(client, 10).await.unwrap();
            let (mut listed, mut batch) = (BTreeSet::new(), Vec::new());
            for _ in 0..3 {
                let Some(mut page) = pages.next(client).await.unwrap() else {
                    return listed;
                };
                store_all().await;
                loop {
                    page.next(client, &mut batch).await.unwrap();
                    if batch.is_empty() {
                        break;
                    }
                    listed.extend(batch.iter().map(|entry| entry.key.clone()));
                }
            }
            assert!(pages.next(client).await.unwrap().is_none(), "it goes on");
            listed
        });
        assert_eq!(listed.len(), keys.len());
    }
}
