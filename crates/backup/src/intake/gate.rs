//! The gate: nodes that may append here, and requests that wait.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_cluster::{NodeName, Nonce};
use stonecast_fabric::ConnectionRequest;

use crate::hello::{Hello, Unheard};

/// The reason why a hello is refused, in words for the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Refusal {
    #[error(transparent)]
    Unheard(#[from] Unheard),
    #[error("node {node} belongs to the cluster {found}, and this backup to {nonce}")]
    OtherCluster {
        node: NodeName,
        found: Nonce,
        nonce: Nonce,
    },
    #[error("node {node} may not append here: it is fenced, or no node of the cluster")]
    NotAllowed { node: NodeName },
    #[error(
        "this backup has {limit} sessions, and takes no more; raise the limit or wait until one has ended"
    )]
    TooMany { limit: usize },
    #[error(
        "an earlier session of node {node} may still write here; it is asked again until its process is gone"
    )]
    Doubtful { node: NodeName },
    #[error("node {node} has connected again")]
    ConnectedAgain { node: NodeName },
}

/// The nodes that may append, and one waiting request for each node.
pub(super) struct Gate {
    nonce: Nonce,
    allowed: BTreeSet<NodeName>,
    /// Requests of peers whose earlier session has to end first, one for each peer.
    pending: BTreeMap<NodeName, ConnectionRequest>,
    connections: u64,
}

impl Gate {
    pub fn new(nonce: Nonce) -> Self {
        Self {
            nonce,
            allowed: BTreeSet::new(),
            pending: BTreeMap::new(),
            connections: 0,
        }
    }

    pub fn allow(&mut self, peer: NodeName) {
        self.allowed.insert(peer);
    }

    /// Refuses a peer from here on. Returns its request that waited.
    pub fn refuse(&mut self, peer: &NodeName) -> Option<ConnectionRequest> {
        self.allowed.remove(peer);
        self.pending.remove(peer)
    }

    /// Refuses all peers from here on. Returns the requests that waited.
    pub fn shut(&mut self) -> Vec<ConnectionRequest> {
        self.allowed.clear();
        std::mem::take(&mut self.pending).into_values().collect()
    }

    /// The node that says hello, if it may append.
    pub fn judge(&self, said: &[u8]) -> Result<NodeName, Refusal> {
        let Hello { nonce, node } = Hello::hear(said)?;
        if nonce != self.nonce {
            let (found, nonce) = (nonce, self.nonce);
            return Err(Refusal::OtherCluster { node, found, nonce });
        }
        match self.allowed.contains(&node) {
            true => Ok(node),
            false => Err(Refusal::NotAllowed { node }),
        }
    }

    /// Keeps a request until the peer's session has ended. Returns the request that this one
    /// replaces.
    pub fn keep(
        &mut self,
        peer: NodeName,
        request: ConnectionRequest,
    ) -> Option<ConnectionRequest> {
        self.pending.insert(peer, request)
    }

    /// The request of a peer whose session has ended.
    pub fn take(&mut self, peer: &NodeName) -> Option<ConnectionRequest> {
        self.pending.remove(peer)
    }

    /// The last number that a connection got.
    pub fn newest(&self) -> u64 {
        self.connections
    }

    /// Gives a number to a connection. The first number of each run is 1.
    pub fn number(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }
}
