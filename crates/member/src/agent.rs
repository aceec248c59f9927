//! The part of a member that decides. The agent has no input, no output and no clock: the tasks around it bring
//! messages and time.
//!
//! ```text
//!   asks         one for each peer and round, for the leases of all groups that this node leads     leads.rs
//!   answers      as a copy, from `Grants`
//!   silence      the time since each peer last answered                                             silence.rs
//!   decide       which primary to depose, and which nodes to remove                                standing.rs
//! ```
//!
//! Invariants:
//! - Everything happens in the epoch of the configuration that was entered last, and that epoch is durable.
//! - A node asks itself, too: its own grants to a predecessor count like the grants of others.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{
    Asked, Configuration, GrantRefused, Grants, Group, NodeName, ReaderOffer, Refusal, Subject,
    Term, Timing,
};

use crate::event::MemberEvent;
use crate::leads::Leads;
use crate::message::{Answer, Ask, Places};
use crate::silence::Silence;
use crate::standing::{Standing, View};

/// Asks in the length of a lease. The lease outlives the loss of two of them.
const ROUNDS_PER_LEASE: u64 = 3;

/// An ask on its way.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub ask: Ask,
    asked: Asked,
}

/// Decides for one node: its own leases, its grants to others, and the changes that it asks for.
pub(crate) struct Agent {
    name: NodeName,
    configuration: Rc<Configuration>,
    grants: Grants,
    leads: Leads,
    silence: Silence,
    standing: Standing,
    events: VecDeque<MemberEvent>,
    serial: u64,
    next_round: Nanoseconds,
}

impl Agent {
    /// The agent of `name`, in a configuration whose epoch is durable. `longest` is the longest lease that the node may
    /// have granted before its start.
    pub fn new(
        name: NodeName,
        configuration: Configuration,
        longest: Timing,
        now: Nanoseconds,
    ) -> Self {
        let (epoch, timing) = (configuration.epoch, configuration.policy.lease);
        let configuration = Rc::new(configuration);
        let mut agent = Self {
            name,
            configuration: configuration.clone(),
            grants: Grants::new(longest, timing, epoch, now),
            leads: Leads::default(),
            silence: Silence::new(now),
            standing: Standing::default(),
            events: VecDeque::new(),
            serial: 0,
            next_round: now,
        };
        agent.enter(configuration, now);
        agent
    }

    /// The configuration in force.
    pub fn configuration(&self) -> &Rc<Configuration> {
        &self.configuration
    }

    /// Goes over to `configuration`, whose epoch is durable.
    pub fn enter(&mut self, configuration: Rc<Configuration>, now: Nanoseconds) {
        self.leads.advance(now, &mut self.events);
        let (epoch, timing) = (configuration.epoch, configuration.policy.lease);
        self.grants.enter(epoch, timing);
        self.events
            .extend(self.leads.enter(&self.name, &configuration));
        self.standing.enter(&configuration, now);
        self.configuration = configuration.clone();
        self.silence.watch(self.peers());
        self.events.push_back(MemberEvent::Entered(configuration));
        self.next_round = now;
    }

    /// The nodes that share a group with this node.
    pub fn peers(&self) -> BTreeSet<NodeName> {
        let groups = self.configuration.groups_of(&self.name);
        let mut peers: BTreeSet<_> = groups.flat_map(Group::copies).cloned().collect();
        peers.remove(&self.name);
        peers
    }

    /// Nanoseconds between two asks of one peer.
    pub fn round_ns(&self) -> Nanoseconds {
        (self.configuration.policy.lease.duration_ns / ROUNDS_PER_LEASE).max(1)
    }

    /// Makes an ask of `peer`, which is sent at `now` or later.
    pub fn ask(&mut self, peer: &NodeName, now: Nanoseconds) -> Sent {
        self.leads.advance(now, &mut self.events);
        let groups = self.configuration.groups.iter().enumerate();
        let resigned = groups
            .filter(|(_, group)| group.primary == self.name && self.leads.has_resigned(group))
            .map(|(place, _)| place);
        let groups = Places::all_but(self.configuration.groups.len(), resigned);
        let configuration = self.configuration.id();
        Sent {
            ask: Ask {
                configuration,
                serial: self.next_serial(),
                groups,
            },
            asked: Asked::new(peer.clone(), configuration.epoch, now),
        }
    }

    /// The number of the next ask or piece.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Returns an answer that grants nothing. The answer confirms the request with the number `serial`, and names the
    /// configuration of this node.
    pub fn took(&self, serial: u64) -> Answer {
        Answer {
            configuration: self.configuration.id(),
            serial,
            held_ns: 0,
            groups: Places::NONE,
        }
    }

    /// Answers `asker` as a copy: grants the leases that may be granted.
    pub fn answer(&mut self, asker: &NodeName, ask: &Ask, now: Nanoseconds) -> Answer {
        let configuration = self.configuration.clone();
        let mut answer = self.took(ask.serial);
        if ask.configuration != configuration.id() {
            return answer;
        }
        let mut refused = Vec::new();
        for (place, group) in configuration.groups.iter().enumerate() {
            if group.primary != *asker || !group.has_copy(&self.name) || !ask.groups.contains(place)
            {
                continue;
            }
            let (subject, epoch) = (&group.subject, configuration.epoch);
            match self.grants.grant(subject, asker, group.term, epoch, now) {
                Ok(held_ns) => answer.held_ns = held_ns,
                Err(GrantRefused::NotOver { .. } | GrantRefused::OtherEpoch { .. }) => {
                    refused.push(place);
                }
            }
        }
        answer.groups = Places::all_but(configuration.groups.len(), refused);
        answer
    }

    /// Takes the answer to `sent`. An answer from another configuration grants nothing, and is no sign of life. A peer
    /// that stays behind, although it is told the configuration, cannot be waited for.
    pub fn hear(&mut self, sent: &Sent, answer: &Answer, now: Nanoseconds) {
        // A lease that is over stays over, even if a grant comes late.
        self.leads.advance(now, &mut self.events);
        let configuration = self.configuration.clone();
        let own = configuration.id();
        let is_of_this_one = answer.configuration == own && sent.ask.configuration == own;
        if !is_of_this_one || answer.serial != sent.ask.serial {
            return;
        }
        self.silence.heard(&sent.asked.copy);
        let timing = configuration.policy.lease;
        let held_ns = answer.held_ns.min(timing.held(timing.duration_ns));
        for (place, group) in configuration.groups.iter().enumerate() {
            let is_led = group.primary == self.name;
            if is_led && sent.ask.groups.contains(place) && answer.groups.contains(place) {
                self.leads.granted(&group.subject, &sent.asked, held_ns);
            }
        }
        self.leads.advance(now, &mut self.events);
    }

    /// Notes that the process of this start of `peer` is gone.
    pub fn note_dead(&mut self, peer: &NodeName, incarnation: u64) {
        self.silence.note_dead(peer, incarnation);
    }

    /// Notes the consent of the predecessor of `heir`; see [`Grants::consented`]. The next round
    /// begins at `now`.
    pub fn consented(&mut self, subject: &Subject, heir: &NodeName, term: Term, now: Nanoseconds) {
        self.grants.consented(subject, heir, term);
        self.next_round = now;
    }

    /// Lets time pass until `now`.
    pub fn advance(&mut self, now: Nanoseconds) {
        let round = self.round_ns();
        self.leads.advance(now, &mut self.events);
        self.silence.advance(now, 2 * round);
        if now >= self.next_round {
            self.next_round = next_round(now, round);
            let sent = self.ask(&self.name.clone(), now);
            let answer = self.answer(&self.name.clone(), &sent.ask, now);
            self.hear(&sent, &answer, now);
        }
    }

    /// The moment of the next call of [`Agent::advance`]: at the next round, or at an earlier end of a lease or of a
    /// wait.
    pub fn due_at(&self) -> Nanoseconds {
        let ends = self.leads.first_end().into_iter();
        let standing = self.standing.first_due(&self.view()).into_iter();
        ends.chain(standing).fold(self.next_round, u64::min)
    }

    /// Returns the configuration that this node wants after `present`. `None` if the node wants no change, or if the
    /// configuration was changed since this node entered it.
    pub fn decide(
        &self,
        present: &Configuration,
        now: Nanoseconds,
    ) -> Result<Option<Configuration>, Refusal> {
        if present.id() != self.configuration.id() {
            return Ok(None);
        }
        self.standing.decide(&self.view(), now)
    }

    fn view(&self) -> View<'_> {
        View {
            node: &self.name,
            configuration: &self.configuration,
            grants: &self.grants,
            leads: &self.leads,
            silence: &self.silence,
        }
    }

    /// Returns whether `joiner` may be named as in sync in the configuration after `present`. That needs `present` to
    /// be in force, because the lease needs a grant of the joiner until the next configuration is in force. See
    /// [`PrimaryLease::admit`](stonecast_cluster::PrimaryLease::admit).
    pub fn admit(
        &mut self,
        present: &Configuration,
        subject: &Subject,
        joiner: &NodeName,
        now: Nanoseconds,
    ) -> bool {
        self.leads.advance(now, &mut self.events);
        present.id() == self.configuration.id() && self.leads.admit(subject, joiner, now)
    }

    /// Term and end of the lease under which this node leads `subject`.
    pub fn lease(&self, subject: &Subject) -> Option<(Term, Nanoseconds)> {
        self.leads.lease(subject)
    }

    /// The time since `peer` last answered, counted while this node runs, round by round.
    pub fn silence(&self, peer: &NodeName) -> Nanoseconds {
        self.silence.of(peer)
    }

    /// The offer to a reader of `subject` at `now`.
    pub fn offer(&self, subject: &Subject, now: Nanoseconds) -> Option<(Term, ReaderOffer)> {
        let timing = self.configuration.policy.lease;
        self.leads.offer(subject, timing, now)
    }

    /// Notes an event for the store.
    pub fn tell(&mut self, event: MemberEvent) {
        self.events.push_back(event);
    }

    /// Takes the oldest event.
    pub fn take_event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// Returns whether there is an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }
}

/// The first moment after `now` at which a round begins: all tasks of a node wake for it together.
pub(crate) fn next_round(now: Nanoseconds, round: Nanoseconds) -> Nanoseconds {
    (now / round + 1) * round
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::{Attempt, Found, Node, Policy, Start};
    use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};
    use uuid::Uuid;

    use super::*;

    const NONCE: Uuid = Uuid::from_u128(7);
    /// A moment long after the start of both nodes.
    const LATER: Nanoseconds = 1_000_000_000;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    fn start(pool: u128) -> Start {
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: Ddio::Off,
            receive_buffers: ReceiveBuffers::Pm,
        };
        let pool = Uuid::from_u128(pool);
        Start {
            node: Node::new(pool, Durability::Power, platform, vec![]),
            cluster: Some(NONCE),
            found: Found::nothing(),
        }
    }

    /// Two nodes with one shard, as the attempt number `attempt` stored them.
    fn stored_by(attempt: u128) -> Configuration {
        let attempt = Attempt {
            writer: "test".to_owned(),
            number: Uuid::from_u128(attempt),
        };
        let mut configuration = Configuration::create(NONCE, Policy::new(2, 1), attempt);
        for (pool, text) in (1..).zip(["a", "b"]) {
            configuration = configuration.register(&name(text), &start(pool)).unwrap();
        }
        configuration.place_shards().unwrap()
    }

    /// The primary of the shard, in the configuration that attempt 1 stored, and the other copy, in the one that
    /// `copy_attempt` stored.
    fn primary_and_copy(copy_attempt: u128) -> (Agent, Agent) {
        let configuration = stored_by(1);
        let group = &configuration.groups[0];
        let backup = group.backups().next().unwrap().clone();
        let timing = configuration.policy.lease;
        let primary = Agent::new(group.primary.clone(), configuration, timing, 0);
        let copy = Agent::new(backup, stored_by(copy_attempt), timing, 0);
        (primary, copy)
    }

    #[test]
    fn a_copy_grants_nothing_to_a_primary_in_another_configuration_of_its_epoch() {
        for (attempt, is_granted) in [(1, true), (2, false)] {
            let (mut primary, mut copy) = primary_and_copy(attempt);
            let sent = primary.ask(&copy.name, LATER);
            let answer = copy.answer(&primary.name, &sent.ask, LATER);
            assert_eq!(answer.groups.contains(0), is_granted, "attempt {attempt}");
            assert_eq!(answer.held_ns > 0, is_granted, "attempt {attempt}");
        }
    }

    #[test]
    fn a_primary_counts_no_grant_of_a_copy_in_another_configuration_of_its_epoch() {
        for (attempt, is_counted) in [(1, true), (2, false)] {
            let (mut primary, mut copy) = primary_and_copy(1);
            primary.advance(LATER);
            let sent = primary.ask(&copy.name, LATER);
            let mut answer = copy.answer(&primary.name, &sent.ask, LATER);
            answer.configuration.attempt = Uuid::from_u128(attempt);
            primary.hear(&sent, &answer, LATER);
            let subject = primary.configuration().groups[0].subject.clone();
            let leads = primary.lease(&subject).is_some();
            assert_eq!(leads, is_counted, "attempt {attempt}");
        }
    }

    #[test]
    fn nothing_is_decided_on_another_configuration_of_the_epoch() {
        let (mut primary, mut copy) = primary_and_copy(1);
        let subject = primary.configuration().groups[0].subject.clone();
        let [own, other] = [1, 2].map(stored_by);
        let stands = |present: &Configuration| copy.decide(present, LATER).unwrap().is_some();
        assert!(stands(&own) && !stands(&other));
        primary.advance(LATER);
        let sent = primary.ask(&copy.name, LATER);
        let answer = copy.answer(&primary.name, &sent.ask, LATER);
        primary.hear(&sent, &answer, LATER);
        let mut admits =
            |present: &Configuration| primary.admit(present, &subject, &copy.name, LATER);
        assert!(admits(&own) && !admits(&other));
    }
}
