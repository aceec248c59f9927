//! `bench serve-published`: serves one of the published designs, for `bench figure erda-shm`.

use stonecast_bench::erda::{PublishedStore, serve_published};

use super::serve::{end_with, write_ready_file};
use crate::arguments::ServePublished;
use crate::failure::Failure;

/// See the module documentation.
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
