//! What nodes do, and what befalls them.

use rand::RngExt as _;
use stonecast_cluster::Epoch;
use stonecast_replication::{LeaseSays, Primary, Settled};

use super::node::{Cell, Node, Role};
use super::oracle::{Call, Index, Word, Write};
use super::{KEYS, Mail, NODES, Wire, WireName, World, name};

impl World {
    pub fn chance(&mut self, of_a_thousand: u32) -> bool {
        self.random.random_ratio(of_a_thousand.min(1_000), 1_000)
    }

    pub fn any_node(&mut self) -> usize {
        self.random.random_range(0..NODES)
    }

    /// Perhaps something goes wrong.
    pub fn mishap(&mut self) {
        let node = self.any_node();
        if self.chance(self.faults.power) && self.nodes[node].is_up() {
            self.power_fails(node);
        }
        if self.chance(self.faults.power_everywhere) {
            for node in 0..NODES {
                self.power_fails(node);
            }
        }
        if self.chance(self.faults.stops) {
            self.nodes[node].stopped = true;
            self.nodes[node].inside = self.chance(10 * self.faults.stops_inside);
        }
        if self.chance(60) {
            let node = self.any_node();
            self.nodes[node].stopped = false;
        }
        if self.chance(self.faults.connection_ends)
            && let Some(wire) = self.any_wire()
        {
            self.wires.remove(&wire);
        }
        if self.chance(self.faults.changes_of_primary) {
            self.change_primary(true);
        }
        if !self.nodes[self.configuration.primary].runs() && self.chance(20) {
            self.change_primary(true);
        }
    }

    fn power_fails(&mut self, node: usize) {
        self.nodes[node].power_fails(&mut self.random);
        self.wires
            .retain(|&(_, from, to), _| from != node && to != node);
        self.mail.retain(|mail| mail.from != node);
    }

    fn any_wire(&mut self) -> Option<WireName> {
        let nodes = &self.nodes;
        let is_of_use = |&(_, from, _): &WireName, wire: &mut Wire| {
            nodes[from].leads() || !wire.on_the_way.is_empty() || !wire.landed.is_empty()
        };
        self.wires.retain(is_of_use);
        let wires = self.wires.len();
        let nth = (wires > 0).then(|| self.random.random_range(0..wires))?;
        self.wires.keys().nth(nth).copied()
    }

    /// One thing happens.
    pub fn event(&mut self) {
        let node = self.busy_node();
        match self.random.random_range(0..24) {
            0 => self.start_somebody(),
            1 | 2 => self.work(node, Self::call),
            3..=5 => self.work(node, Self::send),
            6..=8 => self.land(),
            9 | 10 => self.flush(),
            11 => self.work(node, Self::hear_reports),
            12 => self.work(node, Self::persist_here),
            13 => self.work(node, Self::settle),
            14 => self.work(node, |world, node| {
                world.nodes[node].scan(&mut world.random);
                world.nodes[node].digest(2);
            }),
            15 if self.chance(100) => self.work(node, |world, node| {
                world.nodes[node].raise_floor(&mut world.random);
            }),
            16 => self.read_mail(),
            17 | 18 => self.work(node, Self::take_over),
            19 => self.end_leases(),
            20 | 21 => self.work(node, |world, node| {
                world.hear_reports(node);
                world.settle(node);
            }),
            22 | 23 => self.work(node, Self::fill),
            _ => {}
        }
    }

    /// The primary of the configuration has more to do than others, and so has an earlier one that knows of no later one.
    fn busy_node(&mut self) -> usize {
        let mut nodes = self.nodes.iter();
        let leads = nodes.position(|node| node.leads() && node.epoch < self.configuration.term);
        match self.random.random_range(0..6) {
            0..3 => self.configuration.primary,
            3 => leads.unwrap_or(self.configuration.primary),
            _ => self.any_node(),
        }
    }

    fn start_somebody(&mut self) {
        let down = self.nodes.iter_mut().find(|node| !node.is_up());
        if let Some(node) = down {
            node.start(&mut self.random);
        }
    }

    /// An event of a primary that nobody calls, and whose lease does not end.
    pub fn quiet_event(&mut self, node: usize) {
        match self.random.random_range(0..6) {
            0 => self.work(node, Self::send),
            1 => self.land(),
            2 => self.flush(),
            3 => self.work(node, Self::hear_reports),
            4 => self.work(node, Self::persist_here),
            _ => self.work(node, Self::settle),
        }
    }

    fn work(&mut self, node: usize, what: impl FnOnce(&mut Self, usize)) {
        if self.nodes[node].runs() {
            what(self, node);
        }
    }

    /// A lease of an earlier term ends; that of the present one seldom.
    fn end_leases(&mut self) {
        let present = self.configuration.term;
        let ends = self.random.random_bool(0.04);
        let rare = !self.is_calm && self.random.random_bool(0.02);
        self.leases.retain(|&term| match term == present {
            true => !rare,
            false => !ends,
        });
    }

    /// The machine of a primary, with what it decides by.
    fn primary(&mut self, node: usize) -> Option<(&mut Primary<Call>, &mut Index)> {
        match &mut self.nodes[node].role {
            Role::Primary(primary, decided) => Some((primary, decided)),
            _ => None,
        }
    }

    /// A client asks this node for something.
    pub fn call(&mut self, node: usize) {
        let key = self.random.random_range(0..KEYS);
        let kind = self.random.random_range(0..4);
        let gap = self.random.random_range(1..3);
        let number = self.writes + 1;
        let counter = self.nodes[node].counter;
        let nothing_told = self.oracle.call(key, None);
        let Some((primary, decided)) = self.primary(node) else {
            return;
        };
        let found = decided.get(&key).copied();
        let is_there = found.is_some_and(|word| word.write.present);
        let writes = kind == 0 || kind == 1 && is_there || kind == 2 && !is_there;
        if !writes {
            let saw = found.map_or(0, |word| word.point.version);
            let call = Call {
                tells: found,
                ..nothing_told
            };
            primary.refuse(saw, call);
            return;
        }
        let present = kind != 1;
        let write = Write {
            number,
            key,
            present,
        };
        let version = primary.last().max(counter) + gap;
        let point = stonecast_replication::Point {
            term: primary.term(),
            version,
        };
        let word = Word { point, write };
        let call = Call {
            tells: Some(word),
            ..nothing_told
        };
        let Ok(entry) = primary.stamp(version, call) else {
            return;
        };
        decided.insert(key, word);
        self.writes = number;
        let node = &mut self.nodes[node];
        node.counter = version;
        node.memory.push(Cell {
            entry,
            write,
            durable: false,
        });
    }

    /// A primary appends what was not sent, or connects again.
    fn send(&mut self, node: usize) {
        let to = self.any_node();
        let Some((primary, _)) = self.primary(node) else {
            return;
        };
        let term = primary.term();
        let wire = (term, node, to);
        if to == node {
            return;
        }
        if !self.wires.contains_key(&wire) {
            // A node of another epoch accepts no connection.
            let joins = self.joins.get(&to).is_some_and(|join| !join.dropped);
            if !self.nodes[to].runs() || self.nodes[to].epoch != term || joins {
                return;
            }
            self.wires.insert(wire, Wire::default());
            let (primary, _) = self.primary(node).expect("it is one");
            return primary.reconnected(&name(to));
        }
        if self.wires[&wire].leaks {
            return;
        }
        let (primary, _) = self.primary(node).expect("it is one");
        let entries = primary.take_unsent(&name(to));
        let from = &self.nodes[node];
        let cells = entries.into_iter().map(|entry| Cell {
            entry,
            write: from.word(entry.point()).write,
            durable: false,
        });
        let wire = self.wires.get_mut(&wire).expect("it is there");
        wire.on_the_way.extend(cells);
    }

    /// An entry lands. Where entries of different sizes have queue pairs of their own, a later one may land before.
    fn land(&mut self) {
        let two_orders = self.chance(10 * self.faults.two_orders);
        let Some(name) = self.any_wire() else {
            return;
        };
        let wire = self.wires.get_mut(&name).expect("it is there");
        if self.nodes[name.1].stopped && self.nodes[name.1].inside {
            return;
        }
        let place = usize::from(two_orders && wire.on_the_way.len() > 1);
        let Some(cell) = wire.on_the_way.remove(place) else {
            return;
        };
        wire.landed.push(cell);
        if self.nodes[name.2].is_up() {
            self.nodes[name.2].memory.push(cell);
        }
    }

    /// A flush: everything that has landed by this wire is durable, and its sender is told.
    fn flush(&mut self) {
        let Some(name) = self.any_wire() else {
            return;
        };
        let wire = self.wires.get_mut(&name).expect("it is there");
        for cell in &mut self.nodes[name.2].memory {
            let is_same = |landed: &Cell| landed.write.number == cell.write.number;
            cell.durable |= wire.landed.iter().any(is_same);
        }
        let versions = wire.landed.drain(..).map(|cell| cell.entry.version);
        wire.reports.extend(versions);
    }

    fn hear_reports(&mut self, node: usize) {
        for to in 0..NODES {
            let Some((primary, _)) = self.primary(node) else {
                return;
            };
            let wire_name = (primary.term(), node, to);
            let Some(wire) = self.wires.get_mut(&wire_name) else {
                continue;
            };
            let reports: Vec<_> = wire.reports.drain(..).collect();
            for version in reports {
                let (primary, _) = self.primary(node).expect("it is one");
                if primary.persisted(&name(to), version).is_err() {
                    self.wires.remove(&wire_name);
                    break;
                }
            }
        }
    }

    /// The primary's own persist.
    fn persist_here(&mut self, node: usize) {
        let Some((primary, _)) = self.primary(node) else {
            return;
        };
        let me = name(node);
        for entry in primary.take_unsent(&me) {
            let report = primary.persisted(&me, entry.version);
            report.expect("the own log has one order");
        }
        self.nodes[node].persist_all();
    }

    fn settle(&mut self, node: usize) {
        let leases = self.leases.clone();
        let Some((primary, _)) = self.primary(node) else {
            return;
        };
        let lease = match leases.contains(&primary.term()) {
            true => LeaseSays::Holds,
            false => LeaseSays::Over,
        };
        let Some(settled) = primary.settle(lease) else {
            let copy = self.nodes[node].take_copy();
            self.nodes[node].role = Role::Copy(copy);
            return;
        };
        for one in settled {
            self.answer(node, one);
        }
    }

    fn answer(&mut self, node: usize, settled: Settled<Call>) {
        match settled {
            Settled::Written(call) => {
                let word = call.tells.expect("a write tells what it wrote");
                self.nodes[node].index.insert(call.key, word);
                self.oracle.written(call);
            }
            Settled::Refused(call) => self.oracle.refused(call),
        }
    }

    /// The next configuration, by compare-and-set: a copy in sync becomes the primary. The old one may be removed.
    pub fn change_primary(&mut self, with_removals: bool) {
        let old = self.configuration.primary;
        let up = |&&node: &&usize| self.nodes[node].is_up();
        let in_sync: Vec<_> = self
            .configuration
            .in_sync
            .iter()
            .filter(up)
            .copied()
            .collect();
        if in_sync.is_empty() {
            return;
        }
        let heir = in_sync[self.random.random_range(0..in_sync.len())];
        let removes = self.chance(10 * self.faults.removes);
        if removes && with_removals && heir != old && self.configuration.in_sync.len() > 2 {
            self.configuration.in_sync.remove(&old);
        }
        self.configuration.term = Epoch(self.configuration.term.0 + 1);
        self.configuration.primary = heir;
    }

    fn read_mail(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let nth = self.random.random_range(0..self.mail.len());
        let mail: Mail = self.mail.swap_remove(nth);
        if self.nodes[mail.to].runs() && !self.chance(10 * self.faults.mail_lost) {
            self.receive(mail);
        }
    }
}

impl Node {
    /// Nobody serves clients here any more.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Primary(..))
    }
}
