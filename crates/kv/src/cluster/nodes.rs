//! The sessions of this client: one with each node that it needs, opened at first use. A session lasts as long as its
//! node.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use stonecast_base::Nanoseconds;
use stonecast_cluster::{NodeName, Term};
use stonecast_fabric::Runtime;

use super::leases::ReaderLeases;
use super::map::{Map, Primary};
use super::options::{ClusterOptions, Dial};
use super::routes::Routes;
use crate::client::{Client, FairLock};
use crate::error::StoreError;
use crate::wire::{KeyMap, Route};

/// The reason in the error about a node that does not answer.
const SILENT: &str = "the node did not answer in time";
/// The pause of the task that renews leases while no GET needs one.
const IDLE_NS: Nanoseconds = 20_000_000;

/// A session with a node, and the leases on its memory.
pub(super) struct Node {
    pub name: NodeName,
    pub client: Client,
    pub leases: ReaderLeases,
}

pub(super) struct Nodes {
    dial: Dial,
    runtime: Rc<dyn Runtime>,
    options: ClusterOptions,
    seats: RefCell<BTreeMap<NodeName, Rc<Seat>>>,
    /// The division of keys among shards, as the first node told it. All nodes hash alike.
    keys: Cell<Option<KeyMap>>,
    pub routes: Routes,
}

/// The place of the session with one node.
#[derive(Default)]
struct Seat {
    session: RefCell<Option<Rc<Node>>>,
    /// Held by the one call that opens a session with the node. A node that does not answer delays no session with
    /// another one.
    opening: FairLock,
}

impl Seat {
    fn session(&self) -> Option<Rc<Node>> {
        let session = self.session.borrow();
        session
            .as_ref()
            .filter(|it| !it.client.is_closed())
            .cloned()
    }
}

impl Nodes {
    pub fn new(dial: Dial, runtime: Rc<dyn Runtime>, options: ClusterOptions) -> Self {
        Self {
            dial,
            runtime,
            options,
            seats: RefCell::default(),
            keys: Cell::new(None),
            routes: Routes::default(),
        }
    }

    /// Opens a session with the first primary in `map` that answers before the `deadline`. Each primary gets a part of
    /// the patience. The error is that of the last primary, with its shard.
    pub async fn open(&self, map: &Map, deadline: Nanoseconds) -> Result<(), (u32, StoreError)> {
        let mut failed = None;
        for shard in map.first_shards() {
            let left = deadline.saturating_sub(self.runtime.now());
            let limit = self.options.attempt_ns().min(left);
            match self.runtime.within(limit, self.session(map, shard)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => failed = Some((shard, error)),
                Err(_) => {
                    let name = map.place(shard).name.as_str();
                    failed = Some((shard, StoreError::refused(name, SILENT)));
                }
            }
        }
        Err(failed.expect("there are shards"))
    }

    /// The shard of a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.route(key).shard
    }

    /// The way to a key, on the node that leads the key's shard.
    #[inline]
    pub fn route(&self, key: &[u8]) -> Route {
        let keys = self.keys.get().expect("told at the connect");
        keys.route(key)
    }

    /// Ends the session with the node `name` once no call uses the session.
    pub fn leave(&self, name: &NodeName) {
        self.routes.forget(name);
        if let Some(seat) = self.seats.borrow().get(name) {
            seat.session.take();
        }
    }

    /// The session with the primary that `map` names for `shard`, in the term that `map` names.
    pub async fn session(&self, map: &Map, shard: u32) -> Result<Rc<Node>, StoreError> {
        let place = map.place(shard);
        let seat = self.seat(place.name);
        let node = match seat.session() {
            Some(node) => node,
            None => self.open_session(&seat, map, shard, &place).await?,
        };
        if node.client.term(shard) != Some(place.term) {
            node.client.enter(shard, place.term).await?;
        }
        self.routes.note(shard, &node);
        Ok(node)
    }

    /// Gives back the room that this client holds at all nodes but `name`, and did not use for `unused_ns`.
    pub fn give_up_unused(&self, name: &NodeName, unused_ns: Nanoseconds) {
        for node in self.sessions().iter().filter(|node| node.name != *name) {
            node.client.give_up_unused(unused_ns);
        }
    }

    /// All open sessions.
    pub fn sessions(&self) -> Vec<Rc<Node>> {
        let seats = self.seats.borrow();
        seats.values().filter_map(|seat| seat.session()).collect()
    }

    /// All open sessions, which end with the last call that uses them.
    pub fn take_all(&self) -> Vec<Rc<Node>> {
        self.routes.clear();
        let seats = self.seats.take();
        seats.values().filter_map(|seat| seat.session()).collect()
    }

    fn seat(&self, name: &NodeName) -> Rc<Seat> {
        let mut seats = self.seats.borrow_mut();
        match seats.get(name) {
            Some(seat) => seat.clone(),
            None => seats.entry(name.clone()).or_default().clone(),
        }
    }

    #[cold]
    async fn open_session(
        &self,
        seat: &Seat,
        map: &Map,
        shard: u32,
        place: &Primary<'_>,
    ) -> Result<Rc<Node>, StoreError> {
        let _turn = seat.opening.lock().await;
        if let Some(node) = seat.session() {
            // Another call was faster.
            return Ok(node);
        }
        let mut failed = StoreError::refused(place.name.as_str(), "the node has no address");
        for address in &place.node.addresses {
            match self.connect(address, (shard, place.term)).await {
                Ok(client) => match self.fault_of(&client, map, place) {
                    Some(fault) => failed = StoreError::refused(address, fault),
                    None => return Ok(self.add(seat, place.name, client)),
                },
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The reason why `client` has no session with the node at `place`, if any: an address may have been given to
    /// another node since.
    fn fault_of(&self, client: &Client, map: &Map, place: &Primary<'_>) -> Option<&'static str> {
        let keys = self.keys.get();
        if client.pool() != place.node.pool.as_u128() {
            Some("the node has another pool than the configuration names")
        } else if client.shards() != map.shards() {
            Some("the node has another number of shards than the configuration")
        } else if keys.is_some_and(|keys| keys != client.keys()) {
            Some("the node hashes keys in another way than the first node")
        } else {
            None
        }
    }

    /// A session with the node at `address`, which has a part of the patience to answer.
    async fn connect(&self, address: &str, first: (u32, Term)) -> Result<Client, StoreError> {
        let port = (self.dial)(address)?;
        let (session, runtime) = (self.options.session, self.runtime.clone());
        let connected = Client::connect_to(first, session, port, runtime, address);
        let connected = self.runtime.within(self.options.attempt_ns(), connected);
        let silent = |_| StoreError::refused(address, SILENT);
        connected.await.unwrap_or_else(|late| Err(silent(late)))
    }

    fn add(&self, seat: &Seat, name: &NodeName, client: Client) -> Rc<Node> {
        self.keys.set(Some(client.keys()));
        let leases = ReaderLeases::new(name.clone(), client.shards());
        let node = Rc::new(Node {
            name: name.clone(),
            client,
            leases,
        });
        let keeping = keep(Rc::downgrade(&node), self.runtime.clone());
        self.runtime.spawn(Box::pin(keeping));
        seat.session.replace(Some(node.clone()));
        node
    }
}

/// Renews the leases of a node as long as they are used, and until the session ends.
async fn keep(node: Weak<Node>, runtime: Rc<dyn Runtime>) {
    let mut pause = IDLE_NS;
    loop {
        runtime.sleep(pause).await;
        let Some(node) = node.upgrade().filter(|node| !node.client.is_closed()) else {
            return;
        };
        let due = node.leases.due_in();
        pause = due.unwrap_or(IDLE_NS);
        if due.is_some() {
            // A GET that finds no lease asks for one itself, and gets the error. A node that is
            // silent for two pauses, the length of a
            // lease, gives none, and the session may have been left meanwhile.
            let renewed = node.leases.renew(&node.client, || runtime.now());
            let _ = runtime.within(2 * pause, renewed).await;
        }
    }
}
