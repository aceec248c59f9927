//! `serve-published`: serves one of the published designs, for `figure erda-shm`.

use std::path::PathBuf;

use clap::Args;
use stonecast_console::child::{end_with, write_ready_file};
use stonecast_lab::erda::{Design, PublishedStore, serve_published};

use crate::failure::Failure;

/// Serves a published design, for `figure erda-shm`. The server keeps no data.
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "\
Example: the first baseline on memory of a folder, with room for a million writes
  stonecast-lab serve-published redo-logging --keys 1000 --value-size 64 --writes 1000000 --data /dev/shm/redo \\
    --ready-file /dev/shm/redo-ready --exit-with-parent $$"
)]
pub struct ServePublished {
    /// The design.
    #[arg(value_parser = published_design)]
    pub design: Design,
    /// Keys that will be stored.
    #[arg(long)]
    pub keys: u64,
    /// Bytes of a value.
    #[arg(long)]
    pub value_size: usize,
    /// Number of writes after each key was stored once.
    #[arg(long)]
    pub writes: u64,
    /// Folder of the server's memory.
    #[arg(long)]
    pub data: PathBuf,
    /// File that is written when the server listens.
    #[arg(long)]
    pub ready_file: PathBuf,
    /// Process with which the server ends.
    #[arg(long)]
    pub exit_with_parent: i32,
}

fn published_design(name: &str) -> Result<Design, String> {
    let published = Design::ALL
        .into_iter()
        .filter(|design| *design != Design::Kv);
    published
        .clone()
        .find(|design| design.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = published.map(Design::name).collect();
            format!("is one of {}", names.join(", "))
        })
}

/// Serves the design that `flags` name.
pub fn run(flags: &ServePublished) -> Result<(), Failure> {
    end_with(flags.exit_with_parent)?;
    let &ServePublished {
        design,
        keys,
        value_size,
        writes,
        ..
    } = flags;
    let store = PublishedStore {
        design,
        keys,
        value_size,
        writes,
    };
    let address = format!("shm:{}", flags.data.join("socket").display());
    let ready = || {
        write_ready_file(&flags.ready_file)
            .map_err(|failure| std::io::Error::other(failure.to_string()))
    };
    Ok(serve_published(&store, &flags.data, &address, ready)?)
}
