//! The possible states after a power cut: the certain content, and for each line or page the number of its stores that
//! survived.
//!
//! ```text
//!   line:  nothing | first store | first two | ... | all         and of the next one some words only
//!   page:  nothing | first store | first two | ... | all         and some sectors further than others
//! ```

use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_media::PersistenceDomain;

use crate::image::{Image, PAGE_SIZE};
use crate::persistent::lines::Store;
use crate::persistent::module::{Module, Survivor};

/// A machine's module at the moment of a power cut, with all of its possible states.
#[derive(Clone)]
pub struct Wreck {
    base: Survivor,
    units: Rc<[Unit]>,
}

/// A unit that the medium takes as a whole: a line, or a page of a file.
struct Unit {
    /// Whether it is a page.
    page: bool,
    /// The first line.
    line: u64,
    /// Stores to it, oldest first, with their lines.
    stores: Vec<(u64, Store)>,
}

/// The fate of one unit's stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fate {
    /// Number of stores that survived whole.
    pub stores: u32,
    /// For a line: words of the next store that survived too, one bit each. For a page: sectors that got all stores.
    pub torn: u8,
}

/// Bytes that a disk writes as a whole.
const SECTOR_SIZE: usize = 512;
const _: () = assert!(
    PAGE_SIZE == 8 * SECTOR_SIZE,
    "a page's sectors are the bits of a byte"
);

impl Wreck {
    /// The state of `module` at this moment, with `in_flight` (offset, bytes) that its NIC had taken and not yet
    /// placed.
    pub(crate) fn new(module: &Module, in_flight: &[(u64, Vec<u8>)]) -> Self {
        let (image, mut stores) = module.split();
        let mut base = Survivor {
            image,
            ..module.beside()
        };
        match module.platform.persistence_domain {
            PersistenceDomain::Volatile => stores.clear(),
            // The battery powers the NIC until everything is in memory.
            PersistenceDomain::Wsp => in_flight
                .iter()
                .for_each(|(offset, bytes)| base.image.write(*offset, bytes)),
            PersistenceDomain::PageFile | PersistenceDomain::Dmp | PersistenceDomain::Mhp => {
                let mut more = crate::persistent::lines::Lines::default();
                for (offset, bytes) in in_flight {
                    crate::persistent::module::each_line(*offset, bytes, |line, start, part| {
                        more.note(line, start, part, crate::persistent::lines::NEVER);
                    });
                }
                // Data in flight come after every store to any memory.
                let last = module.time.stores().get();
                for line in more.lines() {
                    stores.extend(more.stores(line).map(|store| {
                        (
                            line,
                            Store {
                                serial: store.serial + last,
                                ..*store
                            },
                        )
                    }));
                }
            }
        }
        let page = module.platform.persistence_domain == PersistenceDomain::PageFile;
        let grain = if page {
            (PAGE_SIZE / LINE_SIZE) as u64
        } else {
            1
        };
        stores.sort_by_key(|(line, store)| (line / grain, store.serial));
        let mut units: Vec<Unit> = Vec::new();
        for (line, store) in stores {
            let first = line / grain * grain;
            match units.last_mut().filter(|unit| unit.line == first) {
                Some(unit) => unit.stores.push((line, store)),
                None => units.push(Unit {
                    page,
                    line: first,
                    stores: vec![(line, store)],
                }),
            }
        }
        Self {
            base,
            units: units.into(),
        }
    }

    /// The number of undecided lines or pages.
    pub fn undecided(&self) -> usize {
        self.units.len()
    }

    /// The start of undecided unit `index` in the log, in bytes.
    pub fn offset(&self, index: usize) -> u64 {
        self.units[index].line * LINE_SIZE as u64
    }

    /// The lines of undecided unit `index`, by number. Units are in the order of their lines.
    pub(crate) fn lines(&self, index: usize) -> std::ops::Range<u64> {
        let unit = &self.units[index];
        unit.line
            ..unit.line
                + if unit.page {
                    (PAGE_SIZE / LINE_SIZE) as u64
                } else {
                    1
                }
    }

    /// Whether the page of undecided unit `index` was written to, whatever the fate of the unit.
    pub(crate) fn page_is_certain(&self, index: usize) -> bool {
        self.base
            .image
            .has_page((self.units[index].line * LINE_SIZE as u64) as usize / PAGE_SIZE)
    }

    /// The number of stores of undecided unit `index` that may have survived.
    pub fn stores(&self, index: usize) -> u32 {
        self.units[index].stores.len() as u32
    }

    /// The serial numbers of the stores of unit `index`: they count the stores to all memories of the world, in
    /// program order.
    pub fn serials(&self, index: usize) -> impl Iterator<Item = u64> {
        self.units[index]
            .stores
            .iter()
            .map(|(_, store)| store.serial)
    }

    /// The relevant bits of [`Fate::torn`] for unit `index` with its next store, after `stores` whole ones, torn.
    pub fn parts(&self, index: usize, stores: u32) -> u8 {
        let unit = &self.units[index];
        let rest = &unit.stores[stores as usize..];
        if unit.page {
            rest.iter()
                .fold(0, |mask, (line, _)| mask | 1 << unit.sector(*line))
        } else {
            rest.first().map_or(0, |(_, store)| store.words_written())
        }
    }

    /// A description of `fates` for people: the undecided lines or pages that lost something.
    pub fn describe(&self, fates: &[Fate]) -> String {
        const SHOWN: usize = 8;
        let lost: Vec<String> = self
            .units
            .iter()
            .zip(fates)
            .filter(|(unit, fate)| (fate.stores as usize) < unit.stores.len())
            .map(|(unit, fate)| {
                let what = if unit.page { "page" } else { "line" };
                let torn = if fate.torn == 0 {
                    String::new()
                } else {
                    format!(" and parts {:#010b} of the next", fate.torn)
                };
                format!(
                    "{what} {:#x} keeps {} of {} stores{torn}",
                    unit.line * LINE_SIZE as u64,
                    fate.stores,
                    unit.stores.len()
                )
            })
            .collect();
        match lost.len() {
            0 => "everything survives".to_owned(),
            count if count > SHOWN => {
                format!("{}; and {} more", lost[..SHOWN].join(", "), count - SHOWN)
            }
            _ => lost.join(", "),
        }
    }

    /// The survivor if everything survived.
    pub fn everything(&self) -> Survivor {
        let all: Vec<Fate> = (0..self.undecided())
            .map(|unit| Fate {
                stores: self.stores(unit),
                torn: 0,
            })
            .collect();
        self.survivor(&all)
    }

    /// The survivor if the units met `fates`, in their order.
    pub fn survivor(&self, fates: &[Fate]) -> Survivor {
        assert_eq!(fates.len(), self.units.len(), "each unit meets one fate");
        let mut survivor = self.base.clone();
        for (unit, fate) in self.units.iter().zip(fates) {
            unit.apply(*fate, &mut survivor.image);
        }
        survivor
    }
}

impl Unit {
    fn sector(&self, line: u64) -> u32 {
        ((line - self.line) as usize * LINE_SIZE / SECTOR_SIZE) as u32
    }

    fn apply(&self, fate: Fate, image: &mut Image) {
        let whole = fate.stores as usize;
        for (line, store) in &self.stores[..whole] {
            write(image, *line, store);
        }
        if fate.torn == 0 {
            return;
        }
        if self.page {
            for (line, store) in self.stores[whole..]
                .iter()
                .filter(|(line, _)| fate.torn >> self.sector(*line) & 1 == 1)
            {
                write(image, *line, store);
            }
        } else if let Some((line, store)) = self.stores.get(whole) {
            write(image, *line, &store.words(fate.torn));
        }
    }
}

fn write(image: &mut Image, line: u64, store: &Store) {
    for (start, bytes) in store.pieces() {
        image.write(line * LINE_SIZE as u64 + start as u64, bytes);
    }
}
