//! Takeovers: an heir settles what it found, and the other copies follow.

use std::mem::replace;

use stonecast_cluster::{NodeName, Term};
use stonecast_replication::{Consent, Entry, Incomplete, Lineage, Step, Takeover};

use crate::configuration::Group;
use crate::memory::Cell;
use crate::node::{Leader, Role, any};
use crate::outcome::Claim;
use crate::state::State;
use crate::world::{NODES, World, name, number};

/// A message between nodes. Letters arrive in any order, and some get lost.
pub struct Mail {
    pub way: Way,
    pub letter: Letter,
}

pub enum Letter {
    History(Lineage, Vec<Cell>),
    Confirmed,
    Consent(Consent),
    /// A letter of a join, by the number of the join, like the letters below.
    Drop(u64, Lineage),
    Dropped(u64),
    Pull(u64, State),
    Pulled(u64),
}

/// Shard, term, sender and receiver of a letter.
#[derive(Clone, Copy)]
pub struct Way {
    pub shard: u32,
    pub term: Term,
    pub from: usize,
    pub to: usize,
}

impl World {
    pub(crate) fn post(&mut self, way: Way, letter: Letter) {
        self.transit.mail.push(Mail { way, letter });
    }

    pub(crate) fn read_mail(&mut self) {
        if self.transit.mail.is_empty() {
            return;
        }
        let nth = any(&mut self.random, self.transit.mail.len());
        let Mail { way, letter } = self.transit.mail.swap_remove(nth);
        if self.chance(10 * self.faults.mail_lost) {
            return self.outcome.befell("partition");
        }
        if self.nodes[way.to].runs() && !self.nodes[way.to].is_isolated {
            self.receive(way, letter);
        }
    }

    fn receive(&mut self, way: Way, letter: Letter) {
        if self.nodes[way.to].epoch < way.term {
            self.hear_configuration(way.to);
        }
        match letter {
            Letter::Confirmed => {
                let role = &mut self.nodes[way.to].held(way.shard).role;
                if let Role::Heir(takeover) = role {
                    takeover.confirmed(&name(way.from), way.term);
                }
            }
            Letter::Consent(consent) => self.take_consent(way, consent),
            Letter::Drop(join, lineage) => self.drop_copy(way, join, lineage),
            Letter::Dropped(join) => self.hear_dropped(way, join),
            Letter::Pull(join, pulled) => self.take_pulled(way, join, &pulled),
            Letter::Pulled(join) => self.hear_pulled(way, join),
            Letter::History(lineage, cells) => self.follow(way, &lineage, cells),
        }
    }

    /// Lets a node hear of the present configuration: the epoch is durable afterwards, and roles of earlier terms end.
    pub(crate) fn hear_configuration(&mut self, node: usize) {
        let hearing = &mut self.nodes[node];
        hearing.epoch = self.configuration.epoch;
        hearing.known = self.configuration.clone();
        for held in &mut hearing.shards {
            let group = self.configuration.group(held.shard);
            let term = match &held.role {
                Role::Heir(takeover) => takeover.term(),
                Role::Leader(leader) => leader.primary.term(),
                Role::Copy(_) | Role::Down => continue,
            };
            if term < group.term {
                held.step_down();
                continue;
            }
            for copy in 0..NODES {
                let (copy, is_named) = (name(copy), group.in_sync.contains(&copy));
                match &mut held.role {
                    Role::Heir(takeover) if !is_named => takeover.removed(&copy),
                    Role::Leader(leader) => leader.hear_of(&copy, is_named),
                    _ => {}
                }
            }
        }
    }

    /// Takes a step in the takeover by an heir.
    pub(crate) fn take_over(&mut self, node: usize, shard: u32) {
        if self.nodes[node].is_isolated {
            return;
        }
        if self.configuration.group(shard).primary == node {
            self.hear_configuration(node);
        }
        let term = match self.nodes[node].role(shard) {
            Role::Heir(takeover) => takeover.term(),
            _ => return self.stand(node, shard),
        };
        let Role::Heir(takeover) = &mut self.nodes[node].held(shard).role else {
            unreachable!("it is an heir");
        };
        match takeover.next() {
            Step::Quiesce(peers) => self.fence(node, shard, term, peers),
            Step::AwaitLeases => {
                let earlier = |&(of, lease): &(u32, Term)| of == shard && lease < term;
                if !self.grants.leases.iter().any(earlier) {
                    takeover.leases_over();
                }
            }
            Step::Read => self.look(node, shard),
            Step::Keep(lineage) => {
                takeover.kept();
                self.nodes[node].memory.persist_all();
                self.nodes[node].held(shard).keep(lineage);
            }
            Step::Settle(copies) => self.send_history(node, shard, copies),
            Step::Serve => self.serve(node, shard),
        }
    }

    /// Begins to take over, if the configuration names this node.
    fn stand(&mut self, node: usize, shard: u32) {
        let group = self.configuration.group(shard);
        let term = group.term;
        if group.primary != node || self.nodes[node].leads(shard) == Some(term) {
            return;
        }
        let in_sync = group.names();
        let lost = (0..NODES).filter(|&peer| peer != node).map(name);
        let held = self.nodes[node].held(shard);
        let copy = held.step_down().clone();
        match Takeover::new(term, &name(node), copy, in_sync, lost) {
            Ok(takeover) => held.role = Role::Heir(Box::new(takeover)),
            Err(_) => self.change_primary(shard, false),
        }
    }

    fn fence(
        &mut self,
        node: usize,
        shard: u32,
        term: Term,
        peers: impl IntoIterator<Item = NodeName>,
    ) {
        for peer in peers {
            let fence = self.quiesce(node, number(&peer), term);
            if let Role::Heir(takeover) = &mut self.nodes[node].held(shard).role {
                takeover.fenced(&peer, fence);
            }
        }
    }

    /// Lets the heir look at its memory and decide.
    fn look(&mut self, node: usize, shard: u32) {
        self.nodes[node].scan(shard, &mut self.random);
        let Role::Heir(takeover) = &mut self.nodes[node].held(shard).role else {
            unreachable!("an heir looks");
        };
        if let Err(incomplete) = takeover.decide() {
            self.withdraw(node, shard, incomplete);
        }
    }

    fn send_history(
        &mut self,
        node: usize,
        shard: u32,
        copies: impl IntoIterator<Item = NodeName>,
    ) {
        let Role::Heir(takeover) = self.nodes[node].role(shard) else {
            return;
        };
        let (lineage, entries) = takeover.history();
        let is_history = |mail: &Mail| {
            let of_heir = mail.way.from == node && mail.way.shard == shard;
            of_heir && matches!(mail.letter, Letter::History(..))
        };
        self.transit.mail.retain(|mail| !is_history(mail));
        for to in copies.into_iter().map(|copy| number(&copy)) {
            let cells = entries.iter().map(|entry| self.cell_for(node, to, entry));
            let letter = Letter::History(lineage.clone(), cells.collect());
            let way = Way {
                shard,
                term: lineage.term,
                from: node,
                to,
            };
            self.post(way, letter);
        }
    }

    fn serve(&mut self, node: usize, shard: u32) {
        let min_copies = self.setup.min_copies;
        let serving = &mut self.nodes[node];
        let held = &mut serving.shards[shard as usize];
        let Role::Heir(takeover) = replace(&mut held.role, Role::Down) else {
            unreachable!("an heir serves");
        };
        let term = takeover.term();
        let (state, memory) = (&mut held.state, &serving.memory);
        let digest = |entry: Entry| {
            state.apply(memory.word(shard, entry.point()));
        };
        let primary = takeover.serve(min_copies, digest);
        let state = held.state.clone();
        held.role = Role::Leader(Box::new(Leader {
            primary,
            decided: state.clone(),
            has_been_granted: false,
            filling: None,
        }));
        self.show(format!("n{node} serves shard {shard} in term {term}"));
        self.outcome.counts.takeovers += 1;
        self.outcome.claim(Claim {
            shard,
            term: term.0,
            node,
        });
        self.judge_heir(node, shard, term, &state);
    }

    /// Judges the heir of the present term, which will be granted its lease: this heir and all copies durably have
    /// everything that was in an answer. An heir of an earlier term gets no lease, so no client can notice what that
    /// heir lacks.
    fn judge_heir(&mut self, node: usize, shard: u32, term: Term, state: &State) {
        if self.configuration.group(shard).term != term {
            return;
        }
        self.oracle.served(shard, state);
        let in_sync = self.configuration.group(shard).in_sync.iter();
        for &copy in in_sync.filter(|&&copy| !self.lossy.contains(&(shard, copy))) {
            let durable = self.nodes[copy].durable_state(shard);
            assert_eq!(
                durable, *state,
                "n{copy} differs from n{node} in shard {shard} in term {term}"
            );
        }
    }

    /// Lets a copy that lost entries leave the shard: the copy comes back with nothing.
    pub(crate) fn withdraw(&mut self, node: usize, shard: u32, incomplete: Incomplete) {
        let is_lossy = self.lossy.contains(&(shard, node));
        assert!(is_lossy, "n{node} lost nothing, and {incomplete}");
        let others = self.configuration.group(shard).in_sync.iter();
        let heir = others.copied().find(|&other| other != node);
        let heir = heir.expect("another copy is in sync");
        self.show(format!("n{node} leaves shard {shard}: {incomplete}"));
        if self.configuration.group(shard).primary == node {
            self.configuration.name_primary(shard, heir);
        }
        let leave = |group: &mut Group| _ = group.in_sync.remove(&node);
        self.configuration.change(shard, leave);
        self.hear_configuration(node);
    }

    /// Grants the primary of the present term its lease, once.
    pub(crate) fn grant_lease(&mut self, shard: u32) {
        let (primary, term) = {
            let group = self.configuration.group(shard);
            (group.primary, group.term)
        };
        let Some(leader) = self.nodes[primary].leader(shard) else {
            return;
        };
        if leader.primary.term() == term && !leader.has_been_granted {
            leader.has_been_granted = true;
            self.grants.leases.push((shard, term));
        }
    }

    /// Perhaps ends the leases of earlier terms, and seldom those of the present terms.
    pub(crate) fn end_leases(&mut self) {
        let ends = self.chance(40);
        let rare = !self.is_calm && self.chance(20);
        let present: Vec<_> = self
            .configuration
            .groups
            .iter()
            .map(|group| group.term)
            .collect();
        self.grants
            .leases
            .retain(|&(shard, term)| match term == present[shard as usize] {
                true => !rare,
                false => !ends,
            });
    }
}
