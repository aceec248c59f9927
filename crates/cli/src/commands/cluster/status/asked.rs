//! The answers of the nodes of a cluster, for `cluster status --ask`.

use std::time::Duration;

use serde::Serialize;
use stonecast::{Connector, Metrics};
use stonecast_cluster::{Configuration, Group, NodeName};

use super::words;
use crate::copying::CopyingReport;

/// The time for a node to accept the connection, and then to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The answer of a node.
#[derive(Serialize)]
pub struct Asked {
    /// The node.
    pub name: NodeName,
    /// Whether the node answered.
    pub answers: bool,
    /// Whether the node has an address on this host.
    #[serde(skip)]
    pub is_here: bool,
    /// The reason why the node did not answer, or was not asked.
    pub trouble: Option<String>,
    /// The node's own report about its copies.
    pub copying: Option<CopyingReport>,
}

/// Asks each node of `configuration` at its first address of this host, one after the other.
pub fn ask_all(configuration: &Configuration) -> Vec<Asked> {
    let nodes = configuration.nodes.iter();
    let asked = nodes.map(|(name, node)| {
        let here = node
            .addresses
            .iter()
            .find(|address| address.starts_with("shm:"));
        let heard = match here {
            Some(address) => ask(address).map_err(|error| error.to_string()),
            None => Err("not asked: it has no address on this host".to_owned()),
        };
        let copying = heard.as_ref().ok().map(|metrics| &metrics.copying);
        Asked {
            name: name.clone(),
            answers: heard.is_ok(),
            is_here: here.is_some(),
            copying: copying.and_then(CopyingReport::of),
            trouble: heard.err(),
        }
    });
    asked.collect()
}

/// The counts of the node at `address`.
fn ask(address: &str) -> Result<Metrics, stonecast::Error> {
    let connector = Connector::new(address)?
        .connect_timeout(LIMIT)
        .operation_timeout(Some(LIMIT));
    connector.observe()?.metrics()
}

/// The answers as lines of the screen, and then the shards without a node that answers.
pub fn lines(configuration: &Configuration, asked: &[Asked]) -> Vec<String> {
    let line = |one: &Asked| match (&one.trouble, &one.copying) {
        (None, None) => format!("{} answers", one.name),
        (None, Some(copying)) => format!("{} {}", one.name, copying.words()),
        (Some(trouble), _) => format!("{} does not answer: {trouble}", one.name),
    };
    let overview = configuration.overview();
    let unserved = overview
        .placements
        .iter()
        .filter(|placement| placement.shard_count() > 0 && !is_served(placement.group, asked));
    let unserved = unserved.map(|placement| {
        format!(
            "shards {}: no node with a copy in sync answers, so their keys are neither read nor written. Start {} with the pool that it had; the other shards go on.",
            words::subjects(placement),
            words::list_or(&placement.group.in_sync)
        )
    });
    asked.iter().map(line).chain(unserved).collect()
}

/// Whether a node with a copy in sync of `group` answered, or was not asked because it is on another host.
pub fn is_served(group: &Group, asked: &[Asked]) -> bool {
    let may_serve = |one: &Asked| one.answers || !one.is_here;
    asked
        .iter()
        .any(|one| group.in_sync.contains(&one.name) && may_serve(one))
}
