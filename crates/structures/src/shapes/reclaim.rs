//! The operation that frees memory: the oldest blocks of the retire chain, and a few blocks of an ended structure.

use super::roots::Roots;
use super::scrap::{Heap, Scrap};
use super::structure::{ExecuteFault, Structure};
use super::traversal::{Answer, Place, Places, Stale, Step, Traversal};
use crate::space::Draft;

/// Blocks of an ended structure that one operation takes apart.
const SCRAPS: u32 = 8;

/// The walk before memory is freed.
#[derive(Clone, Debug)]
pub(crate) struct Reclaim {
    roots: Roots,
    /// Retired blocks to free, at most.
    retired: u32,
    stage: Stage,
    chain: Vec<u8>,
    heap: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Chunks,
    Scraps(Vec<Scrap>),
}

/// Everything that the freeing needs.
#[derive(Clone, Debug)]
pub(crate) struct ReclaimPlan {
    retired: u32,
    /// The head chunk of the retire chain, and the topmost chunk of the heap.
    chain: Vec<u8>,
    heap: Vec<u8>,
    /// Scraps that are taken off the heap, each with the bytes that it needs.
    scraps: Vec<(Scrap, Vec<u8>)>,
}

impl Reclaim {
    /// Frees at most `retired` blocks of old versions, and some blocks of an ended structure.
    pub fn new(roots: &Roots, retired: u32) -> Self {
        Self {
            roots: roots.clone(),
            retired,
            stage: Stage::Begin,
            chain: Vec::new(),
            heap: Vec::new(),
        }
    }

    fn chunk_places(&self) -> Places {
        let chain = &self.roots.chain;
        let head = chain.head.span(super::retired::CHUNK_SIZE);
        let chain = (self.retired > 0 && !chain.head.is_null()).then_some(head);
        let heap = self.heap_of().map(|heap| heap.place());
        chain.into_iter().chain(heap).map(Place::last).collect()
    }

    fn heap_of(&self) -> Option<Heap> {
        self.roots.ended.first().map(|ended| ended.heap)
    }

    fn planned(&mut self, scraps: Vec<(Scrap, Vec<u8>)>) -> Step<ReclaimPlan> {
        Step::Done(ReclaimPlan {
            retired: self.retired,
            chain: std::mem::take(&mut self.chain),
            heap: std::mem::take(&mut self.heap),
            scraps,
        })
    }
}

impl Traversal for Reclaim {
    type End = ReclaimPlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<ReclaimPlan> {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => {
                let places = self.chunk_places();
                if places.is_empty() {
                    return self.planned(Vec::new());
                }
                self.stage = Stage::Chunks;
                Step::Read(places)
            }
            Stage::Chunks => {
                let mut bytes = bytes.to_vec();
                let Some(heap) = self.heap_of() else {
                    self.chain = bytes.remove(0);
                    return self.planned(Vec::new());
                };
                self.heap = bytes.pop().expect("the heap was read");
                self.chain = bytes.pop().unwrap_or_default();
                let Some(scraps) = heap.top(&self.heap, SCRAPS) else {
                    let (place, what) = (heap.place(), "heap of an ended structure");
                    return Step::Stale(Stale { place, what });
                };
                let places = scraps.iter().filter_map(Scrap::place);
                let places: Places = places.map(Place::last).collect();
                self.stage = Stage::Scraps(scraps);
                match places.is_empty() {
                    true => self.step(&[]),
                    false => Step::Read(places),
                }
            }
            Stage::Scraps(scraps) => {
                let mut read = bytes.iter();
                let scraps = scraps.into_iter().map(|scrap| {
                    let of_scrap = scrap.place().and_then(|_| read.next());
                    (scrap, of_scrap.cloned().unwrap_or_default())
                });
                let scraps = scraps.collect();
                self.planned(scraps)
            }
        }
    }
}

impl ReclaimPlan {
    /// Frees blocks, and notes the rest in `roots`.
    pub fn apply(self, draft: &mut Draft<'_>, roots: &mut Roots) -> Result<Answer, ExecuteFault> {
        let mut freed = 0;
        if !self.chain.is_empty() {
            let chain = &mut roots.chain;
            freed += chain.free_oldest(draft, &self.chain, self.retired)?;
        }
        if let Some(mut ended) = roots.ended.first().cloned() {
            let structure: Structure = roots.structure_of(&ended.row);
            let heap = &mut ended.heap;
            heap.pop(draft, &self.heap, self.scraps.len() as u32)?;
            for (scrap, bytes) in &self.scraps {
                let apart = scrap.take_apart(&structure, bytes)?;
                if let Some(size) = apart.freed {
                    draft.free(scrap.pointer, size)?;
                    freed += 1;
                }
                for part in apart.parts {
                    heap.push(draft, part)?;
                }
            }
            match heap.is_empty() {
                true => drop(roots.ended.remove(0)),
                false => roots.ended[0] = ended,
            }
        }
        Ok(Answer::Freed(freed))
    }
}
