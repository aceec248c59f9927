//! `structures promote`, `structures detach`, and the state of a mirror for people and programs.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use stonecast::Connector;
use stonecast::structures::{self, MirrorStat, StoreStat};
use stonecast_fabric_shm::ShmOptions;

use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::flags::Connection;
use crate::output;
use crate::values::Period;

/// Makes a mirror the back-end, once the lease of the old back-end is over (`serve --structures-mirror-lease`). It has
/// everything that the old back-end has acknowledged.
///
/// The old back-end serves no more. It may be started as the mirror of the new one. A server that is the back-end
/// already stays one.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: the back-end is gone, and its mirror takes its place
  stonecast structures promote --connect verbs:10.0.0.2:7171 --keys keys")]
pub struct Promote {
    /// Time limit. A mirror whose back-end lives is not promoted.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    within: Period,
    /// Prints {"generation":..}.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Lets a pool that nobody serves go on without its mirror.
///
/// With the store of a standing record (`serve --structures-cluster`), the record decides: a detachment is refused if
/// the mirror was promoted, and otherwise the mirror never is.
///
/// Without one, a detachment states that the mirror was not promoted and never will be, because its memory is
/// destroyed. Nothing can check that. If the statement is false, there are two back-ends, and each lacks what the other
/// acknowledges. If the mirror is only stopped or unreachable, bring it back, or promote it instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: the machine of the mirror has burned; the same with a standing record
  stonecast structures detach /srv/structures --mirror-is-destroyed
  stonecast structures detach /srv/structures --structures-cluster etcd://10.0.0.3:2379/structures")]
pub struct Detach {
    /// Folder of the pool, or device of persistent memory.
    data: PathBuf,
    /// States that the memory of the mirror is destroyed, and that the mirror was not promoted. A standing record needs
    /// the statement only if it is lost itself.
    #[arg(long, required_unless_present = "structures_cluster")]
    mirror_is_destroyed: bool,
    /// Store of the standing record, as for `serve`.
    #[arg(long, value_name = "URL", env = "STONECAST_STRUCTURES_CLUSTER")]
    structures_cluster: Option<String>,
    /// Prints {"generation":..}.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Done {
    generation: u64,
}

pub fn promote(flags: &Promote) -> Result<(), Failure> {
    let Connection { address, verbs } = &flags.connection;
    let device = DeviceSettings::of(address, ShmOptions::default(), verbs)?.open(None)?;
    let connector = Connector::to(address.clone());
    let generation = structures::promote_over(device, connector, flags.within.0)?;
    tell(
        flags.json,
        generation,
        &format!("{address} is the back-end of generation {generation}"),
    )
}

pub fn detach(flags: &Detach) -> Result<(), Failure> {
    let generation = match &flags.structures_cluster {
        Some(store) => structures::detach_recorded(&flags.data, store, flags.mirror_is_destroyed)?,
        None => structures::detach(&flags.data)?,
    };
    let data = flags.data.display();
    tell(
        flags.json,
        generation,
        &format!("{data} has no mirror, and is of generation {generation}"),
    )
}

fn tell(json: bool, generation: u64, words: &str) -> Result<(), Failure> {
    match json {
        true => output::json(&Done { generation }),
        false => {
            output::say(words);
            Ok(())
        }
    }
}

/// Whether the mirror of a back-end has everything; `None`: the back-end has no mirror.
pub fn state_of(mirror: &MirrorStat) -> Option<&'static str> {
    mirror.exists().then_some(match mirror.bytes_to_copy {
        0 if mirror.is_bound => "whole",
        0 => "unbound",
        _ => "copying",
    })
}

/// The mirror as `--json` prints it.
#[derive(Serialize)]
pub struct MirrorReport {
    state: &'static str,
    generation: u64,
    bytes_to_copy: u64,
    batches_under_way: u64,
    silent_ns: u64,
    store: &'static str,
}

/// The store of the standing record in a word.
fn store_of(mirror: &MirrorStat) -> &'static str {
    match mirror.store {
        StoreStat::None => "none",
        StoreStat::Reached => "reached",
        StoreStat::Waiting => "waiting",
    }
}

impl MirrorReport {
    /// The mirror of a back-end, if it has one.
    pub fn of(mirror: &MirrorStat) -> Option<Self> {
        Some(Self {
            state: state_of(mirror)?,
            generation: mirror.generation,
            bytes_to_copy: mirror.bytes_to_copy,
            batches_under_way: mirror.batches_under_way,
            silent_ns: mirror.silent_ns,
            store: store_of(mirror),
        })
    }

    /// The mirror as the admin port tells it; `None`: there is none.
    pub fn told(mirror: &Value) -> Option<Self> {
        let number = |name: &str| mirror[name].as_u64().unwrap_or(0);
        Self::of(&MirrorStat {
            generation: number("generation"),
            bytes_to_copy: number("bytes_to_copy"),
            batches_under_way: number("batches_under_way"),
            silent_ns: number("silent_ns"),
            is_bound: mirror["is_bound"].as_bool().unwrap_or(false),
            store: match mirror["store"].as_str() {
                Some("reached") => StoreStat::Reached,
                Some("waiting") => StoreStat::Waiting,
                _ => StoreStat::None,
            },
        })
    }

    /// The state of the mirror for human readers.
    pub fn in_words(&self) -> String {
        let state = match self.bytes_to_copy {
            0 => self.state.to_owned(),
            bytes => format!("{} to copy", output::size(bytes)),
        };
        let store = match self.store {
            "none" => "",
            "reached" => ", promotes itself",
            _ => ", waits for the store of the standing record",
        };
        format!(
            "{state}, generation {}, {} batches under way, heard {} ms ago{store}",
            self.generation,
            self.batches_under_way,
            self.silent_ns / 1_000_000
        )
    }
}
