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

/// Everything that a node needs to be a member.
pub struct Seat<C> {
    /// The port at which peers reach the node: its device listens at the addresses of `node`. Other users of the port
    /// hand on requests to connect ([`Member::take_request`]). [`COMPLETIONS_PER_PEER`](crate::COMPLETIONS_PER_PEER)
    /// says how many completions each peer needs.
    pub port: Rc<Port>,
    /// The node's tasks and its clock, which goes on while the host is suspended.
    pub runtime: Rc<dyn Runtime>,
    /// The store of the configuration.
    pub store: Rc<dyn ConfigStore>,
    /// The cell that keeps the node's epoch durable.
    pub cell: C,
    /// The cluster.
    pub cluster: Nonce,
    /// The node's name.
    pub name: NodeName,
    /// The node as it is registered under the name.
    pub node: Node,
    /// The content of the pool. If the pool is no copy of a group, the change that registers the node takes the node
    /// out of that group.
    pub found: Found,
    /// The source of the numbers of attempts and of the lengths of pauses.
    pub random: Random,
}

/// A node that is registered. The node asks its peers for the leases of the groups that it leads, grants leases to its
/// peers, and stands for heir when their leases end. Dropping the member ends its tasks and sessions. The leases that
/// peers granted run out by themselves.
///
/// The store of the node takes [events](Member::event), and looks at [`Member::lease`] before each answer that depends
/// on leading.
pub struct Member {
    shared: Rc<Shared>,
}

impl Member {
    /// Registers the node in a new incarnation, and starts its tasks. In each group that the node led before its start,
    /// it leads in a new term if its pool is still a copy.
    ///
    /// After a crash at any point the node is registered or not, and nothing else is left behind: its leases were
    /// granted to an earlier incarnation and term, or were never granted.
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
        // A store that went back is left alone: `raise` refuses its configuration.
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

    /// Takes all requests to connect on the port from here on. A node calls this if it serves nothing else on the port.
    pub fn take_all_requests(&self) {
        let taking = answering::take_requests(self.shared.clone());
        self.shared.runtime.spawn(Box::pin(taking));
    }

    /// Accepts or refuses the request of a peer that said `private_data`, and returns true. Returns false if the peer
    /// is no node: the request is still the caller's.
    pub fn take_request(&self, request: ConnectionRequest, private_data: &[u8]) -> bool {
        let is_node = answering::is_hello(private_data);
        if is_node {
            answering::take_request(&self.shared, request, private_data);
        }
        is_node
    }

    /// Waits for the next event, in the order in which the events happened. An error is the end: the node is no longer
    /// a member.
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

    /// Waits until [`Member::event`] has something to give, and takes nothing.
    pub async fn news(&self) {
        let shared = &self.shared;
        let has_news = || shared.agent.borrow().has_event() || shared.has_ended();
        while !has_news() {
            shared.told.heard().await;
        }
    }

    /// Ends the membership, as dropping does: the node leads nothing, asks for no lease and grants none from here on.
    /// Leases that the node granted before hold until they run out.
    pub fn stop(&self) {
        self.shared.end(MemberError::Stopped);
    }

    /// The node's name.
    pub fn name(&self) -> &NodeName {
        &self.shared.identity.name
    }

    /// The configuration in force here. Its epoch is durable.
    pub fn configuration(&self) -> Rc<Configuration> {
        self.shared.configuration()
    }

    /// The term in which the node leads `subject`, and the end of its lease on the node's clock. `None` if the node
    /// does not lead, or the member has ended.
    ///
    /// The lease holds while the clock says less than that end. The caller checks the lease after everything else on
    /// which an answer depends.
    pub fn lease(&self, subject: &Subject) -> Option<(Term, Nanoseconds)> {
        let goes_on = !self.shared.has_ended();
        let lease = self.shared.agent.borrow().lease(subject);
        lease.filter(|_| goes_on)
    }

    /// The time since `peer` last answered this node, for the operator: 0 for the node itself, and for a node that
    /// shares no group with it. Time counts while this node runs.
    pub fn silence(&self, peer: &NodeName) -> Nanoseconds {
        self.shared.agent.borrow().silence(peer)
    }

    /// The offer to a reader of `subject` at this moment: a lease of this node's term that ends within this node's own
    /// lease.
    pub fn offer(&self, subject: &Subject) -> Option<(Term, ReaderOffer)> {
        let goes_on = !self.shared.has_ended();
        let now = self.shared.now();
        let offer = self.shared.agent.borrow().offer(subject, now);
        offer.filter(|_| goes_on)
    }

    /// Names the node `joiner` as in sync. The joiner has got everything of `subject` in its join with the number
    /// `join`, from this node as the primary of `term`. Returns false if the joiner has not granted the lease yet, if
    /// another configuration comes into force here, or if the node does not lead. A later attempt may succeed. A joiner
    /// that has left since is refused, even if it joins again.
    ///
    /// From the first attempt on, the lease needs a grant of the joiner for as long as the joiner joins: the change may
    /// be done after this call has ended.
    pub async fn finish_join(
        &self,
        subject: &Subject,
        (joiner, join): (&NodeName, Epoch),
        term: Term,
    ) -> Result<bool, ChangeError> {
        let shared = &self.shared;
        let decide = |present: &Configuration| {
            let mut agent = shared.agent.borrow_mut();
            match agent.admit(present, subject, joiner, shared.now()) {
                true => present
                    .finish_join(subject, (joiner, join), (self.name(), term))
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

    /// Notes that the predecessor of `heir` has ended and consents to `heir` as the primary of `subject` in `term`:
    /// this node grants `heir` its lease at once, and asks for its own leases again. The caller has heard the consent
    /// of the predecessor.
    pub fn consented(&self, subject: &Subject, heir: &NodeName, term: Term) {
        let (shared, now) = (&self.shared, self.shared.now());
        shared
            .agent
            .borrow_mut()
            .consented(subject, heir, term, now);
        shared.changed.ring();
    }

    /// Changes the configuration, see [`change`]. The change is in force here when its event has come.
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
        self.stop();
    }
}

/// A writer for `name`, with numbers of its own.
fn writer(name: &NodeName, random: &mut Random) -> Writer {
    Writer::new(name.to_string(), random_from_seed(random.next_u64()))
}
