//! The answers of the nodes of a cluster, for `cluster status --ask`.

use std::time::Duration;

use serde::Serialize;
use stonecast::{Connector, ErrorKind};
use stonecast_cluster::{Configuration, NodeName};
use stonecast_kv::StoreError;

/// The time for a node to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The answer of a node.
#[derive(Serialize)]
pub struct Asked {
    /// The node.
    pub name: NodeName,
    /// Whether the node answered.
    pub answers: bool,
    /// The reason why the node did not answer, or was not asked.
    pub trouble: Option<String>,
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
        Asked {
            name: name.clone(),
            answers: heard.is_ok(),
            trouble: heard.err(),
        }
    });
    asked.collect()
}

/// Whether a node answers. A node refuses a client that does not know its terms, and has answered then.
fn ask(address: &str) -> Result<(), stonecast::Error> {
    let connector = Connector::new(address)?.connect_timeout(LIMIT);
    match connector.connect_blocking() {
        Ok(client) => client.close(),
        Err(error) if is_refusal_of_term(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_refusal_of_term(error: &stonecast::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Store(StoreError::NotPrimary { .. })
    )
}

/// The answers as lines of the screen.
pub fn lines(asked: &[Asked]) -> Vec<String> {
    let line = |one: &Asked| match &one.trouble {
        None => format!("{} answers", one.name),
        Some(trouble) => format!("{} does not answer: {trouble}", one.name),
    };
    asked.iter().map(line).collect()
}
