//! The start of a node: the content of its pool, and its place in the cluster.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_backup::Intake;
use stonecast_base::mutant;
use stonecast_cluster::{EpochCell, FoundCopy, HashRange, Nonce, Subject};
use stonecast_member::{Member, Seat};
use stonecast_replication::{Entry, Lineage, Piece, ShardCopy};

use crate::error::NodeError;
use crate::fences::Fences;
use crate::node::{Bells, Memory, Node, Shared, Told};
use crate::options::{Options, Place};
use crate::own_commits::OwnCommits;
use crate::placed::Placed;
use crate::post::{Hello, Post, Sender};
use crate::rest::run;
use crate::shard::Shard;
use crate::state::{Due, State, Waiting};
use crate::store::Store;
use crate::turn::look_once;

/// The state of a shard that a store has kept.
#[derive(Debug)]
pub struct Left {
    /// The history that was noted last.
    pub history: Lineage,
    /// The records above its floor that this node has stamped, in any order, with their bodies.
    pub own: Vec<(Entry, Vec<u8>)>,
}

impl<S: Store> Node<S> {
    /// Makes the copies from the content of the pool, registers the node, and starts its task. `shards` is the number
    /// of ranges into which the cluster splits the key hashes. The function adds the copies that it finds to the
    /// content of the pool in `seat`.
    ///
    /// # Errors
    /// [`NodeError`]: the pool is damaged, or the node is not registered. Nothing of the node runs.
    pub async fn start<E: EpochCell + 'static>(
        mut seat: Seat<E>,
        store: Rc<S>,
        (place, left, shards): (Place, BTreeMap<u32, Left>, u32),
        options: Options,
    ) -> Result<Self, NodeError> {
        let Place {
            mut intake,
            region,
            key,
            earlier_writers,
        } = place;
        let mut memory = Memory {
            region,
            key,
            earlier_writers,
            is_short: Cell::default(),
        };
        let subject = |number| Subject::Keys(HashRange::even(number, shards));
        let mut found = BTreeMap::new();
        for (number, left) in left {
            refuse_other_cluster(number, &left.history, seat.cluster)?;
            let shard = recovered(number, subject(number), left)?;
            found.insert(number, shard);
        }
        let runtime = seat.runtime.clone();
        loop {
            memory.trust_earlier_writers(&mut intake);
            // Later turns offer a refused segment to the device again.
            let _refused = look_once(&*store, runtime.now(), &mut intake).await?;
            take_left(&memory, &mut intake, &mut found)?;
            if intake.is_left_searched() {
                break;
            }
            runtime.sleep(options.pause_ns).await;
        }
        let copies = found.values_mut().filter_map(found_copy);
        seat.found.copies.extend(copies);
        let (port, name, nonce) = (seat.port.clone(), seat.name.clone(), seat.cluster);
        let member = Member::start(seat).await?;
        let configuration = member.configuration();
        if !mutant!(NumbersOfPredecessor) {
            intake.number_from(configuration.epoch);
        }
        let sender = Sender {
            hello: Hello {
                nonce,
                incarnation: configuration.nodes[&name].incarnation,
                name: name.clone(),
            },
            patience_ns: options.link.patience_ns,
            unready_ns: options.link.unready_ns(),
        };
        let post = Rc::new(Post::new(&port, &runtime, sender));
        post.enter(&configuration);
        let shared = Rc::new(Shared {
            post,
            state: RefCell::new(State {
                placed: Placed::new(&configuration, &name),
                me: name,
                configuration,
                shards: found,
                peers: BTreeMap::new(),
                fences: Fences::default(),
                keepings: Vec::new(),
                due: Due::default(),
                waiting: Waiting::default(),
                lost: Default::default(),
                own_commits: OwnCommits::default(),
                is_changing: false,
            }),
            port,
            runtime,
            store,
            options,
            member,
            memory,
            requests: RefCell::default(),
            is_over: Cell::new(false),
            bells: Bells::default(),
            told: Told::default(),
        });
        let running = run(shared.clone(), intake);
        shared.runtime.spawn(Box::pin(running));
        Ok(Self { shared })
    }
}

fn refuse_other_cluster(shard: u32, history: &Lineage, expected: Nonce) -> Result<(), NodeError> {
    let found = history.nonce;
    match found == expected {
        true => Ok(()),
        false => Err(NodeError::OtherCluster {
            shard,
            found,
            expected,
        }),
    }
}

fn recovered<C>(number: u32, subject: Subject, left: Left) -> Result<Shard<C>, NodeError> {
    let mut shard = Shard::new(number, subject);
    shard.floor = left.history.floor;
    shard.copies(ShardCopy::new(number, left.history));
    for (entry, body) in left.own {
        let taken = shard.take(entry, Piece::WHOLE, body);
        taken.map_err(|later| NodeError::LaterTerm {
            shard: number,
            later,
        })?;
    }
    Ok(shard)
}

/// Takes entries that an earlier run left. Entries of a shard without a history belong to a dropped
/// copy.
fn take_left<C>(
    memory: &Memory,
    intake: &mut Intake,
    shards: &mut BTreeMap<u32, Shard<C>>,
) -> Result<(), NodeError> {
    for found in intake.take_found() {
        let number = found.entry.shard;
        if let Some(shard) = shards.get_mut(&number)
            && let Some(body) = memory.body_of(&found)
        {
            let taken = shard.take(found.entry, found.piece, body);
            taken.map_err(|later| NodeError::LaterTerm {
                shard: number,
                later,
            })?;
        }
    }
    Ok(())
}

fn found_copy<C>(shard: &mut Shard<C>) -> Option<(Subject, FoundCopy)> {
    let subject = shard.subject.clone();
    let copy = shard.copy()?;
    let found = FoundCopy {
        contiguous: copy.end().version,
        horizon: copy.needed(),
    };
    Some((subject, found))
}
