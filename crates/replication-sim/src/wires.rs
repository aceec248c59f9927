//! Connections for appends: one from each node to each other node, for all shards.

use std::collections::{BTreeMap, VecDeque};

use stonecast_cluster::{Epoch, Term};
use stonecast_replication::{Connection, Entry, Fence, Kind, Report};

use crate::memory::{Cell, append_key};
use crate::node::any;
use crate::world::{NODES, SHARDS, World, name};

/// All connections, and the reports that their senders have not heard.
#[derive(Default)]
pub struct Wires {
    wires: BTreeMap<u64, Wire>,
    /// The connection that a sender uses for a receiver.
    links: BTreeMap<(usize, usize), u64>,
    /// The reports, by sender and receiver. A connection that has ended may have left some.
    reports: BTreeMap<(usize, usize), VecDeque<(u32, Report)>>,
    last: u64,
}

/// One connection.
pub struct Wire {
    /// The epoch in which both ends accepted it.
    epoch: Epoch,
    from: usize,
    to: usize,
    on_the_way: VecDeque<Sent>,
    /// Entries that are not flushed, with their places in the memory of the receiver.
    landed: Vec<(u64, Sent)>,
}

/// An entry on its way.
#[derive(Clone)]
struct Sent {
    cell: Cell,
    shard: u32,
    report: Report,
}

impl Wires {
    fn open(&mut self, epoch: Epoch, from: usize, to: usize) {
        self.last += 1;
        let wire = Wire {
            epoch,
            from,
            to,
            on_the_way: VecDeque::new(),
            landed: Vec::new(),
        };
        self.wires.insert(self.last, wire);
        self.links.insert((from, to), self.last);
    }

    /// The connection from one node to another.
    pub fn link(&self, from: usize, to: usize) -> Option<Connection> {
        self.links.get(&(from, to)).copied().map(Connection)
    }

    fn end(&mut self, wire: u64) {
        self.wires.remove(&wire);
        self.links.retain(|_, link| *link != wire);
    }

    /// Ends all connections of `node`, whose process has ended.
    pub fn process_ends(&mut self, node: usize) {
        self.wires
            .retain(|_, wire| wire.from != node && wire.to != node);
        self.links
            .retain(|&(from, to), _| from != node && to != node);
        self.reports.retain(|&(from, _), _| from != node);
    }
}

impl World {
    /// A wire that carries something.
    fn any_wire(&mut self) -> Option<u64> {
        let wires = self.transit.wires.wires.iter();
        let used = wires.filter(|(_, wire)| !wire.on_the_way.is_empty() || !wire.landed.is_empty());
        let used: Vec<_> = used.map(|(&number, _)| number).collect();
        (!used.is_empty()).then(|| used[any(&mut self.random, used.len())])
    }

    /// Ends some connection. The sender does not know what has landed.
    pub(crate) fn connection_ends(&mut self) {
        let links: Vec<_> = self.transit.wires.links.values().copied().collect();
        if !links.is_empty() {
            let link = links[any(&mut self.random, links.len())];
            self.transit.wires.end(link);
            self.outcome.befell("nic_reset");
        }
    }

    /// Lets a primary append unsent entries to another node, or connect again.
    pub(crate) fn send(&mut self, node: usize) {
        let to = any(&mut self.random, NODES);
        if to == node || !self.nodes[node].leads_something() {
            return;
        }
        match self.transit.wires.link(node, to) {
            None => self.connect(node, to),
            Some(connection) => {
                for shard in 0..SHARDS {
                    self.append(node, to, shard, connection);
                }
            }
        }
    }

    /// Ends the connection, so that later sends take a later one.
    pub(crate) fn connect_anew(&mut self, from: usize, to: usize) {
        if let Some(connection) = self.transit.wires.link(from, to) {
            self.transit.wires.end(connection.0);
        }
    }

    /// Connects, unless `to` is in another epoch: such a node accepts no connection.
    fn connect(&mut self, node: usize, to: usize) {
        let epoch = self.nodes[node].epoch;
        if !self.nodes[to].runs() || self.nodes[to].epoch != epoch {
            return;
        }
        self.transit.wires.open(epoch, node, to);
    }

    fn append(&mut self, node: usize, to: usize, shard: u32, connection: Connection) {
        let receiver = name(to);
        let Some(leader) = self.nodes[node].leader(shard) else {
            return;
        };
        let mut entries = leader.primary.take_unsent(&receiver, connection);
        entries.extend(leader.primary.take_idle(&receiver, connection));
        let sent: Vec<_> = entries
            .iter()
            .map(|entry| Sent {
                cell: self.cell_for(node, to, entry),
                shard,
                report: Report::of(connection, entry),
            })
            .collect();
        let wire = self.transit.wires.wires.get_mut(&connection.0);
        wire.expect("a link is a wire").on_the_way.extend(sent);
    }

    /// The bytes that `node` makes of its entry for `to`.
    pub(crate) fn cell_for(&self, node: usize, to: usize, entry: &Entry) -> Cell {
        let write = match entry.kind {
            Kind::Record => {
                let word = self.nodes[node].memory.word(entry.shard, entry.point());
                Some(word.write)
            }
            Kind::Horizon => None,
        };
        Cell::new(&append_key(to), *entry, write)
    }

    /// Lets an entry land. If entries of different sizes have queue pairs of their own, a later entry may land before
    /// an earlier one.
    pub(crate) fn land(&mut self) {
        let two_orders = self.chance(10 * self.faults.two_orders);
        let Some(number) = self.any_wire() else {
            return;
        };
        let wire = self
            .transit
            .wires
            .wires
            .get_mut(&number)
            .expect("it is there");
        if self.nodes[wire.from].is_inside() {
            return;
        }
        let place = usize::from(two_orders && wire.on_the_way.len() > 1);
        let Some(sent) = wire.on_the_way.remove(place) else {
            return;
        };
        if place > 0 {
            self.outcome.befell("read_on_other_queue_pair");
        }
        let landed = self.nodes[wire.to].memory.land(sent.cell.clone());
        wire.landed.push((landed, sent));
    }

    /// Flushes a wire: everything that has landed by it is durable, and its sender is told.
    pub(crate) fn flush(&mut self) {
        let Some(number) = self.any_wire() else {
            return;
        };
        let wire = self
            .transit
            .wires
            .wires
            .get_mut(&number)
            .expect("it is there");
        let reports = self
            .transit
            .wires
            .reports
            .entry((wire.from, wire.to))
            .or_default();
        for (place, sent) in wire.landed.drain(..) {
            self.nodes[wire.to].memory.persist(place);
            reports.push_back((sent.shard, sent.report));
        }
    }

    pub(crate) fn hear_reports(&mut self, node: usize) {
        for to in 0..NODES {
            let reports = self
                .transit
                .wires
                .reports
                .remove(&(node, to))
                .unwrap_or_default();
            for (shard, report) in reports {
                let Some(leader) = self.nodes[node].leader(shard) else {
                    continue;
                };
                let heard = leader.primary.persisted(&name(to), report);
                if heard.is_err() && self.transit.wires.link(node, to) == Some(report.connection) {
                    self.transit.wires.end(report.connection.0);
                }
            }
        }
    }

    /// Ends all connections from `peer` that are older than `term`.
    pub(crate) fn quiesce(&mut self, node: usize, peer: usize, term: Term) -> Fence {
        let is_inside = self.nodes[peer].is_inside();
        let wires = self.transit.wires.wires.iter();
        let old =
            wires.filter(|(_, wire)| (wire.from, wire.to) == (peer, node) && wire.epoch < term);
        let old: Vec<_> = old.map(|(&number, _)| number).collect();
        let mut fence = Fence::Quiesced;
        for number in old {
            let wire = self
                .transit
                .wires
                .wires
                .get_mut(&number)
                .expect("it was seen");
            if is_inside && !wire.on_the_way.is_empty() {
                wire.on_the_way.truncate(1);
                self.transit.wires.links.retain(|_, link| *link != number);
                fence = Fence::Unquiesced;
            } else {
                self.transit.wires.end(number);
            }
        }
        fence
    }
}
