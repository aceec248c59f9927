//! The answers of the nodes of a cluster, for `cluster status --ask`.

use std::time::Duration;

use serde::Serialize;
use stonecast::metrics::CopyOfShard;
use stonecast::{Connector, Metrics};
use stonecast_cluster::{Configuration, Group, NodeName};

use super::copies::{self, CopyReport};
use super::words;
use crate::copying::CopyingReport;
use crate::flags::VerbsFlags;

/// The time for a node to accept the connection, and then to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The answer of a node.
#[derive(Serialize)]
pub struct Asked {
    /// The node.
    pub name: NodeName,
    /// Whether the node answered.
    pub answers: bool,
    /// Whether the node has an address that this command reaches.
    #[serde(skip)]
    pub is_asked: bool,
    /// The reason why the node did not answer, or was not asked.
    pub trouble: Option<String>,
    /// The node's own report about its copies.
    pub copying: Option<CopyingReport>,
    /// The copies of the shards whose primary the node is.
    pub copies: Vec<CopyReport>,
}

/// Asks each node of `configuration`, one after the other: over shared memory if the node has such an address, and over
/// RDMA with the key file of `verbs`.
pub fn ask_all(configuration: &Configuration, verbs: &VerbsFlags) -> Vec<Asked> {
    let lease_ns = configuration.policy.lease.duration_ns;
    let nodes = configuration.nodes.iter();
    let asked = nodes.map(|(name, node)| {
        let address = reached(&node.addresses, verbs);
        let heard = match address {
            Some(address) => ask(address, verbs).map_err(|error| error.to_string()),
            None => Err(not_asked(&node.addresses)),
        };
        let (metrics, copies, trouble) = match heard {
            Ok((metrics, copies)) => (Some(metrics), copies, None),
            Err(trouble) => (None, Vec::new(), Some(trouble)),
        };
        let copies = copies.into_iter();
        Asked {
            name: name.clone(),
            answers: metrics.is_some(),
            is_asked: address.is_some(),
            copying: metrics.and_then(|metrics| CopyingReport::of(&metrics.copying)),
            copies: copies.map(|copy| CopyReport::of(copy, lease_ns)).collect(),
            trouble,
        }
    });
    asked.collect()
}

/// The address at which a node with these addresses is asked.
fn reached<'a>(addresses: &'a [String], verbs: &VerbsFlags) -> Option<&'a str> {
    let first = |form: &str| addresses.iter().find(|address| address.starts_with(form));
    let over_rdma = first("verbs:").filter(|_| verbs.keys.is_some());
    first("shm:").or(over_rdma).map(String::as_str)
}

fn not_asked(addresses: &[String]) -> String {
    match addresses
        .iter()
        .any(|address| address.starts_with("verbs:"))
    {
        true => "not asked: it is reached over RDMA, with the key file of its clients: --keys FILE",
        false => "not asked: it has no address on this host",
    }
    .to_owned()
}

/// The counts of the node at `address`, and the copies of its shards.
fn ask(address: &str, verbs: &VerbsFlags) -> Result<(Metrics, Vec<CopyOfShard>), stonecast::Error> {
    let connector = Connector::new(address)?
        .connect_timeout(LIMIT)
        .operation_timeout(Some(LIMIT));
    let observer = verbs.applied_to(connector).observe()?;
    Ok((observer.metrics()?, observer.copies()?))
}

/// The answers as lines of the screen, then the shards without a node that answers, the copies that lag, and the copies
/// that are filled.
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
    let copies = copies::lines(configuration, asked);
    asked
        .iter()
        .map(line)
        .chain(unserved)
        .chain(copies)
        .collect()
}

/// Whether a node with a copy in sync of `group` answered, or was not asked because this command does not reach it.
pub fn is_served(group: &Group, asked: &[Asked]) -> bool {
    let may_serve = |one: &Asked| one.answers || !one.is_asked;
    asked
        .iter()
        .any(|one| group.in_sync.contains(&one.name) && may_serve(one))
}
