//! Recovery of Erda after a crash of its server. Recovery checks the objects of the last segment of
//! each head, and takes the older version of broken ones (paper section 4.2). Recovery does not
//! check earlier segments (flaw E7).

use stonecast_media::PersistentRegion;

use crate::erda::heads::{Head, span_of};
use crate::erda::word::Word;
use crate::geometry::Geometry;
use crate::object::{object_size, parse_object};
use crate::table::Table;

/// Finds the end of the log of `head`, and repairs the words that point into its last segment.
pub(super) fn head(
    memory: &dyn PersistentRegion,
    geometry: &Geometry,
    table: &Table,
    head: u8,
) -> Head {
    let base = memory.load(geometry.head_offset(head));
    let region = (0..geometry.regions).find(|&region| geometry.region(region).offset == base);
    let Some(region) = region else {
        return Head::new(head.into());
    };
    let mut at = Head::new(region);
    let size = object_size(geometry.key_size, geometry.value_size) as u64;
    let of_head = || table.entries().filter(|(_, entry)| entry.head == head);
    for (_, entry) in of_head() {
        let word = Word(entry.word);
        for offset in [word.newest(), word.older()].into_iter().flatten() {
            at.tail = at.tail.max(offset + size).min(geometry.region_size);
        }
    }
    let last_segment = (at.tail - 1) / geometry.segment_size;
    let broken: Vec<_> = of_head()
        .filter(|(_, entry)| {
            let Some(offset) = Word(entry.word).newest() else {
                return false;
            };
            if offset / geometry.segment_size != last_segment {
                return false;
            }
            let mut bytes = vec![0; size as usize];
            memory.read(span_of(geometry, region, offset).offset, &mut bytes);
            let object = parse_object(&bytes, geometry.key_size, geometry.value_size);
            object.is_none_or(|object| object.key != &entry.key[..geometry.key_size])
        })
        .collect();
    for (place, entry) in broken {
        let word = Word(entry.word);
        match word.older() {
            Some(_) => table.set_word(place, word.rolled_back().0),
            None => table.remove(place),
        }
    }
    at
}
