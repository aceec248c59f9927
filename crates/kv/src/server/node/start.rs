//! The start of a node: the content of its pool, and the options of its parts.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_backup::{Hello, Intake, IntakeOptions, LinkOptions, Pace, Pool as AppendPool};
use stonecast_base::{Nanoseconds, hash, mutant};
use stonecast_cluster::EpochCell;
use stonecast_fabric::Port;
use stonecast_log::{
    BatchPlace, History, Ledger, Link, LogFormat, RECORD_BODY_SIZE_MAX, Record, RecordHeader,
    SegmentState, batch_body, batch_body_size,
};
use stonecast_media::{AppendedLog, Pool, Region};
use stonecast_member::Seat;
use stonecast_node::{EarlierWriters, Left, Node, NodeError, Options, Place};
use stonecast_persist::Platform;
use stonecast_replication::{AppendKey, Entry, Kind};

use super::store::{NodeStore, ServerNode};
use crate::wire::limits::{BATCH_KEYS_MAX, BATCH_SIZE_MAX};

/// The pause of a link before it offers an entry again for which a copy had no buffer.
const LINK_RETRY_NS: Nanoseconds = 10_000;

/// The patience with a copy that takes no entry, in patiences of a node with its own medium.
const COPY_PATIENCES: u64 = 2;

/// Options of a server that is a node of a cluster.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes of the longest message with which other nodes append. Longer records come in pieces. A device without
    /// multi-packet queues takes as much memory for every message.
    pub message_size_max: u32,
    /// The most nodes that append to this node at the same time, including nodes whose sessions are ending.
    pub sessions_max: usize,
    /// Segments of the pool that are posted for appends at any time.
    pub ahead: usize,
    /// Bytes of the entries of this node's shards that may wait for copies.
    pub unsettled_max: u64,
    /// Longest pause of the node between two turns while there is something to do.
    pub pause_ns: Nanoseconds,
    /// Pause before an unanswered letter is repeated, and before a failed link is opened again.
    pub repeat_ns: Nanoseconds,
    /// Longest time until a peer accepts a session, and describes its log. Between machines, a session takes several
    /// exchanges, queue pairs and registered memory on both sides, and the fence of the session before it.
    pub connect_ns: Nanoseconds,
    /// Time for which a peer may have no buffer for a message before its sessions end, at least: a process that waits
    /// for its processor takes no message, and gives no buffer back. A machine that is far away, or busy, needs more
    /// than the least waits of the sessions.
    pub unready_ns: Nanoseconds,
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
        let message_size_max = (segment_size / 64).clamp(1024, 4096) as u32;
        let sessions_max = 2 * nodes.max(2);
        // The window of each session has to pay the longest message, and all windows together are half of the posted
        // segments but one, which may be full and wait for its search.
        let windows = 2 * sessions_max as u64 * u64::from(message_size_max);
        Self {
            message_size_max,
            sessions_max,
            ahead: 1 + windows.div_ceil(segment_size).max(1) as usize,
            unsettled_max: segment_size / 2,
            pause_ns: 20_000,
            repeat_ns: 500_000,
            connect_ns: 3_000_000,
            unready_ns: 0,
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
                units: 512,
                // The lines that one wait for the medium brings.
                open_units: 16,
                // Half of a window arrives meanwhile, at a byte a nanosecond.
                pause_ns: self.pause_ns.min(window_size / 2),
            },
            ask_again_ns: self.pause_ns,
            rnr_retry_count: self.retries(50, self.pause_ns),
            rnr_retry_delay_ns: self.pause_ns,
        }
    }

    /// The retries of a message, each after `pause_ns`, at least `least`.
    fn retries(&self, least: u32, pause_ns: Nanoseconds) -> u32 {
        let retries = self.unready_ns.div_ceil(pause_ns);
        u32::try_from(retries).unwrap_or(u32::MAX).max(least)
    }

    fn node(&self, pool: &Pool, hello: Hello) -> Options {
        Options {
            link: LinkOptions {
                hello,
                durability: pool.durability(),
                entries_max: 1024,
                staging_size: 4 * self.unsettled_max.max(self.message_size_max.into()),
                patience_ns: self.connect_ns,
                rnr_retry_count: self.retries(4, LINK_RETRY_NS),
                rnr_retry_delay_ns: LINK_RETRY_NS,
            },
            record_size_max: ENTRY_BODY_SIZE_MAX as u32,
            unsettled_max: self.unsettled_max,
            pause_ns: self.pause_ns,
            look_ns: 5 * self.pause_ns,
            repeat_ns: self.repeat_ns,
            medium_patience_ns: self.medium_patience_ns,
            copy_patience_ns: COPY_PATIENCES * self.medium_patience_ns,
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
        let chain = history.chains.get(&shard).map_or(&[][..], Vec::as_slice);
        let left = Left {
            own: own_entries(log, shard, chain, lineage.floor.version),
            history: lineage.clone(),
        };
        (shard, left)
    });
    left.collect()
}

/// The entries of the records of `chain`, which a scan has found whole: one for each batch, and one for each other
/// record.
fn own_entries(
    log: &dyn Region,
    shard: u32,
    chain: &[Link],
    horizon: u64,
) -> Vec<(Entry, Vec<u8>)> {
    let mut entries = Vec::new();
    let (mut bodies, mut before) = (Vec::new(), None);
    for link in chain {
        let (place, body) = body_at(log, link.position);
        bodies.push(body);
        let previous = *before.get_or_insert(link.previous);
        if place.is_some_and(|place| !place.is_last()) && !mutant!(BatchLeftInParts) {
            continue;
        }
        let entry = Entry {
            shard,
            term: link.term,
            version: link.version,
            previous,
            horizon,
            kind: Kind::Record,
        };
        let body = match place {
            Some(_) => batch_body(&bodies),
            None => bodies.swap_remove(0),
        };
        entries.push((entry, body));
        bodies.clear();
        before = None;
    }
    assert!(
        bodies.is_empty(),
        "floors and cuts lie between batches, and a scan finds whole ones"
    );
    entries
}

/// The place in its batch, and the body, of the record at `position`, which a scan has found whole.
fn body_at(log: &dyn Region, position: u64) -> (Option<BatchPlace>, Vec<u8>) {
    let mut start = [0; stonecast_log::RECORD_START_SIZE];
    log.read(position, &mut start);
    let header = RecordHeader::parse(&start).expect("the scan has read this header");
    let mut record = vec![0; header.whole_size() as usize];
    log.read(position, &mut record);
    (header.batch(), Record::body_of(&header, &record))
}

/// Bytes of the longest entry: that of the longest record, or of the largest batch. A record takes at most 12 bytes
/// more in an entry than in the message of its client.
const ENTRY_BODY_SIZE_MAX: usize = {
    let batch = batch_body_size(BATCH_KEYS_MAX, BATCH_SIZE_MAX + 8 * BATCH_KEYS_MAX);
    if batch > RECORD_BODY_SIZE_MAX {
        batch
    } else {
        RECORD_BODY_SIZE_MAX
    }
};
const _: () = assert!(ENTRY_BODY_SIZE_MAX <= stonecast_replication::BODY_SIZE_MAX);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_each_of_sixty_four_nodes_pays_the_longest_message_in_segments_of_every_size() {
        for exponent in 18..=30 {
            let options = NodeOptions::new(1 << exponent, 64);
            let windows = (options.ahead as u64 - 1) * (1 << exponent) / 2;
            let window = windows / options.sessions_max as u64;
            assert!(window >= options.message_size_max.into(), "{options:?}");
        }
    }

    #[test]
    fn a_message_waits_for_a_buffer_as_long_as_the_options_say_and_for_the_least_time_otherwise() {
        let least = NodeOptions::new(1 << 20, 3);
        assert_eq!(least.retries(4, LINK_RETRY_NS), 4);
        assert_eq!(least.ahead, 2);
        let long = NodeOptions {
            unready_ns: 33_333_333,
            ..least
        };
        let retries = long.retries(4, LINK_RETRY_NS);
        assert!(u64::from(retries) * LINK_RETRY_NS >= long.unready_ns);
    }
}
