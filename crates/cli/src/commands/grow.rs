//! `grow`: gives a closed pool a larger capacity.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use stonecast_media::{Growth, Pool, open_backing};

use crate::failure::Failure;
use crate::output::{self, size};
use crate::values::Size;

/// Gives a closed pool a larger capacity, in place.
///
/// No key is read or moved, so the size of the pool costs no time, and a crash leaves a pool of the old capacity or of
/// the new one. The new space is taken from the disk as keys need it. End the server first, in order, and start it
/// afterwards; a server that names --capacity must name the new one. Pools on devices, of nodes of a cluster and of
/// data structures do not grow.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  systemctl stop stonecast
  stonecast grow /srv/stonecast --capacity 64GiB
  systemctl start stonecast")]
pub struct Grow {
    /// Folder of the pool.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// New size of the pool, a multiple of its segment size; nothing is done if the pool has it.
    #[arg(long, value_name = "SIZE")]
    pub capacity: Size,
    /// Prints {"from":..,"to":..,"segments":..} to stdout, sizes in bytes.
    #[arg(long)]
    pub json: bool,
}

/// The capacities before and after, in bytes, and the segments afterwards.
#[derive(Serialize)]
struct Report {
    from: u64,
    to: u64,
    segments: u64,
}

/// Grows a pool.
pub fn run(flags: &Grow) -> Result<(), Failure> {
    let Size(capacity) = flags.capacity;
    let backing = open_backing(&flags.data)?;
    let Growth {
        from,
        to,
        segment_size,
    } = Pool::grow(&*backing, capacity)?;
    let report = Report {
        from,
        to,
        segments: to / segment_size,
    };
    let what = match from == to {
        true => format!("{} has {} already", flags.data.display(), size(to)),
        false => format!(
            "{} has grown from {} to {}",
            flags.data.display(),
            size(from),
            size(to)
        ),
    };
    match flags.json {
        true => output::report(&report, format_args!("{what}")),
        false => {
            output::say(format_args!("{what}"));
            Ok(())
        }
    }
}
