//! The sessions of this client: one with each node that it needs, opened at first use. A session lasts as long as its node.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use stonecast_base::Nanoseconds;
use stonecast_cluster::{NodeName, Term};
use stonecast_fabric::Runtime;

use super::Dial;
use super::error::ClusterError;
use super::leases::Leases;
use super::map::{Map, Place};
use crate::client::{Client, ClientOptions, FairLock};
use crate::error::StoreError;
use crate::wire::KeyMap;

/// The pause of a task that renews leases while nobody reads.
const IDLE_NS: Nanoseconds = 20_000_000;

/// A session with a node, and the leases on its memory.
pub(super) struct Node {
    pub client: Client,
    pub leases: Leases,
}

/// See the module documentation.
pub(super) struct Nodes {
    dial: Dial,
    runtime: Rc<dyn Runtime>,
    options: ClientOptions,
    open: RefCell<BTreeMap<NodeName, Rc<Node>>>,
    /// The division of keys among shards, as the first node told it. All nodes hash alike.
    keys: Cell<Option<KeyMap>>,
    /// Held by the one call that opens a session.
    opening: FairLock,
}

impl Nodes {
    /// Opens a session with the first primary that answers, of those that `map` names.
    pub async fn open(
        dial: Dial,
        runtime: Rc<dyn Runtime>,
        options: ClientOptions,
        map: &Map,
    ) -> Result<Self, ClusterError> {
        let nodes = Self {
            dial,
            runtime,
            options,
            open: RefCell::default(),
            keys: Cell::new(None),
            opening: FairLock::default(),
        };
        let mut failed = None;
        for shard in 0..map.shards() {
            match nodes.session(map, shard).await {
                Ok(_) => return Ok(nodes),
                Err(error) => failed = Some((shard, error)),
            }
        }
        let (shard, error) = failed.expect("there are shards");
        let source = Box::new(error);
        Err(ClusterError::NotServed { shard, source })
    }

    /// The shard of a key.
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        let keys = self.keys.get().expect("told at the connect");
        keys.route(key).shard
    }

    /// Ends the session with the node `name` once no call uses the session.
    pub fn leave(&self, name: &NodeName) {
        self.open.borrow_mut().remove(name);
    }

    /// The session with the primary that `map` names for `shard`, in the term that it names.
    pub async fn session(&self, map: &Map, shard: u32) -> Result<Rc<Node>, StoreError> {
        let place = map.place(shard);
        let node = match self.find(place.name) {
            Some(node) => node,
            None => self.open_session(map, shard, &place).await?,
        };
        if node.client.term(shard) != Some(place.term) {
            node.client.enter(shard, place.term).await?;
        }
        Ok(node)
    }

    fn find(&self, name: &NodeName) -> Option<Rc<Node>> {
        let open = self.open.borrow();
        open.get(name).filter(|it| !it.client.is_closed()).cloned()
    }

    #[cold]
    async fn open_session(
        &self,
        map: &Map,
        shard: u32,
        place: &Place<'_>,
    ) -> Result<Rc<Node>, StoreError> {
        let _turn = self.opening.lock().await;
        if let Some(node) = self.find(place.name) {
            // Another call was faster.
            return Ok(node);
        }
        let mut failed = StoreError::refused(place.name.as_str(), "the node has no address");
        for address in &place.node.addresses {
            match self.connect(address, (shard, place.term)).await {
                Ok(client) => match self.fault_of(&client, map, place) {
                    Some(fault) => failed = StoreError::refused(address, fault),
                    None => return Ok(self.add(place.name, client)),
                },
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The reason why `client` has no session with the node at `place`, if any: an address may have been given to another node since.
    fn fault_of(&self, client: &Client, map: &Map, place: &Place<'_>) -> Option<&'static str> {
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

    async fn connect(&self, address: &str, first: (u32, Term)) -> Result<Client, StoreError> {
        let port = (self.dial)(address)?;
        Client::connect_to(first, self.options, port, self.runtime.clone(), address).await
    }

    fn add(&self, name: &NodeName, client: Client) -> Rc<Node> {
        self.keys.set(Some(client.keys()));
        let leases = Leases::new(name.clone(), client.shards());
        let node = Rc::new(Node { client, leases });
        let keeping = keep(Rc::downgrade(&node), self.runtime.clone());
        self.runtime.spawn(Box::pin(keeping));
        let mut open = self.open.borrow_mut();
        open.insert(name.clone(), node.clone());
        node
    }
}

/// Renews the leases of `node` as long as they are used, and until the session ends.
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
            // A GET that finds no lease asks for one itself, and has the error.
            let _ = node.leases.renew(&node.client, || runtime.now()).await;
        }
    }
}
