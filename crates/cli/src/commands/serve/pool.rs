//! The pool of a server, as the operator requests the pool and as messages describe it.

use std::time::Instant;

use stonecast::server::{Builder, Clients, Opening, PoolDescription};
use stonecast::{Durability, ErrorKind, PersistenceDomain, Server};
use stonecast_kv::RecoveryReport;
use tracing::{info, warn};

use super::arguments::{ClientsArgument, PlatformArgument};
use super::settings::Serving;
use crate::failure::Failure;
use crate::flags::DurabilityArgument;
use crate::output::size;
use crate::values::Size;

/// The library's builder, with everything that the command line sets.
pub fn builder(serving: &Serving, accepts_copy: bool) -> Builder {
    let mut builder = Server::builder(&serving.data)
        .places(serving.places)
        .clients(match serving.clients {
            ClientsArgument::Trusted => Clients::Trusted,
            ClientsArgument::Publishing => Clients::Publishing,
            ClientsArgument::Copying => Clients::Copying,
        });
    if let Some(durability) = serving.durability {
        builder = builder.durability(match durability {
            DurabilityArgument::Power => Durability::Power,
            DurabilityArgument::Process => Durability::Process,
        });
    }
    if let Some(platform) = serving.platform {
        builder = builder.platform(match platform {
            PlatformArgument::PageFile => PersistenceDomain::PageFile,
            PlatformArgument::Dmp => PersistenceDomain::Dmp,
            PlatformArgument::Mhp => PersistenceDomain::Mhp,
            PlatformArgument::Wsp => PersistenceDomain::Wsp,
        });
    }
    if let Some(Size(capacity)) = serving.capacity {
        builder = builder.capacity(capacity);
    }
    if let Some(Size(segment_size)) = serving.segment_size {
        builder = builder.segment_size(segment_size);
    }
    if let Some(shards) = serving.shards {
        builder = builder.shards(shards);
    }
    if let Some(cluster) = &serving.cluster {
        builder = builder.cluster(cluster);
    }
    if let Some(node) = &serving.node {
        builder = builder.node(node);
    }
    if let Some(zone) = &serving.zone {
        builder = builder.zone(zone);
    }
    if accepts_copy {
        builder = builder.accept_copy();
    }
    for address in &serving.listen {
        builder = builder.listen(address.clone());
    }
    builder
}

/// The failure to open a server, in the words of the command line.
pub fn refused(error: stonecast::Error) -> Failure {
    match error.kind() {
        ErrorKind::OtherSetting {
            data,
            setting,
            has,
            asked,
        } => {
            let shown = |text: &str| text.parse().map_or(text.to_owned(), size);
            let remedy = match *setting {
                "capacity" => "change its capacity with `stonecast grow`",
                _ => "export the pool into a new one",
            };
            Failure::operation(format!(
                "{} was created with --{setting} {}, not {}; leave the flag out, or {remedy}",
                data.display(),
                shown(has),
                shown(asked)
            ))
        }
        ErrorKind::TooSmall {
            capacity,
            segment_size,
            segments,
        } => Failure::operation(format!(
            "--capacity {} is too small: a pool has at least {segments} segments, {} each (--segment-size)",
            Size(*capacity),
            Size(*segment_size)
        )),
        _ => error.into(),
    }
}

/// Tells which pool is about to be opened. Opening takes time if the pool's log is scanned.
pub fn tell_opening(pool: &PoolDescription) {
    if !pool.is_new {
        info!("opening {}", described(pool));
    }
}

/// Reports the result of the opening, which began at `start`.
pub fn tell_opened(opening: &Opening, start: Instant) {
    if opening.pool.is_new {
        info!("created {}", described(&opening.pool));
    }
    for repair in &opening.repairs {
        warn!("repaired: {}", repair.corruption);
    }
    tell_recovery(&opening.recovery, start);
}

/// Place, capacity and promise of a pool.
fn described(pool: &PoolDescription) -> String {
    let survives = match pool.durability {
        Durability::Power => "acknowledged writes survive power loss",
        Durability::Process => {
            "acknowledged writes survive the death of every process, not power loss"
        }
    };
    format!(
        "pool {}: {}, durability {} ({survives})",
        pool.data.display(),
        size(pool.capacity),
        pool.durability
    )
}

fn tell_recovery(report: &RecoveryReport, start: Instant) {
    report
        .repairs
        .iter()
        .for_each(|damage| warn!("not used: {damage}"));
    if report.lost > 0 {
        warn!(
            records = report.lost,
            "{} records were lost with the power, as --durability process allows", report.lost
        );
    }
    if report.torn_tails > 0 {
        info!(
            segments = report.torn_tails,
            "{} segments end in writes that were never acknowledged; they are left out",
            report.torn_tails
        );
    }
    if report.lacks_checkpoint {
        warn!(
            "the pool was closed without a checkpoint, because its medium had no room: the log was scanned"
        );
    }
    let how = if report.used_checkpoint {
        " and a checkpoint"
    } else {
        ""
    };
    let seconds = start.elapsed().as_secs_f64();
    let scanned = size(report.bytes_scanned);
    info!(
        seconds,
        keys = report.keys,
        bytes_scanned = report.bytes_scanned,
        "opened in {seconds:.2} s: {} keys, from {scanned} of log{how}",
        report.keys
    );
}
