//! The account of a domain's memory: each unit of its slabs is free, or belongs to exactly one reachable block.

use std::collections::BTreeMap;

use stonecast_base::Span;

use super::results::{self, Results};
use super::retired;
use super::roots::{EndedRow, Roots};
use super::scrap::Scrap;
use super::structure::Read;
use super::traversal::Stale;
use crate::space::{SlabGeometry, order_of};
use crate::wire::{Pointer, UNIT_SIZE};

/// The account of a domain's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Blocks of structures and their old versions, of ended structures, of the results and of the table.
    pub blocks: u64,
    /// Units of these blocks.
    pub units: u64,
    /// Units that belong to two blocks.
    pub twice: u64,
    /// Units that are marked as used and belong to no block.
    pub lost: u64,
    /// Units that belong to a block and are marked as free.
    pub unmarked: u64,
}

impl Audit {
    /// Reads everything in a domain with these slabs. The domain should not change during the call.
    ///
    /// # Errors
    /// [`Stale`]: the domain changes, or is damaged.
    pub fn of(
        roots: &Roots,
        geometry: SlabGeometry,
        slabs: impl IntoIterator<Item = u64>,
        read: Read<'_>,
    ) -> Result<Self, Stale> {
        let blocks = blocks_of(roots, geometry.size(), read)?;
        let mut audit = Self {
            blocks: blocks.len() as u64,
            ..Self::default()
        };
        // The bits that follow from the blocks, by their words.
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        for (pointer, size) in blocks {
            for unit in pointer.unit()..pointer.unit() + (1 << order_of(size)) {
                let place = Span::new(unit * UNIT_SIZE, UNIT_SIZE);
                let what = "block in a slab";
                geometry.slab_of(place).ok_or(Stale { place, what })?;
                let (word, bit) = geometry.bit(unit);
                let bits = expected.entry(word).or_default();
                audit.twice += *bits >> bit & 1;
                audit.units += 1;
                *bits |= 1 << bit;
            }
        }
        for slab in slabs {
            let bits = Span::new(geometry.slab(slab).offset, geometry.bits_size());
            let words = fetch(read, bits)?;
            for (index, word) in words.as_chunks::<8>().0.iter().enumerate() {
                let place = bits.offset + index as u64 * 8;
                let (found, named) = (
                    u64::from_le_bytes(*word),
                    expected.remove(&place).unwrap_or(0),
                );
                audit.lost += u64::from((found & !named).count_ones());
                audit.unmarked += u64::from((named & !found).count_ones());
            }
        }
        let elsewhere = expected.values().map(|word| u64::from(word.count_ones()));
        audit.unmarked += elsewhere.sum::<u64>();
        Ok(audit)
    }

    /// Whether no unit is lost or used twice.
    pub fn is_sound(&self) -> bool {
        self.twice == 0 && self.lost == 0 && self.unmarked == 0
    }
}

fn fetch(read: Read<'_>, place: Span) -> Result<Vec<u8>, Stale> {
    let what = "memory of the domain";
    read(place).ok_or(Stale { place, what })
}

/// All blocks of a domain, with their sizes.
fn blocks_of(roots: &Roots, slab_size: u64, read: Read<'_>) -> Result<Vec<(Pointer, u64)>, Stale> {
    let mut blocks: Vec<(Pointer, u64)> = roots.block().into_iter().collect();
    let (results, tags) = roots.results();
    if !results.is_null() {
        let table = fetch(read, results.span(results::table_size(slab_size)))?;
        blocks.extend(Results::parse(results, tags, &table).blocks());
    }
    let mut chunk = roots.chain.head;
    while !chunk.is_null() {
        let bytes = fetch(read, chunk.span(retired::CHUNK_SIZE))?;
        blocks.push((chunk, retired::CHUNK_SIZE));
        let (entries, next) = roots.chain.entries(chunk, &bytes);
        blocks.extend(entries);
        chunk = next;
    }
    for row in roots.rows() {
        blocks.extend(roots.structure_of(row).contents(read)?.blocks);
    }
    for ended in &roots.ended {
        blocks_of_ended(roots, ended, read, &mut blocks)?;
    }
    Ok(blocks)
}

/// The blocks that are left of an ended structure, and those of its heap.
fn blocks_of_ended(
    roots: &Roots,
    EndedRow { row, heap }: &EndedRow,
    read: Read<'_>,
    blocks: &mut Vec<(Pointer, u64)>,
) -> Result<(), Stale> {
    let structure = roots.structure_of(row);
    let mut scraps: Vec<Scrap> = Vec::new();
    let mut heap = *heap;
    while !heap.is_empty() {
        let place = heap.place();
        let bytes = fetch(read, place)?;
        let what = "heap of an ended structure";
        let all = heap.top(&bytes, u32::MAX);
        scraps.extend(all.ok_or(Stale { place, what })?);
        blocks.push((heap.chunk, place.size));
        heap = heap.below(&bytes);
    }
    while let Some(scrap) = scraps.pop() {
        let bytes = match scrap.place() {
            Some(place) => fetch(read, place)?,
            None => Vec::new(),
        };
        let apart = scrap.take_apart(&structure, &bytes)?;
        blocks.extend(apart.freed.map(|size| (scrap.pointer, size)));
        scraps.extend(apart.parts);
    }
    Ok(())
}
