//! The time since each peer last answered, and the peers whose process is gone.
//!
//! Time counts only while this node runs: a node that was stopped has heard no peer during the stop, which proves
//! nothing about the peers. A pause therefore counts as little more than one round.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::NodeName;

/// The time since each peer last answered, counted while this node runs.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    /// Time since each peer answered.
    peers: BTreeMap<NodeName, Nanoseconds>,
    /// Starts of peers whose process is gone, by their incarnations.
    dead: BTreeMap<NodeName, u64>,
    counted_until: Nanoseconds,
}

impl Silence {
    pub fn new(now: Nanoseconds) -> Self {
        Self {
            peers: BTreeMap::new(),
            dead: BTreeMap::new(),
            counted_until: now,
        }
    }

    /// Sets the peers. A new peer counts as heard.
    pub fn watch(&mut self, peers: BTreeSet<NodeName>) {
        self.peers.retain(|peer, _| peers.contains(peer));
        self.dead.retain(|peer, _| peers.contains(peer));
        for peer in peers {
            self.peers.entry(peer).or_insert(0);
        }
    }

    /// Counts the time until `now`, but at most `pause_max`: time beyond that passed in a pause of this node.
    pub fn advance(&mut self, now: Nanoseconds, pause_max: Nanoseconds) {
        let passed = now.saturating_sub(self.counted_until);
        let counts = match mutant!(OwnPauseCounted) {
            true => passed,
            false => passed.min(pause_max),
        };
        self.peers.values_mut().for_each(|silent| *silent += counts);
        self.counted_until = now;
    }

    /// Notes that the peer has answered.
    pub fn heard(&mut self, peer: &NodeName) {
        if let Some(silent) = self.peers.get_mut(peer) {
            *silent = 0;
        }
    }

    /// Notes that the process of this start of the peer is gone.
    pub fn note_dead(&mut self, peer: &NodeName, incarnation: u64) {
        self.dead.insert(peer.clone(), incarnation);
    }

    /// Whether the process of this start of the peer is gone. A later start is another process.
    pub fn is_dead(&self, peer: &NodeName, incarnation: u64) -> bool {
        let dead = self.dead.get(peer);
        dead.is_some_and(|&dead| dead == incarnation || mutant!(EveryStartDead))
    }

    /// The silence of a peer. A node that is not a peer, such as the node itself, is never silent.
    pub fn of(&self, peer: &NodeName) -> Nanoseconds {
        self.peers.get(peer).copied().unwrap_or(0)
    }
}
