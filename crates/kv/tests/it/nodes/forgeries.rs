//! The flaw R5 of Rowan-KV as published, under the schedule that shows it there: a value contains bytes that pass for
//! an entry, and a power cut tears the header of the entry that carries the value. The search then finds the bytes
//! inside the value at the place of an entry.
//!
//! ```text
//!   memory of a copy   | header | body: record, key, filler to a line | image of an entry |
//!   after the cut      | zeros  | the same                            | the same          |
//! ```
//!
//! The story steps through the events of the world until the header is undecided in a copy and all of the image is
//! there. It depends on no time.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric_sim::Survivor;
use stonecast_kv::ClusterClient;

use super::memory::{self, EntryFacts, HEADER_SIZE};
use super::world::{Cluster, MS, Place, Shape};
use crate::promises;
use crate::world::key;

const OLD: &[u8] = &[b'o'; 40];
const LATEST: &[u8] = &[b'l'; 40];

/// One shard with three copies. A node that is silent for long is removed, so a copy that is alone leads. No entry is
/// settled, so a start finds all of them.
const ONE: Shape = Shape {
    shards: 1,
    floors_rise: false,
    ..Shape::THREE
};

/// An entry of the key that the story is about, as it lies in the memory of a copy: header and body.
struct Image(Vec<u8>);

impl Image {
    /// The image of the entry that carries `value`.
    fn of(bytes: &[u8], value: &[u8]) -> Self {
        let carries = |entry: &EntryFacts| {
            let image = &bytes[entry.at..][..HEADER_SIZE + entry.body_size];
            memory::position(image, value).map(|_| image.to_vec())
        };
        let image = memory::entries(bytes).iter().find_map(carries);
        Self(image.expect("the copy has the entry"))
    }

    /// The fields of the header that say the place of the entry in its history.
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("a whole word"))
    }

    /// This entry with a later place than `latest` has. The digest of the body is right, and the tag is not: the writer
    /// knows all bytes in the memory of the copy, and no key.
    fn after(mut self, latest: &Self) -> Self {
        let version = latest.word(24);
        let fields = [latest.word(16), version + 1, version, latest.word(40)];
        for (field, at) in fields.into_iter().zip([16, 24, 32, 40]) {
            self.0[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        self
    }
}

/// A value of another key, which contains an image at a line of the entry that carries it.
struct Hostile {
    value: Vec<u8>,
    image: Image,
    /// Bytes from the header of the entry to the image.
    behind: usize,
}

impl Hostile {
    /// `entry` is one of a key that is as long as that of the hostile value, and carries `value`.
    fn new(image: Image, (entry, value): (&Image, &[u8])) -> Self {
        let begin = memory::position(&entry.0, value).expect("the entry carries it");
        let behind = begin.next_multiple_of(HEADER_SIZE);
        let mut value = vec![0; behind - begin];
        value.extend(&image.0);
        Self {
            value,
            image,
            behind,
        }
    }

    /// The place of the header of the entry with this value in the memory of `place`, if a power cut at this moment may
    /// take the header and leave the image.
    fn header_at_risk(&self, cluster: &Cluster, place: &Place) -> Option<u64> {
        let wreck = cluster.world.wreck(place.machine, &place.module);
        let mut undecided = (0..wreck.undecided()).map(|unit| wreck.offset(unit));
        let all = wreck.everything();
        let has_image = |header: u64| {
            let mut found = vec![0; self.image.0.len()];
            all.read(header + self.behind as u64, &mut found);
            found == self.image.0
        };
        undecided.find(|&offset| offset % HEADER_SIZE as u64 == 0 && has_image(offset))
    }
}

fn put(cluster: &Cluster, client: &ClusterClient, n: u64, value: &[u8]) {
    let name = key(n);
    cluster.world.block_on(client.put(&name, value)).unwrap();
}

fn get(cluster: &Cluster, client: &ClusterClient, n: u64) -> Option<Vec<u8>> {
    let (name, mut value) = (key(n), Vec::new());
    let version = cluster.world.block_on(client.get(&name, &mut value));
    version.unwrap().map(|_| value)
}

/// Returns whether the latest value stays when the power of all nodes fails, and one copy keeps the image that `forge`
/// makes of its entries with the old and the latest value, and loses the header in front of it, unless `is_torn` is
/// false. That copy leads alone at first, and then the others.
fn r5_with(forge: fn(Image, &Image) -> Image, is_torn: bool) -> bool {
    let cluster = Cluster::new(ONE, 45);
    let client = |patience_ns| cluster.world.block_on(cluster.client(patience_ns));
    let (reader, writer) = (client(4_000 * MS), Rc::new(client(8 * MS)));
    put(&cluster, &reader, 1, OLD);
    put(&cluster, &reader, 1, LATEST);
    let primary = cluster.leader(0).unwrap();
    let copy = (primary + 1) % cluster.places.len();
    let place = &cluster.places[copy];
    let bytes = memory::all_of(&cluster, place);
    let [old, latest] = [OLD, LATEST].map(|value| Image::of(&bytes, value));
    let hostile = Hostile::new(forge(old, &latest), (&latest, LATEST));

    let is_over = Rc::new(Cell::new(false));
    let (ended, value) = (is_over.clone(), hostile.value.clone());
    cluster.process.runtime().spawn(Box::pin(async move {
        let _is_unknown = writer.put(&key(2), &value).await;
        ended.set(true);
    }));
    let header = loop {
        assert!(cluster.world.step() && !is_over.get());
        if let Some(header) = hostile.header_at_risk(&cluster, place) {
            break header;
        }
    };
    let keeps = |offset: u64| !is_torn || offset != header;
    let left: Survivor = memory::survivor(&cluster, place, keeps);
    let bytes = memory::bytes_of(&cluster, &left);
    let is_entry = memory::entry_at(&bytes, header as usize).is_some();
    assert_eq!(is_entry, !is_torn, "the header is torn");
    let image = memory::entry_at(&bytes, header as usize + hostile.behind);
    assert!(image.is_some(), "the image is whole");

    for other in &cluster.places {
        if other.name != place.name {
            other.cut_power(&cluster.world);
        }
    }
    place.lose_power(&cluster.world, |_| left);
    cluster.start(copy);
    cluster.await_service();
    assert_eq!(cluster.leader(0), Some(copy), "it is alone");
    let mut seen = vec![get(&cluster, &reader, 1)];
    for index in (0..cluster.places.len()).filter(|&index| index != copy) {
        cluster.start(index);
    }
    assert!(cluster.run_until(2_000 * MS, || cluster.is_whole()));
    seen.push(get(&cluster, &reader, 1));
    place.kill();
    cluster.await_service();
    seen.push(get(&cluster, &reader, 1));
    promises::all_see(LATEST, &seen)
}

/// The image is the old entry with a later version, made without the key of appends.
pub fn r5_forged() -> bool {
    r5_with(Image::after, true)
}

/// The image is the old entry as it is: it proves itself, and its place is behind that of the latest one.
pub fn r5_copied() -> bool {
    r5_with(|old, _| old, true)
}

/// A header that is not torn covers the image behind it.
#[test]
fn r5_a_value_that_contains_an_entry_never_becomes_one() {
    assert!(r5_forged() && r5_copied());
    assert!(r5_with(Image::after, false) && r5_with(|old, _| old, false));
}
