//! The needs of a cluster, in sentences.

use std::fmt::Display;

use stonecast_cluster::{Configuration, Need, Placement};

/// The name of a need for programs.
pub fn name(need: &Need) -> &'static str {
    match need {
        Need::WritesRefused { .. } => "writes-refused",
        Need::Nodes { .. } => "nodes",
        Need::Placing => "placing",
        Need::Copies { .. } => "copies",
        Need::Filling { .. } => "filling",
        Need::Leaving { .. } => "leaving",
        Need::Drained { .. } => "drained",
        Need::Spares { .. } => "spares",
    }
}

/// A need, and the steps that end it.
pub fn sentence(need: &Need, configuration: &Configuration) -> String {
    let policy = &configuration.policy;
    match need {
        Need::WritesRefused { groups, fewest } => format!(
            "{} no writes: {fewest} in sync, and writes need {}. More copies have to be filled.",
            counted(*groups, "shard takes", "shards take"),
            policy.min_copies
        ),
        Need::Nodes { missing } => format!(
            "{} to register: the shards are placed once {} there.",
            counted(*missing, "more node has", "more nodes have"),
            counted(policy.replicas.into(), "node is", "nodes are")
        ),
        Need::Placing => {
            "Enough nodes are registered: the next node that registers places the shards."
                .to_owned()
        }
        Need::Copies { groups, spares } => {
            let lacking = counted(*groups, "shard lacks", "shards lack");
            match spares.first() {
                None => format!(
                    "{lacking} copies, and no spare is registered: start another node. `stonecast cluster remove NODE` takes a \
                     node out that is gone for good, and fills other members in its place."
                ),
                Some(first) => format!(
                    "{lacking} copies, and {} none: `stonecast cluster add {first}` fills them there.",
                    spare(spares)
                ),
            }
        }
        Need::Filling { copies } => format!(
            "{} being filled. A copy counts once its primary says that the copy has everything.",
            counted(*copies, "copy is", "copies are")
        ),
        Need::Leaving { copies } => format!(
            "{} once as many others as the shard has copies are in sync.",
            counted(*copies, "copy goes", "copies go")
        ),
        Need::Drained { nodes } => format!(
            "{} drained: `stonecast cluster remove {}`.",
            counted_names(nodes),
            nodes[0]
        ),
        Need::Spares { nodes } => format!(
            "{} no copies: `stonecast cluster add {}` moves a share of them there.",
            spare(nodes),
            nodes[0]
        ),
    }
}

fn spare(names: &[impl Display]) -> String {
    let verb = if names.len() == 1 { "keeps" } else { "keep" };
    format!("{} {verb}", list(names))
}

fn counted_names(names: &[impl Display]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(names))
}

/// Names with commas between them.
pub fn list(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

/// The ranges of shards, and the back-ends by name.
pub fn subjects(placement: &Placement<'_>) -> String {
    let ranges = placement
        .shards
        .iter()
        .map(|range| match range.clone().count() {
            1 => range.start().to_string(),
            _ => format!("{}-{}", range.start(), range.end()),
        });
    let back_ends = placement
        .back_ends
        .iter()
        .map(|name| format!("back-end {name}"));
    list(ranges.chain(back_ends))
}

/// Names with `or` between them.
pub fn list_or(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(" or ")
}

/// A number, and the word for one or for several.
pub fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
