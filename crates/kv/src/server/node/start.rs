//! The start of a node: the content of its pool, and the options of its parts.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_backup::{Hello, Intake, IntakeOptions, LinkOptions, Pace, Pool as AppendPool};
use stonecast_base::{Nanoseconds, hash};
use stonecast_cluster::EpochCell;
use stonecast_fabric::Port;
use stonecast_log::{
    History, Ledger, Link, LogFormat, RECORD_BODY_SIZE_MAX, Record, RecordHeader, SegmentState,
};
use stonecast_media::{AppendedLog, Pool, Region};
use stonecast_member::Seat;
use stonecast_node::{EarlierWriters, Left, Node, NodeError, Options, Place};
use stonecast_persist::Platform;
use stonecast_replication::{AppendKey, Entry, Kind};

use super::{NodeStore, ServerNode};

/// Options of a server that is a node of a cluster.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes of the longest message with which other nodes append. Longer records come in pieces. A device without
    /// multi-packet queues takes as much memory for every message.
    pub message_size_max: u32,
    /// The most nodes that append to this one at the same time, those whose sessions are ending
    /// included.
    pub sessions_max: usize,
    /// Segments of the pool that are posted for appends at any time.
    pub ahead: usize,
    /// Bytes of the entries of this node's shards that may wait for copies.
    pub unsettled_max: u64,
    /// Longest pause of the node between two turns while there is something to do.
    pub pause_ns: Nanoseconds,
    /// Pause before an unanswered letter is repeated, and before a failed link is tried again.
    pub repeat_ns: Nanoseconds,
    /// Longest time that the node waits for its own medium. A node that waits longer ends, so that others lead its
    /// shards.
    pub medium_patience_ns: Nanoseconds,
    /// Entries that are digested before the floor of a shard rises.
    pub floor_after: u64,
    /// Time after which the floor rises even for fewer entries.
    pub floor_after_ns: Nanoseconds,
    /// Longest rest of a node between two turns.
    pub rest_ns: Nanoseconds,
}

impl NodeOptions {
    /// Options for a pool with segments of this many bytes, and for so many nodes.
    pub fn new(segment_size: u64, nodes: usize) -> Self {
        Self {
            message_size_max: (segment_size / 64).clamp(1024, 4096) as u32,
            sessions_max: 2 * nodes.max(2),
            ahead: 2,
            unsettled_max: segment_size / 2,
            pause_ns: 20_000,
            repeat_ns: 500_000,
            medium_patience_ns: 10_000_000_000,
            floor_after: 256,
            floor_after_ns: 5_000_000,
            rest_ns: 50_000_000,
        }
    }

    /// Completions for which the port of a node needs room beside those of its clients: each posted slot may complete.
    pub fn completions(&self, segment_size: u64) -> u64 {
        let slots = segment_size / u64::from(self.message_size_max) + 1;
        let sessions = self.sessions_max as u64 * u64::from(stonecast_member::COMPLETIONS_PER_PEER);
        (self.ahead as u64 + 1) * slots + 2 * sessions + 1024
    }

    fn intake(&self, pool: &Pool, seat_nonce: stonecast_cluster::Nonce) -> IntakeOptions {
        let windows = (self.ahead as u64 - 1) * pool.segment_size() / 2;
        let window_size = windows / self.sessions_max as u64;
        IntakeOptions {
            nonce: seat_nonce,
            run: pool.opening(),
            platform: Platform::of(pool.platform()),
            durability: pool.durability(),
            sessions_max: self.sessions_max,
            ahead: self.ahead,
            entry_size_max: self.message_size_max,
            window_size,
            pace: Pace {
                units: 256,
                // The lines that one wait for the medium brings.
                open_units: 16,
                // Half of a window arrives meanwhile, at a byte a nanosecond.
                pause_ns: self.pause_ns.min(window_size / 2),
            },
            ask_again_ns: self.pause_ns,
            rnr_retry_count: 50,
            rnr_retry_delay_ns: self.pause_ns,
        }
    }

    fn node(&self, pool: &Pool, hello: Hello) -> Options {
        Options {
            link: LinkOptions {
                hello,
                durability: pool.durability(),
                entries_max: 1024,
                staging_size: 4 * self.unsettled_max.max(self.message_size_max.into()),
                patience_ns: 6 * self.repeat_ns,
                rnr_retry_count: 4,
                rnr_retry_delay_ns: 10_000,
            },
            record_size_max: RECORD_BODY_SIZE_MAX as u32,
            unsettled_max: self.unsettled_max,
            pause_ns: self.pause_ns,
            look_ns: 5 * self.pause_ns,
            repeat_ns: self.repeat_ns,
            medium_patience_ns: self.medium_patience_ns,
            idle_ns: 10 * self.pause_ns,
            floor_after: self.floor_after,
            floor_after_ns: self.floor_after_ns,
            rest_ns: self.rest_ns,
        }
    }
}

/// The key of appends to `pool`: two words that only this pool can make, and that it makes again at each start.
fn append_words(pool: &Pool) -> [u64; 2] {
    [b"append-1", b"append-2"].map(|purpose| hash::siphash24(pool.secret(), purpose))
}

/// The state of each shard that the pool has a copy of: the history that was kept last, and the own records above its
/// floor.
pub(in crate::server) fn left_by(
    log: &dyn Region,
    ledger: &Ledger,
    history: &History,
) -> BTreeMap<u32, Left> {
    let kept = ledger.lineages().iter();
    let kept = kept.filter(|(_, lineage)| !lineage.is_dropped());
    let left = kept.map(|(shard, lineage)| {
        let chain = history.chains.get(&shard).into_iter().flatten();
        let own = chain.map(|link| own_entry(log, shard, link, lineage.floor.version));
        let left = Left {
            own: own.collect(),
            history: lineage.clone(),
        };
        (shard, left)
    });
    left.collect()
}

fn own_entry(log: &dyn Region, shard: u32, link: &Link, horizon: u64) -> (Entry, Vec<u8>) {
    let &Link {
        position,
        term,
        version,
        previous,
    } = link;
    let entry = Entry {
        shard,
        term,
        version,
        previous,
        horizon,
        kind: Kind::Record,
    };
    (entry, body_at(log, position))
}

/// The body of the record at `position`, which a scan has found whole.
fn body_at(log: &dyn Region, position: u64) -> Vec<u8> {
    let mut start = [0; stonecast_log::RECORD_START_SIZE];
    log.read(position, &mut start);
    let header = RecordHeader::parse(&start).expect("the scan has read this header");
    let mut record = vec![0; header.whole_size() as usize];
    log.read(position, &mut record);
    Record::body_of(&header, &record)
}

/// The log of a medium that does not distinguish nodes from clients.
fn shared_with_clients(pool: &Pool) -> AppendedLog {
    let backing = pool.backing();
    AppendedLog {
        region: pool.log(),
        are_earlier_gone: Box::new(move || backing.earlier_writers_are_gone()),
    }
}

/// Starts the node on the content of its pool.
///
/// # Errors
/// [`NodeError`]: nothing of the node runs.
pub(in crate::server) async fn begin<E: EpochCell + 'static>(
    seat: Seat<E>,
    (pool, appended, port): (&Pool, Option<AppendedLog>, &Rc<Port>),
    store: Rc<NodeStore>,
    (left, segments): (BTreeMap<u32, Left>, Vec<SegmentState>),
    options: &NodeOptions,
) -> Result<ServerNode, NodeError> {
    let format = LogFormat::of(pool);
    let key = append_words(pool);
    let AppendedLog {
        region,
        are_earlier_gone,
    } = appended.unwrap_or_else(|| shared_with_clients(pool));
    let are_gone = are_earlier_gone();
    let appends = AppendPool {
        region: pool.log(),
        appended: region,
        format,
        key,
        ledger: store.ledger().clone(),
        segments,
        earlier_writers_are_gone: are_gone,
    };
    let intake = Intake::start(port, appends, &options.intake(pool, seat.cluster))?;
    let place = Place {
        intake,
        region: pool.log(),
        key: AppendKey::new(key, seat.cluster),
        earlier_writers: match are_gone {
            true => EarlierWriters::Gone,
            false => EarlierWriters::AskedAfter(are_earlier_gone),
        },
    };
    let hello = Hello {
        nonce: seat.cluster,
        node: seat.name.clone(),
    };
    let node = options.node(pool, hello);
    Node::start(seat, store, (place, left, pool.shards()), node).await
}
