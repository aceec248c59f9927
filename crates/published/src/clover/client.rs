//! A client: all reads and writes of the store.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use futures_util::future::try_join_all;
use stonecast_fabric::{LocalSpan, Operation, Port, RemoteAddress, Rkey, Runtime, Status};

use super::CloverOptions;
use super::pointer::{Pointer, SHORTCUT, UNIT, encode, parse};
use crate::PublishedError;
use crate::rowan::caller::Caller;
use crate::rowan::message::{Kind, Outcome};
use crate::rowan::replication::staging::Staging;

/// Versions that are followed before the shortcut is read.
const CHASE_MAX: u32 = 4;

/// Keys whose heads are asked for with one request.
const OPENED_MAX: usize = 64;

/// The knowledge of the clients of a machine about keys.
#[derive(Default)]
pub struct CloverCache {
    /// The head of each key, and the version that was seen last.
    keys: RefCell<HashMap<u64, (u64, u64)>>,
}

/// A client with a connection to each node. Several operations may be under way at a time.
pub struct CloverClient {
    options: CloverOptions,
    cache: Rc<CloverCache>,
    controller: Rc<Caller>,
    nodes: Vec<Node>,
    staging: Staging,
    /// Places to write versions to, by units.
    places: RefCell<BTreeMap<u64, Vec<u64>>>,
    /// Versions that were replaced, and that the metadata server has not got back.
    replaced: RefCell<Vec<u64>>,
}

struct Node {
    link: Rc<Caller>,
    address: u64,
    rkey: Rkey,
}

impl CloverClient {
    /// Connects to all nodes and to the metadata server.
    ///
    /// # Errors
    ///
    /// A node or the metadata server is not there.
    pub async fn connect(
        options: &CloverOptions,
        cache: Rc<CloverCache>,
        port: &Rc<Port>,
        runtime: &Rc<dyn Runtime>,
    ) -> Result<Self, PublishedError> {
        let mut nodes = Vec::new();
        for node in 0..options.nodes {
            let address = options.node_address(node);
            let (link, welcome) = Caller::connect(port, runtime, &address, &[]).await?;
            let (&[address, rkey], []) = welcome.as_chunks::<8>() else {
                return Err(PublishedError::Protocol("a welcome of another length"));
            };
            nodes.push(Node {
                link,
                address: u64::from_le_bytes(address),
                rkey: Rkey(u64::from_le_bytes(rkey) as u32),
            });
        }
        let address = options.controller_address();
        let (controller, _) = Caller::connect(port, runtime, &address, &[]).await?;
        Ok(Self {
            options: options.clone(),
            cache,
            controller,
            nodes,
            staging: Staging::new(port)?,
            places: RefCell::default(),
            replaced: RefCell::default(),
        })
    }

    /// Looks up a key. Returns whether it is present, and its value in `into`.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub async fn get(&self, key: u64, into: &mut Vec<u8>) -> Result<bool, PublishedError> {
        let (head, mut version) = self.open(key).await?;
        let mut steps = 0;
        loop {
            let bytes = self.read(version, version.size()).await?;
            let (next, value) = parse(&bytes);
            if let Some(next) = Pointer::from_word(next) {
                version = self.follow(head, next, &mut steps).await?;
                continue;
            }
            self.remember(key, head, version);
            into.clear();
            into.extend_from_slice(value.filter(|_| version != head).unwrap_or_default());
            return Ok(value.is_some() && version != head);
        }
    }

    /// Stores a value.
    ///
    /// # Errors
    ///
    /// [`PublishedError::Full`]; a node is gone, and the value may be stored or not.
    pub async fn put(&self, key: u64, value: &[u8]) -> Result<(), PublishedError> {
        let bytes = encode(key, Some(value));
        let new = self.take_place((bytes.len() as u64).div_ceil(UNIT)).await?;
        self.write_copies(new, 0, &bytes).await?;
        let (head, mut version) = self.open(key).await?;
        let mut steps = 0;
        while let Some(next) = self.link(version, new).await? {
            version = self.follow(head, next, &mut steps).await?;
        }
        // The other copies of the version before learn of the new one, too.
        self.write_copies(version, 0, &new.to_word().to_le_bytes())
            .await?;
        self.remember(key, head, new);
        self.write_shortcut(head, new)?;
        self.give_back(version).await
    }

    /// Gives `version` back, with others that were replaced.
    async fn give_back(&self, version: Pointer) -> Result<(), PublishedError> {
        let each = self.options.returned_each;
        if each == 0 {
            return Ok(());
        }
        self.replaced.borrow_mut().push(version.to_word());
        if self.replaced.borrow().len() < each {
            return Ok(());
        }
        let words = self.replaced.take();
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut empty = Vec::new();
        let answer = self.controller.call(Kind::Retire, 0, &body, &mut empty);
        match answer.await? {
            Outcome::Done => Ok(()),
            _ => Err(PublishedError::Protocol("a version is not taken back")),
        }
    }

    /// Asks for the heads of keys that the clients of this machine have not seen.
    ///
    /// # Errors
    ///
    /// The metadata server is gone or has no room.
    pub async fn open_all(&self, keys: &[u64]) -> Result<(), PublishedError> {
        for part in keys.chunks(OPENED_MAX) {
            let heads = self.ask(Kind::Open, 0, part).await?;
            let cached = &mut *self.cache.keys.borrow_mut();
            for (&key, &head) in part.iter().zip(&heads) {
                cached.entry(key).or_insert((head, head));
            }
        }
        Ok(())
    }

    /// The head of a key, and the version that was seen last.
    async fn open(&self, key: u64) -> Result<(Pointer, Pointer), PublishedError> {
        let known = self.cache.keys.borrow().get(&key).copied();
        let (head, version) = match known {
            Some(known) => known,
            None => {
                let head = self.ask(Kind::Open, 0, &[key]).await?[0];
                self.cache.keys.borrow_mut().insert(key, (head, head));
                (head, head)
            }
        };
        let pointer = |word| Pointer::from_word(word).ok_or(PublishedError::Protocol("no head"));
        Ok((pointer(head)?, pointer(version)?))
    }

    fn remember(&self, key: u64, head: Pointer, version: Pointer) {
        let known = (head.to_word(), version.to_word());
        self.cache.keys.borrow_mut().insert(key, known);
    }

    /// The version to look at after `next` was found: `next`, or the one of the shortcut if the chain is long.
    async fn follow(
        &self,
        head: Pointer,
        next: Pointer,
        steps: &mut u32,
    ) -> Result<Pointer, PublishedError> {
        *steps += 1;
        if !steps.is_multiple_of(CHASE_MAX) {
            return Ok(next);
        }
        let place = Pointer {
            offset: head.offset + SHORTCUT,
            ..head
        };
        let bytes = self.read(place, 8).await?;
        let word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        Ok(Pointer::from_word(word).unwrap_or(next))
    }

    /// Places from the metadata server.
    async fn ask(&self, kind: Kind, units: u64, keys: &[u64]) -> Result<Vec<u64>, PublishedError> {
        let keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let mut body = Vec::new();
        match self.controller.call(kind, units, &keys, &mut body).await? {
            Outcome::Done if body.len() >= 8 => {}
            Outcome::Full => return Err(PublishedError::Full),
            _ => return Err(PublishedError::Protocol("no places")),
        }
        let (words, _) = body.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    async fn take_place(&self, units: u64) -> Result<Pointer, PublishedError> {
        loop {
            let place = self.places.borrow_mut().entry(units).or_default().pop();
            if let Some(place) = place.and_then(Pointer::from_word) {
                return Ok(place);
            }
            let places = self.ask(Kind::Allocate, units, &[]).await?;
            self.places
                .borrow_mut()
                .entry(units)
                .or_default()
                .extend(places);
        }
    }

    fn remote(&self, node: u32, offset: u64) -> RemoteAddress {
        let Node { address, rkey, .. } = self.nodes[node as usize];
        RemoteAddress {
            address: address + offset,
            rkey,
        }
    }

    async fn submit(&self, node: u32, operations: &[Operation]) -> Result<(), PublishedError> {
        let endpoint = self.nodes[node as usize].link.endpoint();
        match endpoint.port().submit(endpoint.qp(), operations).await? {
            Status::Success => Ok(()),
            status => Err(PublishedError::Failed(status)),
        }
    }

    /// Reads from the first copy.
    async fn read(&self, place: Pointer, size: usize) -> Result<Vec<u8>, PublishedError> {
        let mut bytes = vec![0; size];
        let staged = self.staging.stage(&bytes)?;
        let read = Operation::Read {
            local: staged.span,
            remote: self.remote(place.node, place.offset),
        };
        self.submit(place.node, &[read]).await?;
        self.staging.read(&staged, &mut bytes);
        Ok(bytes)
    }

    /// Writes to all copies, and waits until they are persisted.
    async fn write_copies(
        &self,
        place: Pointer,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), PublishedError> {
        let staged = self.staging.stage(bytes)?;
        let CloverOptions { copies, nodes, .. } = self.options;
        let write = |node: u32| {
            let remote = self.remote(node, place.offset + offset);
            let local = staged.span;
            async move {
                let flushed = self.staging.stage(&[0])?;
                let write = Operation::Write { local, remote };
                let flush = Operation::Read {
                    local: flushed.span,
                    remote,
                };
                self.submit(node, &[write, flush]).await
            }
        };
        try_join_all(place.nodes(copies, nodes).map(write)).await?;
        Ok(())
    }

    /// Lets `version` name `new` as its next. Returns the next version that it has already.
    async fn link(
        &self,
        version: Pointer,
        new: Pointer,
    ) -> Result<Option<Pointer>, PublishedError> {
        let staged = self.staging.stage(&[0; 8])?;
        let swap = Operation::CompareAndSwap {
            local: staged.span,
            remote: self.remote(version.node, version.offset),
            expected: 0,
            swap: new.to_word(),
        };
        self.submit(version.node, &[swap]).await?;
        let mut found = [0; 8];
        self.staging.read(&staged, &mut found);
        Ok(Pointer::from_word(u64::from_le_bytes(found)))
    }

    /// Lets the shortcut of a key name its newest version. No operation waits for that write.
    fn write_shortcut(&self, head: Pointer, new: Pointer) -> Result<(), PublishedError> {
        let node = &self.nodes[head.node as usize];
        let local: LocalSpan = node.link.keep(&new.to_word().to_le_bytes());
        let remote = self.remote(head.node, head.offset + SHORTCUT);
        let endpoint = node.link.endpoint();
        let write = Operation::Write { local, remote };
        Ok(endpoint.port().post(endpoint.qp(), [write])?)
    }
}
