//! `export`: every entry as NDJSON, in the order in which the entries were stored.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use stonecast::Expiry;
use stonecast::local::Client;
use tempfile::NamedTempFile;

use super::import::{Transferred, report};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::progress::Progress;
use crate::session::Session;
use stonecast_console::ndjson;

/// Writes every entry as NDJSON, in the order in which the entries were stored.
///
/// An entry that is stored again moves to the end. A cluster's entries come shard by shard. The form is canonical: an
/// export with unique keys, imported and exported again, has the same bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: to a file (replaced only when all is written; behind a link, the file that it names), and into another program
  stonecast export entries.ndjson
  stonecast export | gzip > entries.ndjson.gz")]
pub struct Export {
    /// The file; stdout if FILE is missing or `-`.
    pub file: Option<PathBuf>,
    /// Prints {"entries":..,"bytes":..,"seconds":..} to stdout at the end; requires FILE.
    #[arg(long, requires = "file")]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The size of one write to the file, in bytes.
const BUFFER_SIZE: usize = 1 << 20;

/// Prints every entry as NDJSON.
pub fn run(flags: &Export) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let start = Instant::now();
    let mut output =
        BufWriter::with_capacity(BUFFER_SIZE, Destination::open(flags.file.as_deref())?);
    let (entries, bytes) = session.run(async |client| write_all(client, &mut output).await)?;
    session.close();
    let output = output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    let to_stdout = matches!(output, Destination::Stdout(_));
    output.finish()?;
    if to_stdout {
        return Ok(());
    }
    report(
        flags.json,
        "exported",
        Transferred {
            entries,
            bytes,
            seconds: start.elapsed().as_secs_f64(),
        },
    )
}

async fn write_all(client: &Client, output: &mut impl Write) -> Result<(u64, u64), Failure> {
    let mut entries = client.entries().await?;
    let progress = Progress::of_count("exporting", Some(entries.len() as u64));
    let mut line = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    loop {
        let batch = entries.next_batch(client).await?;
        if batch.is_empty() {
            return Ok((count, bytes));
        }
        for entry in &batch {
            line.clear();
            let expires = entry.expires.map(Expiry::ms);
            ndjson::write(&mut line, (&entry.key, &entry.value), expires)?;
            output.write_all(&line)?;
            count += 1;
            bytes += line.len() as u64;
        }
        progress.advance(batch.len() as u64);
    }
}

/// The destination of an export. An existing file is replaced once everything is written, so that the file never holds
/// half an export; a pipe or a device is written piece by piece.
pub enum Destination {
    Stdout(io::Stdout),
    Device(fs::File),
    File(NamedTempFile, PathBuf),
}

impl Destination {
    /// Opens the file; stdout if it is missing or `-`.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Self::Stdout(io::stdout()));
        };
        let refuse = |error: io::Error| {
            Failure::operation(format!("cannot write {}: {error}", path.display()))
        };
        // The file behind a link is replaced, and the link stays.
        let path = &match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => fs::canonicalize(path).map_err(refuse)?,
            _ => path.to_owned(),
        };
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return fs::OpenOptions::new()
                .write(true)
                .open(path)
                .map(Self::Device)
                .map_err(refuse);
        }
        let everybody = fs::Permissions::from_mode(0o666);
        let file = tempfile::Builder::new()
            .prefix(".stonecast-partial-")
            .permissions(everybody)
            .tempfile_in(folder_of(path));
        Ok(Self::File(file.map_err(refuse)?, path.to_owned()))
    }

    /// Ends the export once everything is written.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::Device(mut file) => Ok(file.flush()?),
            Self::File(file, path) => {
                let refuse = |error: io::Error| {
                    Failure::operation(format!("cannot write {}: {error}", path.display()))
                };
                file.as_file().sync_all().map_err(refuse)?;
                file.persist(&path).map_err(|error| refuse(error.error))?;
                // Without this sync, a power cut may take the name.
                let folder = fs::File::open(folder_of(&path)).map_err(refuse)?;
                folder.sync_all().map_err(refuse)
            }
        }
    }
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Device(file) => file.write(bytes),
            Self::File(file, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Device(file) => file.flush(),
            Self::File(file, _) => file.flush(),
        }
    }
}
