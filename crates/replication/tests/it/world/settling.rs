//! How an heir takes over, how the others follow, and how a run ends.

use std::collections::BTreeSet;

use stonecast_cluster::{Epoch, NodeName, Term};
use stonecast_replication::{Fence, Lineage, Step, Takeover};

use super::node::{Cell, Role};
use super::{Configuration, Faults, Letter, Mail, NODES, World, index_of, name};

/// Events within which nodes without faults must have settled everything.
const CALM_EVENTS: usize = 20_000;

impl World {
    /// Takes a step of the way of an heir.
    pub fn take_over(&mut self, node: usize) {
        if self.configuration.primary == node && !matches!(self.nodes[node].role, Role::Heir(_)) {
            return self.stand(node);
        }
        let Role::Heir(takeover) = &mut self.nodes[node].role else {
            return;
        };
        if takeover.term() < self.configuration.term {
            let copy = self.nodes[node].take_copy();
            self.nodes[node].role = Role::Copy(copy);
            return;
        }
        let term = takeover.term();
        match takeover.next() {
            Step::Quiesce(peers) => {
                for peer in peers {
                    let fence = self.quiesce(node, index_of(&peer), term);
                    if let Role::Heir(takeover) = &mut self.nodes[node].role {
                        takeover.fenced(&peer, fence);
                    }
                }
            }
            Step::AwaitLeases => {
                if !self.leases.iter().any(|&lease| lease < term) {
                    takeover.leases_over();
                }
            }
            Step::Read => {
                self.nodes[node].scan(&mut self.random);
                if let Role::Heir(takeover) = &mut self.nodes[node].role {
                    takeover.decide();
                }
            }
            Step::Keep(lineage) => {
                takeover.kept();
                self.nodes[node].persist_all();
                self.nodes[node].lineage = lineage;
            }
            Step::Settle(copies) => self.send_history(node, copies),
            Step::Serve => self.serve(node),
        }
    }

    /// Begins to take over, where the configuration names this node.
    fn stand(&mut self, node: usize) {
        let term = self.configuration.term;
        if self.nodes[node].leads() && self.nodes[node].epoch == term {
            return;
        }
        let copy = self.nodes[node].take_copy();
        self.nodes[node].role = Role::Copy(copy.clone());
        let in_sync: BTreeSet<_> = self
            .configuration
            .in_sync
            .iter()
            .map(|&n| name(n))
            .collect();
        let lost = (0..NODES).filter(|&peer| peer != node).map(name);
        let before = self.nodes[node].epoch;
        match Takeover::new(term, before, &name(node), copy, in_sync, lost) {
            Ok(takeover) => {
                self.nodes[node].epoch = term;
                self.nodes[node].role = Role::Heir(takeover);
            }
            Err(_) => self.change_primary(false),
        }
    }

    /// Ends all connections of earlier terms from `peer`.
    pub fn quiesce(&mut self, node: usize, peer: usize, term: Term) -> Fence {
        let mut fence = Fence::Quiesced;
        for earlier in 1..term.0 {
            let wire_name = (Epoch(earlier), peer, node);
            let inside = self.nodes[peer].stopped && self.nodes[peer].inside;
            let Some(wire) = self.wires.get_mut(&wire_name) else {
                continue;
            };
            if inside {
                wire.leaks = true;
                wire.on_the_way.truncate(1);
                fence = Fence::Unquiesced;
            } else {
                self.wires.remove(&wire_name);
            }
        }
        fence
    }

    fn send_history(&mut self, node: usize, copies: BTreeSet<NodeName>) {
        let Role::Heir(takeover) = &self.nodes[node].role else {
            return;
        };
        let (lineage, entries) = takeover.history();
        let cells: Vec<_> = entries
            .into_iter()
            .map(|entry| Cell {
                entry,
                write: self.nodes[node].word(entry.point()).write,
                durable: false,
            })
            .collect();
        self.mail.retain(|mail| mail.from != node);
        for copy in copies {
            self.mail.push(Mail {
                term: lineage.term,
                from: node,
                to: index_of(&copy),
                letter: Letter::History(lineage.clone(), cells.clone()),
            });
        }
    }

    fn serve(&mut self, node: usize) {
        let held = &mut self.nodes[node];
        let Role::Heir(takeover) = std::mem::replace(&mut held.role, Role::Down) else {
            unreachable!("an heir serves");
        };
        let term = takeover.term();
        let mut left = Vec::new();
        let primary = takeover.serve(1, |entry| left.push(entry));
        for entry in left {
            let word = self.nodes[node].word(entry.point());
            self.nodes[node].index.insert(word.write.key, word);
        }
        let held = &mut self.nodes[node];
        let index = held.index.clone();
        held.role = Role::Primary(primary, index.clone());
        self.leases.insert(term);
        self.takeovers += 1;
        self.oracle.served(&index);
        for &copy in &self.configuration.in_sync {
            let durable = self.nodes[copy].durable_index();
            if self.configuration.term == term {
                assert_eq!(
                    durable, index,
                    "n{copy} differs from n{node} in term {term}"
                );
            }
        }
    }

    pub fn receive(&mut self, mail: Mail) {
        match mail.letter {
            Letter::Confirmed => {
                if let Role::Heir(takeover) = &mut self.nodes[mail.to].role
                    && takeover.term() == mail.term
                {
                    takeover.confirmed(&name(mail.from));
                }
            }
            Letter::Drop(number, lineage) => self.drop_copy(number, mail.term, mail.to, lineage),
            Letter::Pull(number, pulled) => self.take_pulled(number, mail.from, mail.to, pulled),
            Letter::Pulled(number) => self.hear_pulled(number, mail.from, mail.to),
            Letter::History(lineage, cells) => {
                self.follow(mail.term, mail.from, mail.to, lineage, cells)
            }
        }
    }

    /// Another copy: epoch, quiesce, history, entries; all of it durable, then confirmed.
    fn follow(&mut self, term: Term, heir: usize, node: usize, lineage: Lineage, cells: Vec<Cell>) {
        if self.nodes[node].epoch > term {
            return;
        }
        self.nodes[node].epoch = term;
        for peer in (0..NODES).filter(|&peer| peer != node) {
            self.quiesce(node, peer, term);
        }
        let mut copy = self.nodes[node].take_copy();
        copy.adopt(&lineage);
        let held = &mut self.nodes[node];
        held.role = Role::Copy(copy);
        held.memory.extend(cells);
        held.scan(&mut self.random);
        let Role::Copy(copy) = &held.role else {
            unreachable!("it was made one");
        };
        if !copy.has_settled() {
            return;
        }
        held.lineage = copy.lineage().clone();
        held.persist_all();
        self.mail.push(Mail {
            term,
            from: node,
            to: heir,
            letter: Letter::Confirmed,
        });
    }

    /// Nothing goes wrong any more: somebody leads, writes are done, and all copies come to agree.
    pub fn calm_down(&mut self) {
        self.faults = Faults::default();
        self.is_calm = true;
        for node in &mut self.nodes {
            node.stopped = false;
            if !node.is_up() {
                node.start(&mut self.random);
            }
        }
        let answers = self.oracle.answers;
        for _ in 0..CALM_EVENTS {
            self.event();
            if self.oracle.answers > answers + 20 && self.is_led() {
                return self.copies_agree();
            }
        }
        panic!("nobody is answered any more");
    }

    /// The configuration's primary serves, and holds its lease.
    fn is_led(&self) -> bool {
        let Configuration { term, primary, .. } = self.configuration;
        let primary = &self.nodes[primary];
        primary.leads() && primary.epoch == term && self.leases.contains(&term)
    }

    /// After the last horizon every backup digests what the primary has published.
    fn copies_agree(&mut self) {
        let leader = self.configuration.primary;
        for _ in 0..CALM_EVENTS {
            let node = self.any_node();
            self.quiet_event(node);
            let Role::Primary(primary, decided) = &self.nodes[leader].role else {
                panic!("the primary has ended without a fault");
            };
            if primary.horizon() < primary.last() {
                continue;
            }
            let (idle, expected) = (primary.idle(), decided.clone());
            for copy in self.configuration.in_sync.clone() {
                if copy == leader {
                    continue;
                }
                let held = &mut self.nodes[copy];
                held.scan(&mut self.random);
                if let Role::Copy(copy) = &mut held.role {
                    copy.take(idle).expect("the term was entered");
                }
                held.digest(usize::MAX);
                assert_eq!(held.index, expected, "n{copy} has digested something else");
            }
            assert_eq!(self.nodes[leader].index, expected);
            return;
        }
        panic!("the copies do not come to have everything");
    }
}
