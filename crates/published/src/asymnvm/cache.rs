//! The cache of a front-end: nodes by their address, and the policy that decides which of them go.
//!
//! The map, the pages and the marks of their use lie in registered memory if their time is to count.

use std::collections::HashMap;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::Region;

/// Bytes of the parts of the address space that the map of overlaps knows.
const PART: u64 = 4096;
/// Bytes of memory for a page: the longest node.
const PAGE: u64 = 4096;

/// The choice of the page that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The page that was not used for the longest time, by a list.
    Lru,
    /// Any page.
    Random,
    /// The least recently used one of so many random pages: 32 in the paper.
    Sample(u32),
}

/// The options of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheOptions {
    /// Bytes of nodes.
    pub size: u64,
    /// The policy.
    pub policy: Policy,
    /// Whether nodes below an adaptive level are left out.
    pub by_level: bool,
}

/// A cache of nodes.
pub(super) struct Cache {
    options: CacheOptions,
    slots: Vec<Slot>,
    index: HashMap<Span, usize>,
    /// Slots by the parts of the address space that they touch.
    parts: HashMap<u64, Vec<usize>>,
    size: u64,
    /// Counts uses, in place of a clock.
    now: u64,
    sampler: Sampler,
    /// Nodes below this step of a walk are not kept.
    pub level_max: usize,
    recent: [u64; 2],
    pub hits: u64,
    pub misses: u64,
    memory: Option<Rc<dyn Region>>,
}

struct Slot {
    place: Span,
    bytes: Vec<u8>,
    used: u64,
}

/// A small generator of choices: a cache needs no source of randomness from outside.
struct Sampler(u64);

impl Sampler {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        ((u128::from(self.0 ^ self.0 >> 33) * end as u128) >> 64) as usize
    }
}

/// Looks after which the level is adapted.
const ADAPT: u64 = 512;

impl Cache {
    /// A cache. `memory`: accesses take the time that this memory takes; `None`: they take no time.
    pub fn new(options: CacheOptions, memory: Option<Rc<dyn Region>>) -> Self {
        Self {
            options,
            slots: Vec::new(),
            index: HashMap::new(),
            parts: HashMap::new(),
            size: 0,
            now: 0,
            sampler: Sampler(1),
            level_max: 64,
            recent: [0; 2],
            hits: 0,
            misses: 0,
            memory,
        }
    }

    /// Bytes of memory for a cache of this size.
    pub fn memory_size(options: CacheOptions) -> u64 {
        (options.size / 64 + 2) * PAGE * 2
    }

    fn charge(&self, slot: usize, size: usize) {
        if let Some(memory) = &self.memory {
            let at = (slot as u64 + 1) * PAGE * 2;
            if at + PAGE * 2 > memory.size() {
                return;
            }
            // The entry of the map, and the bytes.
            memory.load(at);
            let mut bytes = vec![0; size.min(PAGE as usize)];
            memory.read(at + 64, &mut bytes);
        }
    }

    /// The note of a use: a list is changed at three places, a mark at one.
    fn charge_use(&self, slot: usize) {
        let Some(memory) = &self.memory else {
            return;
        };
        let count = self.slots.len().max(1);
        let touched: &[usize] = match self.options.policy {
            Policy::Lru => &[slot, (slot + 1) % count, (slot + count - 1) % count],
            Policy::Sample(_) => &[slot],
            Policy::Random => &[],
        };
        for slot in touched {
            let at = (*slot as u64 + 1) * PAGE * 2 + PAGE + 64;
            if at + 8 <= memory.size() {
                memory.store(at, self.now);
            }
        }
    }

    /// The bytes of a node, if they are here.
    pub fn find(&mut self, place: Span) -> Option<Vec<u8>> {
        self.now += 1;
        let found = self.index.get(&place).copied();
        self.adapt(found.is_some());
        let slot = found?;
        self.slots[slot].used = self.now;
        self.charge(slot, place.size as usize);
        self.charge_use(slot);
        Some(self.slots[slot].bytes.clone())
    }

    fn adapt(&mut self, is_hit: bool) {
        match is_hit {
            true => self.hits += 1,
            false => self.misses += 1,
        }
        self.recent[usize::from(!is_hit)] += 1;
        let [hits, misses] = self.recent;
        if hits + misses < ADAPT {
            return;
        }
        self.recent = [0; 2];
        if misses * 2 > ADAPT {
            self.level_max = self.level_max.min(32).saturating_sub(1).max(1);
        } else if misses * 4 < ADAPT {
            self.level_max = (self.level_max + 1).min(64);
        }
    }

    /// Keeps a node that was read in step `level` of a walk.
    pub fn keep(&mut self, place: Span, bytes: &[u8], level: usize) {
        let is_deep = self.options.by_level && level > self.level_max;
        if is_deep || place.size > PAGE || place.size > self.options.size {
            return;
        }
        if self.index.contains_key(&place) {
            return;
        }
        while self.size + place.size > self.options.size {
            self.evict();
        }
        let slot = self.slots.len();
        self.size += place.size;
        self.index.insert(place, slot);
        for part in parts(place) {
            self.parts.entry(part).or_default().push(slot);
        }
        self.slots.push(Slot {
            place,
            bytes: bytes.to_vec(),
            used: self.now,
        });
        self.charge(slot, place.size as usize);
        self.charge_use(slot);
    }

    fn evict(&mut self) {
        let count = self.slots.len();
        let victim = match self.options.policy {
            Policy::Random => self.sampler.below(count),
            Policy::Lru => {
                let used = |slot: &usize| self.slots[*slot].used;
                (0..count).min_by_key(used).expect("a slot is in use")
            }
            Policy::Sample(size) => {
                let mut least = self.sampler.below(count);
                for _ in 1..size {
                    let other = self.sampler.below(count);
                    if let Some(memory) = &self.memory {
                        let at = (other as u64 + 1) * PAGE * 2 + PAGE + 64;
                        if at + 8 <= memory.size() {
                            memory.load(at);
                        }
                    }
                    if self.slots[other].used < self.slots[least].used {
                        least = other;
                    }
                }
                least
            }
        };
        self.remove(victim);
    }

    fn remove(&mut self, slot: usize) {
        let last = self.slots.len() - 1;
        let gone = self.slots.swap_remove(slot);
        self.size -= gone.place.size;
        self.index.remove(&gone.place);
        for part in parts(gone.place) {
            let of_part = self.parts.get_mut(&part).expect("the part has the slot");
            of_part.retain(|known| *known != slot);
        }
        if slot != last {
            let moved = self.slots[slot].place;
            self.index.insert(moved, slot);
            for part in parts(moved) {
                let of_part = self.parts.get_mut(&part).expect("the part has the slot");
                for known in of_part.iter_mut().filter(|known| **known == last) {
                    *known = slot;
                }
            }
        }
    }

    /// Changes the bytes of all nodes that hold the place.
    pub fn patch(&mut self, offset: u64, data: &[u8]) {
        let written = Span::new(offset, data.len() as u64);
        for part in parts(written) {
            let Some(slots) = self.parts.get(&part) else {
                continue;
            };
            for slot in slots {
                let Slot { place, bytes, .. } = &mut self.slots[*slot];
                overlay(*place, bytes, offset, data);
            }
        }
    }
}

/// Puts the part of `data` at `offset` that lies in `place` over its bytes.
pub(super) fn overlay(place: Span, bytes: &mut [u8], offset: u64, data: &[u8]) {
    let start = place.offset.max(offset);
    let end = (place.offset + place.size).min(offset + data.len() as u64);
    if start < end {
        let from = (start - offset) as usize..(end - offset) as usize;
        let to = (start - place.offset) as usize..(end - place.offset) as usize;
        bytes[to].copy_from_slice(&data[from]);
    }
}

fn parts(span: Span) -> impl Iterator<Item = u64> + use<> {
    span.offset / PART..=(span.offset + span.size.max(1) - 1) / PART
}
