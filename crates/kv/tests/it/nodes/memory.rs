//! The memory of nodes, as tests see it beside the nodes.

use stonecast_fabric_sim::{Fate, Survivor};

use super::world::{Cluster, Place};

/// The bytes of a node's memory after a power cut that keeps the lines of which something is undecided at the offsets
/// for which `survives` returns true.
pub fn survivor(cluster: &Cluster, place: &Place, survives: impl Fn(u64) -> bool) -> Survivor {
    let wreck = cluster.world.wreck(place.machine, &place.module);
    let fate = |unit: usize| Fate {
        stores: match survives(wreck.offset(unit)) {
            true => wreck.stores(unit),
            false => 0,
        },
        torn: 0,
    };
    let fates: Vec<Fate> = (0..wreck.undecided()).map(fate).collect();
    wreck.survivor(&fates)
}

/// All bytes of a node's memory.
pub fn all_of(cluster: &Cluster, place: &Place) -> Vec<u8> {
    bytes_of(cluster, &survivor(cluster, place, |_| true))
}

pub fn bytes_of(cluster: &Cluster, survivor: &Survivor) -> Vec<u8> {
    let shape = cluster.shape;
    // The log, and the header and the ledgers in front of it.
    let mut bytes = vec![0; ((shape.segments + 1) * shape.segment_size) as usize];
    survivor.read(0, &mut bytes);
    bytes
}

pub fn position(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes
        .windows(sought.len())
        .position(|found| found == sought)
}

/// The offsets at which `sought` begins in the memory of a node.
pub fn offsets(cluster: &Cluster, place: &Place, sought: &[u8]) -> Vec<usize> {
    let bytes = all_of(cluster, place);
    let windows = bytes.windows(sought.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == sought);
    found.map(|(offset, _)| offset).collect()
}

/// The facts in the header of an entry, as `docs/formats/append.md` has them.
pub struct EntryFacts {
    /// The first byte of the entry.
    pub at: usize,
    pub version: u64,
    /// Bytes of the body behind the header.
    pub body_size: usize,
}

/// The bytes of the header of an entry.
pub const HEADER_SIZE: usize = 64;

/// The entries in the memory of a node, in the order of their places. Nothing checks their tags: a value could contain
/// bytes that pass for an entry.
pub fn entries(bytes: &[u8]) -> Vec<EntryFacts> {
    let lines = (0..bytes.len()).step_by(HEADER_SIZE);
    lines.filter_map(|at| entry_at(bytes, at)).collect()
}

/// The entry of a record at `at`, if the line has the fields of such an entry.
pub fn entry_at(bytes: &[u8], at: usize) -> Option<EntryFacts> {
    let header = bytes.get(at..at + HEADER_SIZE)?;
    let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("a whole word"));
    let half = |at: usize| u32::from_le_bytes(*header[at..].first_chunk().expect("half a word"));
    let [term, version, previous, horizon] = [16, 24, 32, 40].map(word);
    let (body_size, kind, format) = (half(52), half(56), half(60));
    let is_record = kind == 1 && format == 1 && body_size > 0;
    let is_possible = term > 0 && version > previous && horizon <= previous;
    (is_record && is_possible).then_some(EntryFacts {
        at,
        version,
        body_size: body_size as usize,
    })
}
