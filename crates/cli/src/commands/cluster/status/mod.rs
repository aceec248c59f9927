//! `cluster status`: the state of a cluster, on one screen or as JSON.

mod asked;
mod copies;
mod report;
mod text;
mod words;

use clap::Args;

use super::store::{OpenStore, StoreFlags};
use crate::failure::Failure;
use crate::flags::{OutputFlags, VerbsFlags};
use crate::output;

/// Shows the state of a cluster: its nodes, the copies of its shards, what a write survives, and what to do next.
///
/// The configuration tells the state: a node that failed a moment ago is shown until another one has removed it. With
/// --ask the nodes say themselves whether they are there.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: for people, and the names of the nodes for programs
  stonecast cluster status --config-store file:./cluster
  stonecast cluster status --config-store file:./cluster --json | jq -r '.nodes[].name'")]
pub struct Status {
    #[command(flatten)]
    pub store: StoreFlags,
    /// Also asks each node whether it answers, which copies lag, and how far moves are; takes up to 4 seconds for each
    /// node that is silent. Nodes at verbs: addresses are asked with --keys.
    #[arg(long)]
    pub ask: bool,
    #[command(flatten)]
    pub verbs: VerbsFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Prints the state of the cluster.
pub fn run(flags: &Status) -> Result<(), Failure> {
    let open = OpenStore::open(&flags.store)?;
    let configuration = open.read()?;
    let store = open.store.name();
    let asked = flags
        .ask
        .then(|| asked::ask_all(&configuration, &flags.verbs));
    if flags.output.json {
        output::json(&report::Report::of(store, &configuration, asked))
    } else {
        let asked = asked
            .as_deref()
            .map(|asked| asked::lines(&configuration, asked));
        output::bytes(text::screen(store, &configuration, asked).as_bytes())
    }
}
