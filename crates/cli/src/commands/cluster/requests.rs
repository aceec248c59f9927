//! `cluster add`, `drain`, `remove` and `move`: requests to the nodes of a cluster.
//!
//! A request is a change of the configuration. The nodes act on it, and the command waits until they are done, and
//! shows their progress. A command that is ended meanwhile takes nothing back.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use stonecast_cluster::{ChangeError, Configuration, NodeName, Refusal, Subject, change};

use super::store::{OpenStore, StoreFlags, outcome_unknown, unanswered, unreadable, writer};
use crate::failure::Failure;
use crate::flags::OutputFlags;
use crate::output::{self, say};

/// Lets a node take copies: its share of them, and first those that are missing.
///
/// The primaries fill the copies; copies elsewhere go once the new ones are complete. A drain of the node ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast cluster add d --config-store file:./cluster")]
pub struct Add {
    #[command(flatten)]
    pub of: NodeFlags,
}

/// Moves all copies of a node to other nodes.
///
/// Each copy stays until another one is complete. After the last copy has gone, `cluster remove` takes the node out.
/// Refused unless as many other members are there as each shard has copies.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: before a host is taken away
  stonecast cluster drain a --config-store file:./cluster
  stonecast cluster status --config-store file:./cluster
  stonecast cluster remove a --config-store file:./cluster")]
pub struct Drain {
    #[command(flatten)]
    pub of: NodeFlags,
}

/// Takes a node out of the cluster at once, with all of its copies.
///
/// The node need not be running. Other members are filled in its place, if there are any. Refused if a shard would have
/// fewer copies in sync than writes need: drain the node instead. A node that starts again after that is a new one.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a host that is gone for good
  stonecast cluster remove a --config-store file:./cluster")]
pub struct Remove {
    #[command(flatten)]
    pub of: NodeFlags,
}

/// Moves a copy of one shard to a node.
///
/// The copy that goes stays until the new one is complete. A shard that lacks copies gives none away unless --from says
/// so.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: away from the node that keeps most, and away from a node by name
  stonecast cluster move 17 --to d --config-store file:./cluster
  stonecast cluster move 17 --from a --to d --config-store file:./cluster")]
pub struct Move {
    /// Number of the shard, from 0.
    pub shard: u32,
    /// Node that gets the copy, a member.
    #[arg(long, value_name = "NODE")]
    pub to: NodeName,
    /// Node whose copy goes [default: the one that keeps most].
    #[arg(long, value_name = "NODE")]
    pub from: Option<NodeName>,
    #[command(flatten)]
    pub store: StoreFlags,
    /// Ends when the request stands in the configuration, and does not wait until the copies have moved.
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// The flags of a request about a node.
#[derive(Debug, Args)]
pub struct NodeFlags {
    /// Name of the node.
    pub node: NodeName,
    #[command(flatten)]
    pub store: StoreFlags,
    /// Ends when the request stands in the configuration, and does not wait until the copies have moved.
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report {
    epoch: u64,
    /// Copies that are being filled, including those of earlier requests.
    joining: usize,
    /// Copies that go once others are complete.
    leaving: usize,
}

/// Requests copies for a node.
pub fn add(flags: &Add) -> Result<(), Failure> {
    let of = &flags.of;
    let asked = ask(&of.store, |present| present.add(&of.node))?;
    of.end(&asked, "takes copies")
}

/// Requests that a node give all of its copies away.
pub fn drain(flags: &Drain) -> Result<(), Failure> {
    let of = &flags.of;
    let asked = ask(&of.store, |present| present.drain(&of.node))?;
    of.end(&asked, "drains")
}

/// Takes a node out of the configuration.
pub fn remove(flags: &Remove) -> Result<(), Failure> {
    let of = &flags.of;
    let asked = ask(&of.store, |present| present.dismiss(&of.node))?;
    of.end(&asked, "is removed")
}

/// Requests that a copy of a shard move to another node.
pub fn move_shard(flags: &Move) -> Result<(), Failure> {
    let Move {
        shard, to, from, ..
    } = flags;
    let open = OpenStore::open(&flags.store)?;
    let subject = subject_of(&open.read()?, *shard)?;
    let asked = ask(&flags.store, |present| {
        present.move_copy(&subject, from.as_ref(), to)
    })?;
    report(
        flags.output.json,
        &asked,
        &format!("shard {shard} moves to {to}"),
    )?;
    match flags.no_wait {
        true => Ok(()),
        false => await_moves(&open, &BTreeSet::from([*shard as usize]), flags.output.json),
    }
}

impl NodeFlags {
    /// Prints that the request was made, and waits until the copies have moved.
    fn end(&self, asked: &Configuration, done: &str) -> Result<(), Failure> {
        report(self.output.json, asked, &format!("{} {done}", self.node))?;
        if self.no_wait {
            return Ok(());
        }
        let moving = asked.groups.iter().enumerate();
        let moving =
            moving.filter(|(_, group)| !group.joining.is_empty() || !group.leaving.is_empty());
        let moving = moving.map(|(number, _)| number).collect();
        await_moves(&OpenStore::open(&self.store)?, &moving, self.output.json)
    }
}

/// Pause between two looks at the configuration.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until no copy of the groups `of` comes or goes. Prints each change of what is left, to stderr.
fn await_moves(open: &OpenStore, of: &BTreeSet<usize>, is_quiet: bool) -> Result<(), Failure> {
    let mut before = None;
    loop {
        let present = open.read()?;
        let groups = present.groups.iter().enumerate();
        let groups = groups.filter(|(number, _)| of.contains(number));
        let (joining, leaving) = groups.fold((0, 0), |(joining, leaving), (_, group)| {
            (joining + group.joining.len(), leaving + group.leaving.len())
        });
        if (joining, leaving) == (0, 0) {
            return Ok(());
        }
        if before != Some((joining, leaving)) && !is_quiet {
            say(format_args!(
                "copies that nodes have to fill: {joining}; copies that go once others are complete: {leaving}"
            ));
        }
        before = Some((joining, leaving));
        sleep(LOOK);
    }
}

/// The keys of shard `number`.
fn subject_of(present: &Configuration, number: u32) -> Result<Subject, Failure> {
    let shards = present.policy.shards;
    let group = present.groups.get(number as usize);
    match group.map(|group| &group.subject) {
        Some(subject @ Subject::Keys(_)) => Ok(subject.clone()),
        _ if number < shards => Err(Failure::operation(
            "the shards are not placed yet: `stonecast cluster status` says what is missing",
        )),
        _ => Err(Failure::operation(format!(
            "there is no shard {number}: the shards are 0 to {}",
            shards.saturating_sub(1)
        ))),
    }
}

/// Changes the configuration in the store, and returns the new one.
fn ask(
    flags: &StoreFlags,
    request: impl Fn(&Configuration) -> Result<Configuration, Refusal>,
) -> Result<Configuration, Failure> {
    let open = OpenStore::open(flags)?;
    let nonce = open.read()?.nonce;
    let (mut writer, runtime) = (writer()?, open.executor.runtime());
    let decide = |present: &Configuration| request(present).map(Some);
    let changed = change(&*open.store, &runtime, &mut writer, nonce, decide);
    open.executor.block_on(changed).map_err(failure)
}

fn failure(error: ChangeError) -> Failure {
    match &error {
        ChangeError::Document { store, error } => unreadable(store, error),
        ChangeError::Store {
            error, is_unknown, ..
        } if *is_unknown => outcome_unknown(error),
        ChangeError::Store { error, .. } => unanswered(error),
        _ => Failure::operation(error.to_string()),
    }
}

fn report(json: bool, asked: &Configuration, done: &str) -> Result<(), Failure> {
    let report = Report {
        epoch: asked.epoch.0,
        joining: asked.groups.iter().map(|group| group.joining.len()).sum(),
        leaving: asked.groups.iter().map(|group| group.leaving.len()).sum(),
    };
    let done = format!("{done} from epoch {} on", report.epoch);
    if json {
        return output::report(&report, &done);
    }
    let next = match (report.joining, report.leaving) {
        (0, 0) => "No copy moves.".to_owned(),
        (joining, leaving) => format!(
            "Copies that nodes have to fill: {joining}. Copies that go once others are complete: {leaving}. `stonecast cluster \
             status` shows how far they are."
        ),
    };
    output::bytes(format!("{done}\n{next}\n").as_bytes()).map_err(|failure| failure.after(&done))
}
