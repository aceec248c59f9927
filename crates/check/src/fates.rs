//! Choice of the crash states to examine.
//!
//! Each undecided line has several fates: none of its stores survived, the first, the first two,
//! ... all, or one of them torn. If there are few combinations, all are examined. Otherwise:
//!
//! ```text
//!   nothing survived, everything survived
//!   each prefix of all stores, in their order    the state left by machines that evict in order
//!   the same for any of several machines, while the others keep everything
//!   all but one line, all but two lines          the state left by a forgotten write-back
//!   one line alone                               the state left by an early eviction
//!   random combinations, for the rest
//! ```
//!
//! If several machines have more undecided lines than states may be examined, each state is drawn: some of the machines
//! lose their power, each in one of these ways.
//!
//! A state that the caller knows to be equivalent to an earlier one costs nothing and does not
//! count.

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_fabric_sim::Fate;

use crate::wrecks::Wrecks;

/// Maximum number of states in an exhaustive search: twelve lines with two fates each.
pub const EXHAUSTIVE_MAX: u64 = 4096;

/// The result of examining a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The state was examined.
    New,
    /// The state is equivalent to an earlier one.
    Known,
    /// The state was examined, and the search ends.
    Enough,
}

/// The most machines for which every selection is cut. Further machines are cut only together with all others, or in
/// the random states.
const MACHINES_MAX: usize = 8;

/// The random search ends after this many known combinations for each new one.
const TRIES_FOR_EACH: u64 = 8;

/// Calls `look` with combinations of fates of the undecided units of `wrecks`, until `limit` states were examined or
/// `look` returns [`Look::Enough`]. Returns the number of examined states.
pub fn each(
    wrecks: &Wrecks,
    limit: u64,
    random: &mut Random,
    look: &mut dyn FnMut(&[Fate]) -> Look,
) -> u64 {
    let options: Vec<Vec<Fate>> = (0..wrecks.undecided())
        .map(|unit| fates_of(wrecks, unit))
        .collect();
    let combinations = options.iter().try_fold(1u64, |product, fates| {
        product.checked_mul(fates.len() as u64)
    });
    let mut states = States {
        limit,
        count: 0,
        stopped: false,
        look,
    };
    if combinations.is_some_and(|combinations| combinations <= limit.min(EXHAUSTIVE_MAX)) {
        states.all(&options);
    } else if wrecks.machines() > 1 && limit < wrecks.undecided() as u64 {
        states.drawn(wrecks, &options, random);
    } else {
        states.chosen(wrecks, &options, random);
    }
    states.count
}

/// The fates of one unit. In the first fate, nothing survived.
fn fates_of(wrecks: &Wrecks, unit: usize) -> Vec<Fate> {
    let stores = wrecks.stores(unit);
    let mut fates: Vec<Fate> = (0..=stores)
        .map(|stores| Fate { stores, torn: 0 })
        .collect();
    for whole in 0..stores {
        let parts = wrecks.parts(unit, whole);
        if parts.count_ones() > 1 {
            let low = lower_half(parts);
            fates.extend([low, parts & !low].map(|torn| Fate {
                stores: whole,
                torn,
            }));
        }
    }
    fates
}

/// The lower half of the set bits.
fn lower_half(bits: u8) -> u8 {
    let mut half = 0;
    let mut rest = bits;
    for _ in 0..bits.count_ones() / 2 {
        let lowest = rest & rest.wrapping_neg();
        half |= lowest;
        rest &= !lowest;
    }
    half
}

/// Draws a prefix of the stores of `cut`, in the common order, which survives. Nothing else of `cut` does.
fn draw_prefix(wrecks: &Wrecks, cut: &[usize], fates: &mut [Fate], random: &mut Random) {
    let stores_of = |&unit: &usize| wrecks.serials(unit).map(move |serial| (serial, unit));
    let mut stores: Vec<(u64, usize)> = cut.iter().flat_map(stores_of).collect();
    stores.sort_unstable();
    stores.truncate(random.random_range(0..=stores.len()));
    cut.iter().for_each(|&unit| fates[unit] = Fate::default());
    stores.iter().for_each(|&(_, unit)| fates[unit].stores += 1);
}

/// Draws what one machine that is cut loses of its units, which are whole in `fates`.
fn draw_loss(
    wrecks: &Wrecks,
    machine: usize,
    options: &[Vec<Fate>],
    fates: &mut [Fate],
    random: &mut Random,
) {
    let units = wrecks.units(machine);
    if units.is_empty() {
        return;
    }
    let one = random.random_range(units.clone());
    match random.random_range(0..5) {
        0 => fates[units].fill(Fate::default()),
        1 => draw_prefix(wrecks, &units.collect::<Vec<_>>(), fates, random),
        2 => fates[one] = Fate::default(),
        3 => {
            let whole = fates[one];
            fates[units].fill(Fate::default());
            fates[one] = whole;
        }
        _ => {
            for unit in units {
                fates[unit] = options[unit][random.random_range(0..options[unit].len())];
            }
        }
    }
}

struct States<'a> {
    limit: u64,
    count: u64,
    stopped: bool,
    look: &'a mut dyn FnMut(&[Fate]) -> Look,
}

impl States<'_> {
    fn is_over(&self) -> bool {
        self.stopped || self.count == self.limit
    }

    /// Examines one state. Returns whether to continue.
    fn look(&mut self, fates: &[Fate]) -> bool {
        if self.is_over() {
            return false;
        }
        let outcome = (self.look)(fates);
        self.count += u64::from(outcome != Look::Known);
        self.stopped = outcome == Look::Enough;
        !self.stopped
    }

    fn all(&mut self, options: &[Vec<Fate>]) {
        let mut choice = vec![0; options.len()];
        let mut fates: Vec<Fate> = options.iter().map(|fates| fates[0]).collect();
        loop {
            if !self.look(&fates) {
                return;
            }
            // Counts up; the first unit is the lowest digit.
            let Some(unit) = (0..choice.len()).find(|&unit| choice[unit] + 1 < options[unit].len())
            else {
                return;
            };
            for lower in 0..unit {
                choice[lower] = 0;
                fates[lower] = options[lower][0];
            }
            choice[unit] += 1;
            fates[unit] = options[unit][choice[unit]];
        }
    }

    /// Examines each prefix of the stores of `cut`, in the common order; the other units are as in `base`.
    fn prefixes(&mut self, wrecks: &Wrecks, cut: &[usize], base: &[Fate]) {
        let stores_of = |&unit: &usize| wrecks.serials(unit).map(move |serial| (serial, unit));
        let mut stores: Vec<(u64, usize)> = cut.iter().flat_map(stores_of).collect();
        stores.sort_unstable();
        let mut prefix = base.to_vec();
        cut.iter().for_each(|&unit| prefix[unit] = Fate::default());
        for at_once in stores.chunk_by(|(one, _), (next, _)| one == next) {
            at_once
                .iter()
                .for_each(|&(_, unit)| prefix[unit].stores += 1);
            if !self.look(&prefix) {
                return;
            }
        }
    }

    /// Examines cuts of some machines but not all: of the cut machines, nothing or a prefix survives. There may be many
    /// such cuts, so they take at most half of the remaining states.
    fn some_machines(&mut self, wrecks: &Wrecks, everything: &[Fate]) {
        let end = self.count + self.limit.saturating_sub(self.count) / 2;
        let is_cut = |chosen: u64, machine: usize| chosen >> machine & 1 == 1;
        for chosen in 1..(1_u64 << wrecks.machines().min(MACHINES_MAX)) - 1 {
            let machines = (0..wrecks.machines()).filter(|&machine| is_cut(chosen, machine));
            let cut: Vec<usize> = machines.flat_map(|machine| wrecks.units(machine)).collect();
            if self.count >= end {
                return;
            }
            let mut nothing_of_them = everything.to_vec();
            cut.iter()
                .for_each(|&unit| nothing_of_them[unit] = Fate::default());
            self.look(&nothing_of_them);
            self.prefixes(wrecks, &cut, everything);
        }
    }

    /// Examines nothing, everything, and states of cuts of some machines, which are drawn: of the cut machines together
    /// a prefix survives, or each of them loses something of its own.
    fn drawn(&mut self, wrecks: &Wrecks, options: &[Vec<Fate>], random: &mut Random) {
        let everything: Vec<Fate> = (0..options.len()).map(|unit| wrecks.whole(unit)).collect();
        self.look(&vec![Fate::default(); options.len()]);
        self.look(&everything);
        let machines = wrecks.machines().min(MACHINES_MAX);
        for _ in 0..self.limit.saturating_mul(TRIES_FOR_EACH) {
            if self.is_over() {
                return;
            }
            let chosen = random.random_range(1..1_u64 << machines);
            let cut = (0..machines).filter(|&machine| chosen >> machine & 1 == 1);
            let mut fates = everything.clone();
            if random.random_range(0..3) == 0 {
                let cut: Vec<usize> = cut.flat_map(|machine| wrecks.units(machine)).collect();
                draw_prefix(wrecks, &cut, &mut fates, random);
            } else {
                for machine in cut {
                    draw_loss(wrecks, machine, options, &mut fates, random);
                }
            }
            self.look(&fates);
        }
    }

    fn chosen(&mut self, wrecks: &Wrecks, options: &[Vec<Fate>], random: &mut Random) {
        let units = options.len();
        let nothing = vec![Fate::default(); units];
        let everything: Vec<Fate> = (0..units).map(|unit| wrecks.whole(unit)).collect();
        self.look(&nothing);
        self.look(&everything);
        self.prefixes(wrecks, &(0..units).collect::<Vec<_>>(), &everything);
        self.some_machines(wrecks, &everything);
        let with = |base: &[Fate], changes: &[(usize, Fate)]| {
            let mut fates = base.to_vec();
            changes.iter().for_each(|&(unit, fate)| fates[unit] = fate);
            fates
        };
        for unit in 0..units {
            if self.is_over() {
                return;
            }
            self.look(&with(&everything, &[(unit, Fate::default())]));
            self.look(&with(&nothing, &[(unit, everything[unit])]));
        }
        // There are many pairs, so they take at most half of the remaining states.
        let pairs_end = self.count + self.limit.saturating_sub(self.count) / 2;
        'pairs: for first in 0..units {
            for second in first + 1..units {
                if self.count >= pairs_end {
                    break 'pairs;
                }
                self.look(&with(
                    &everything,
                    &[(first, Fate::default()), (second, Fate::default())],
                ));
            }
        }
        let tries = (self.limit - self.count).saturating_mul(TRIES_FOR_EACH);
        for _ in 0..tries {
            if self.is_over() {
                return;
            }
            let fates: Vec<Fate> = options
                .iter()
                .map(|fates| fates[random.random_range(0..fates.len())])
                .collect();
            self.look(&fates);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stonecast_fabric_sim::{
        MachineOptions, MachineProfile, SimBacking, Survivor, World, Wreck,
    };
    use stonecast_media::{
        Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
        ReceiveBuffers,
    };

    use super::*;

    fn wreck(stores: &[(u64, &[u8])]) -> Wrecks {
        wrecks(&[stores])
    }

    /// Machines with the given stores. The stores of the first machine come first.
    fn wrecks(stores: &[&[(u64, &[u8])]]) -> Wrecks {
        let world = World::new(1);
        let wrecks = stores.iter().map(|stores| machine(&world, stores));
        Wrecks::new(wrecks.collect())
    }

    fn machine(world: &World, stores: &[(u64, &[u8])]) -> Wreck {
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        };
        let machine = world.machine(MachineOptions {
            platform,
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let module = world.module(machine, Survivor::default());
        let log = SimBacking::new(&module).open_log(LogOptions {
            capacity: 1 << 20,
            platform,
            durability: Durability::Power,
        });
        let log = log.unwrap();
        stores
            .iter()
            .for_each(|(offset, bytes)| log.write(*offset, bytes));
        world.wreck(machine, &module)
    }

    fn states(wrecks: &Wrecks, limit: u64) -> (u64, BTreeSet<Vec<Fate>>) {
        let mut seen = BTreeSet::new();
        let count = each(
            wrecks,
            limit,
            &mut stonecast_base::random_from_seed(1),
            &mut |fates| {
                seen.insert(fates.to_vec());
                Look::New
            },
        );
        (count, seen)
    }

    #[test]
    fn every_combination_of_few_lines_is_examined() {
        let lines = wreck(&[(0, &[1; 8]), (64, &[1; 8]), (64, &[2; 8]), (128, &[1; 16])]);
        // One store; two stores; one store that tears in two ways.
        let (count, seen) = states(&lines, EXHAUSTIVE_MAX);
        assert_eq!((count, seen.len()), (2 * 3 * 4, 24));
        let none = wreck(&[]);
        assert_eq!(
            states(&none, EXHAUSTIVE_MAX).0,
            1,
            "without undecided lines there is one state"
        );
    }

    #[test]
    fn many_lines_are_examined_in_the_states_that_matter_and_some_more() {
        let bytes = [7; 64];
        let stores: Vec<(u64, &[u8])> = (0..40).map(|line| (line * 64, &bytes[..])).collect();
        let (count, seen) = states(&wreck(&stores), 2000);
        assert_eq!(count, 2000);
        let fate = |survives: bool| Fate {
            stores: u32::from(survives),
            torn: 0,
        };
        for line in 0..40 {
            assert!(
                seen.contains(&(0..40).map(|other| fate(other <= line)).collect::<Vec<_>>()),
                "prefix {line}"
            );
            assert!(
                seen.contains(&(0..40).map(|other| fate(other != line)).collect::<Vec<_>>()),
                "all but {line}"
            );
            assert!(
                seen.contains(&(0..40).map(|other| fate(other == line)).collect::<Vec<_>>()),
                "only {line}"
            );
        }
        assert!(
            seen.iter()
                .any(|fates| fates.iter().filter(|fate| fate.torn != 0).count() > 2),
            "torn lines"
        );
        assert!(
            seen.contains(
                &(0..40)
                    .map(|other| fate(other != 3 && other != 17))
                    .collect::<Vec<_>>()
            )
        );
    }

    #[test]
    fn a_prefix_of_the_stores_has_of_each_line_the_stores_up_to_its_end() {
        let bytes = [7; 64];
        let stores: Vec<(u64, &[u8])> =
            (0..80).map(|store| (store % 40 * 64, &bytes[..])).collect();
        let (_, seen) = states(&wreck(&stores), 2000);
        for end in 0..=80 {
            let fates = (0..40).map(|line| Fate {
                stores: u32::from(line < end) + u32::from(line + 40 < end),
                torn: 0,
            });
            assert!(seen.contains(&fates.collect::<Vec<_>>()), "prefix {end}");
        }
    }

    /// Fails without the choice of machines: in nearly every state, both machines lose something.
    #[test]
    fn any_of_several_machines_may_lose_its_power_alone_or_with_others() {
        let bytes = [7; 64];
        let stores: Vec<(u64, &[u8])> = (0..20).map(|line| (line * 64, &bytes[..])).collect();
        let both = wrecks(&[&stores, &stores]);
        assert_eq!((both.machines(), both.undecided()), (2, 40));
        let (_, seen) = states(&both, 1000);
        let survives = |keeps: [usize; 2]| {
            let fates = (0..40).map(|unit| Fate {
                stores: u32::from(unit % 20 < keeps[unit / 20]),
                torn: 0,
            });
            seen.contains(&fates.collect::<Vec<_>>())
        };
        for lines in 0..=20 {
            assert!(
                survives([lines, 20]),
                "the first keeps {lines}, the second all"
            );
            assert!(
                survives([20, lines]),
                "the first keeps all, the second {lines}"
            );
            assert!(
                survives([lines, 0]),
                "in the common order the first stored earlier"
            );
        }
        assert!(!survives([0, 7]), "no prefix of the common order");
    }

    #[test]
    fn the_search_stops_when_the_caller_has_enough() {
        let lines = wreck(&[(0, &[1; 8]), (64, &[1; 8])]);
        let mut count = 0;
        each(
            &lines,
            100,
            &mut stonecast_base::random_from_seed(1),
            &mut |_| {
                count += 1;
                if count < 3 { Look::New } else { Look::Enough }
            },
        );
        assert_eq!(count, 3);
    }

    /// Fails without the bound of tries: a search for states that do not exist never ends.
    #[test]
    fn known_states_do_not_count_and_a_search_for_new_ones_ends() {
        let bytes = [7; 64];
        let stores: Vec<(u64, &[u8])> = (0..40).map(|line| (line * 64, &bytes[..])).collect();
        let mut kinds = BTreeSet::new();
        let count = each(
            &wreck(&stores),
            100,
            &mut stonecast_base::random_from_seed(1),
            &mut |fates| {
                // Only the first two lines matter.
                if kinds.insert(fates[..2].to_vec()) {
                    Look::New
                } else {
                    Look::Known
                }
            },
        );
        assert_eq!(count, kinds.len() as u64);
        assert!((4..100).contains(&count), "{count}");
    }

    #[test]
    fn the_lower_half_of_the_set_bits_is_found() {
        assert_eq!(
            (
                lower_half(0b1111_0000),
                lower_half(0b101),
                lower_half(0b111)
            ),
            (0b0011_0000, 0b1, 0b1)
        );
    }

    /// Fails if few states are taken in the order of the exhaustive choice: then all of them are cuts of all machines.
    #[test]
    fn few_states_of_several_machines_are_cuts_of_one_of_some_and_of_all() {
        let bytes = [7; 64];
        let stores: Vec<(u64, &[u8])> = (0..20).map(|line| (line * 64, &bytes[..])).collect();
        let wrecks = wrecks(&[&stores[..], &stores[..], &stores[..]]);
        let mut seen = BTreeSet::new();
        let mut random = stonecast_base::random_from_seed(1);
        let count = each(
            &wrecks,
            40,
            &mut random,
            &mut |fates| match seen.insert(fates.to_vec()) {
                true => Look::New,
                false => Look::Known,
            },
        );
        assert_eq!((count, seen.len()), (40, 40));
        let lost = |fates: &Vec<Fate>, machine: usize| {
            let mut units = wrecks.units(machine);
            units.any(|unit| fates[unit] != wrecks.whole(unit))
        };
        let machines = |fates| (0..3).filter(|&machine| lost(fates, machine)).count();
        let cut: BTreeSet<usize> = seen.iter().map(machines).collect();
        assert_eq!(cut, BTreeSet::from([0, 1, 2, 3]));
    }
}
