//! A node as a member of its cluster.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::Rng as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{
    ChangeError, ConfigStore, Configuration, Epoch, EpochCell, Epochs, Found, Node, NodeName,
    Nonce, RaiseError, ReaderOffer, Refusal, Stale, Start, Subject, Term, Writer, change,
};
use stonecast_fabric::{ConnectionRequest, Port, Runtime};

use crate::agent::Agent;
use crate::bell::Bell;
use crate::error::MemberError;
use crate::event::MemberEvent;
use crate::hello::Identity;
use crate::shared::{Sessions, Shared};
use crate::{answering, follow, keep, link};

/// What a node needs to be a member.
pub struct Seat<C> {
    /// Where peers reach the node: its device listens at the addresses of `node`. Whoever else uses the port hands on requests to
    /// connect ([`Member::take_request`]). [`COMPLETIONS_PER_PEER`](crate::COMPLETIONS_PER_PEER) says how many completions each peer needs.
    pub port: Rc<Port>,
    /// Its clock, which runs through suspend, and its tasks.
    pub runtime: Rc<dyn Runtime>,
    /// Where the configuration lives.
    pub store: Rc<dyn ConfigStore>,
    /// Where the node's epoch is durable.
    pub cell: C,
    /// The cluster.
    pub cluster: Nonce,
    /// The node's name.
    pub name: NodeName,
    /// What is registered under it.
    pub node: Node,
    /// The content of the pool. A group of which it is no copy is left in the change that registers the node.
    pub found: Found,
    /// Where attempts and pauses are drawn from.
    pub random: Random,
}

/// A node that is registered, asks its peers for the leases of the groups that it leads, grants theirs, and stands for heir where
/// theirs end. Dropping it ends its tasks and sessions; its leases, which peers granted, run out by themselves.
///
/// Its store takes [events](Member::event), and looks at [`Member::lease`] before each answer that depends on leading.
pub struct Member {
    shared: Rc<Shared>,
}

impl Member {
    /// Registers the node, in a new incarnation, and starts its tasks. What it led before its start it leads in a new term, if its pool is
    /// still a copy.
    ///
    /// A crash at any point leaves a node that is registered or not, and nothing else: its leases were granted to an earlier
    /// incarnation and term, or to nobody.
    pub async fn start<C: EpochCell + 'static>(seat: Seat<C>) -> Result<Self, MemberError> {
        let mut epochs = Epochs::load(&seat.cell);
        let known = epochs.known();
        if let Some(known) = known.filter(|known| known.nonce != seat.cluster) {
            let (found, known) = (seat.cluster, known.nonce);
            return Err(Stale::Cluster { found, known }.into());
        }
        let name = seat.name;
        let mut random = seat.random;
        let start = Start {
            node: seat.node,
            cluster: known.map(|known| known.nonce),
            found: seat.found,
        };
        let mut writer = writer(&name, &mut random);
        // A store that went back is not written: `raise` refuses what it has.
        let register = |present: &Configuration| match epochs.is_ahead(present) {
            Err(_) => Ok(None),
            Ok(_) => present.register(&name, &start).map(Some),
        };
        let registered = change(
            &*seat.store,
            &seat.runtime,
            &mut writer,
            seat.cluster,
            register,
        );
        let configuration = registered.await.map_err(|error| {
            let name = name.clone();
            MemberError::NotRegistered { name, error }
        })?;
        let raised = epochs.raise(&seat.cell, &configuration).await;
        raised.map_err(|error| match error {
            RaiseError::Stale(stale) => stale.into(),
            RaiseError::NotKept(error) => MemberError::EpochNotKept {
                name: name.clone(),
                reason: error.to_string(),
            },
        })?;
        let longest = known.map_or(configuration.policy.lease, |known| known.longest_lease);
        let incarnation = configuration.nodes[&name].incarnation;
        let agent = Agent::new(name.clone(), configuration, longest, seat.runtime.now());
        let shared = Rc::new(Shared {
            port: seat.port,
            runtime: seat.runtime,
            store: seat.store,
            identity: Identity {
                cluster: seat.cluster,
                pool: start.node.pool,
                incarnation,
                name,
            },
            agent: RefCell::new(agent),
            sessions: Sessions::default(),
            newest: Cell::default(),
            writer: Cell::new(Some(writer)),
            random: RefCell::new(random),
            changed: Bell::default(),
            told: Bell::default(),
            end: RefCell::default(),
        });
        let runtime = shared.runtime.clone();
        runtime.spawn(Box::pin(follow::watch(shared.clone())));
        runtime.spawn(Box::pin(follow::follow(shared.clone(), seat.cell, epochs)));
        runtime.spawn(Box::pin(keep::keep(shared.clone())));
        link::connect_to_peers(&shared);
        Ok(Self { shared })
    }

    /// Takes all requests to connect on the port from here on, for a node that serves nothing else there.
    pub fn take_all_requests(&self) {
        let taking = answering::take_requests(self.shared.clone());
        self.shared.runtime.spawn(Box::pin(taking));
    }

    /// Takes the request of a peer that said `private_data`, accepts or refuses it, and returns true. False: whoever asks is no
    /// node, and the request is still the caller's.
    pub fn take_request(&self, request: ConnectionRequest, private_data: &[u8]) -> bool {
        let is_node = answering::is_hello(private_data);
        if is_node {
            answering::take_request(&self.shared, request, private_data);
        }
        is_node
    }

    /// The next event, in the order in which things happened. An error is the end: the node is no member any more.
    pub async fn event(&self) -> Result<MemberEvent, MemberError> {
        loop {
            let event = self.shared.agent.borrow_mut().take_event();
            if let Some(event) = event {
                return Ok(event);
            }
            if let Some(end) = &*self.shared.end.borrow() {
                return Err(end.clone());
            }
            self.shared.told.heard().await;
        }
    }

    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.shared.identity.name
    }

    /// The configuration in force here. Its epoch is durable.
    pub fn configuration(&self) -> Rc<Configuration> {
        self.shared.configuration()
    }

    /// The term in which the node leads `subject`, and the end of its lease on the node's clock. `None`: it does not lead, or the
    /// member has ended.
    ///
    /// The lease holds while the clock says less than that end. It is looked at after everything that an answer depends on.
    pub fn lease(&self, subject: &Subject) -> Option<(Term, Nanoseconds)> {
        let goes_on = !self.shared.has_ended();
        let lease = self.shared.agent.borrow().lease(subject);
        lease.filter(|_| goes_on)
    }

    /// What a reader of `subject` may be offered now: a lease within this node's own, of its term.
    pub fn offer(&self, subject: &Subject) -> Option<(Term, ReaderOffer)> {
        let goes_on = !self.shared.has_ended();
        let now = self.shared.now();
        let offer = self.shared.agent.borrow().offer(subject, now);
        offer.filter(|_| goes_on)
    }

    /// Names the node `joiner`, which has got everything of `subject` in its join of number `join`, as in sync. False: not yet, since the
    /// joiner has not granted the lease, or another configuration comes into force here; or the node does not lead. A later attempt may succeed.
    /// A joiner that has left since, and joins anew or not at all, is refused.
    ///
    /// From the first attempt on the lease needs a grant of the joiner, as long as that one joins: the change may be done after this call has ended.
    pub async fn finish_join(
        &self,
        subject: &Subject,
        joiner: &NodeName,
        join: Epoch,
    ) -> Result<bool, ChangeError> {
        let shared = &self.shared;
        let decide = |present: &Configuration| {
            let mut agent = shared.agent.borrow_mut();
            match agent.admit(present, subject, joiner, shared.now()) {
                true => present
                    .finish_join(subject, (joiner, join), self.name())
                    .map(Some),
                false => Ok(None),
            }
        };
        let came = self.change(decide).await;
        shared.announce();
        let came = came?;
        let group = came.group(subject);
        Ok(group.is_some_and(|group| group.in_sync.contains(joiner)))
    }

    /// Changes the configuration, see [`change`]. It is in force here when its event has come.
    pub async fn change(
        &self,
        decide: impl FnMut(&Configuration) -> Result<Option<Configuration>, Refusal>,
    ) -> Result<Configuration, ChangeError> {
        let shared = &self.shared;
        let mut writer = writer(self.name(), &mut shared.random.borrow_mut());
        let cluster = shared.identity.cluster;
        let came = change(
            &*shared.store,
            &shared.runtime,
            &mut writer,
            cluster,
            decide,
        )
        .await?;
        shared.bring(came.clone());
        Ok(came)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.end(MemberError::Stopped);
    }
}

/// A writer for `name`, with numbers of its own.
fn writer(name: &NodeName, random: &mut Random) -> Writer {
    Writer::new(name.to_string(), random_from_seed(random.next_u64()))
}
