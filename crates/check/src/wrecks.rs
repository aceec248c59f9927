//! The states that a power cut of several machines at one moment may leave, each of all machines together.
//!
//! ```text
//!   machine 0:  unit 0, 1, 2        each undecided line or page meets a fate; units of all machines
//!   machine 1:  unit 3, 4           are numbered one after the other, and their stores stand in one
//!   machine 2:  nothing undecided   common order
//! ```
//!
//! A machine that keeps its power counts as a machine whose bytes all survive, so the states of all machines contain
//! the cuts of any of them.

use std::ops::Range;

use stonecast_fabric_sim::{Fate, Module, ReadOrder, Survivor, Wreck};

/// The wrecks of all machines at one moment.
pub struct Wrecks {
    wrecks: Vec<Wreck>,
    /// The number of the first unit of each machine, and behind them the number of all units.
    starts: Vec<usize>,
}

impl Wrecks {
    /// The wrecks of all machines, in the order of their numbers.
    pub fn new(wrecks: Vec<Wreck>) -> Self {
        let mut starts = vec![0];
        for wreck in &wrecks {
            starts.push(starts[starts.len() - 1] + wreck.undecided());
        }
        Self { wrecks, starts }
    }

    /// The number of machines.
    pub fn machines(&self) -> usize {
        self.wrecks.len()
    }

    /// The number of undecided units of all machines.
    pub fn undecided(&self) -> usize {
        self.starts[self.machines()]
    }

    /// The units of a machine.
    pub fn units(&self, machine: usize) -> Range<usize> {
        self.starts[machine]..self.starts[machine + 1]
    }

    /// The machine of a unit, and the unit's number there.
    fn place(&self, unit: usize) -> (&Wreck, usize) {
        let machine = self.starts.partition_point(|&start| start <= unit) - 1;
        (&self.wrecks[machine], unit - self.starts[machine])
    }

    /// Number of stores of a unit that may have survived.
    pub fn stores(&self, unit: usize) -> u32 {
        let (wreck, unit) = self.place(unit);
        wreck.stores(unit)
    }

    /// The places of the stores of a unit in the common order of stores.
    pub fn serials(&self, unit: usize) -> impl Iterator<Item = u64> {
        let (wreck, unit) = self.place(unit);
        wreck.serials(unit)
    }

    /// The bits of [`Fate::torn`] that matter for a unit with `stores` whole stores.
    pub fn parts(&self, unit: usize, stores: u32) -> u8 {
        let (wreck, unit) = self.place(unit);
        wreck.parts(unit, stores)
    }

    /// The fate of a unit that survives whole.
    pub fn whole(&self, unit: usize) -> Fate {
        Fate {
            stores: self.stores(unit),
            torn: 0,
        }
    }

    /// The survivors of all machines when the units met `fates`.
    pub fn survivors(&self, fates: &[Fate]) -> Vec<Survivor> {
        self.each()
            .map(|(machine, wreck)| wreck.survivor(&fates[self.units(machine)]))
            .collect()
    }

    /// The survivors of all machines when everything survived.
    pub fn everything(&self) -> Vec<Survivor> {
        self.wrecks.iter().map(Wreck::everything).collect()
    }

    /// Notes in `order` the units that are read in `modules`, which hold survivors of the machines.
    pub fn watch<'a>(&self, modules: impl Iterator<Item = &'a Module>, order: &ReadOrder) {
        for ((machine, wreck), module) in self.each().zip(modules) {
            module.watch(wreck, self.starts[machine] as u32, order);
        }
    }

    /// A description of `fates`. `name` names a machine; a single machine is not named.
    pub fn describe(&self, fates: &[Fate], name: impl Fn(usize) -> String) -> String {
        let texts = self.each().map(|(machine, wreck)| {
            let text = wreck.describe(&fates[self.units(machine)]);
            match self.machines() {
                1 => text,
                _ => format!("{}: {text}", name(machine)),
            }
        });
        texts.collect::<Vec<_>>().join("; ")
    }

    fn each(&self) -> impl Iterator<Item = (usize, &Wreck)> {
        self.wrecks.iter().enumerate()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use stonecast_fabric_sim::{Machine, MachineOptions, MachineProfile, SimBacking, World};
    use stonecast_media::{Backing as _, Durability, LogOptions, PersistentRegion};

    use super::*;

    fn region(module: &Rc<Module>) -> Rc<dyn PersistentRegion> {
        let options = LogOptions {
            capacity: 1 << 20,
            platform: MachineOptions::new(MachineProfile::MODERN).platform,
            durability: Durability::Power,
        };
        SimBacking::new(module).open_log(options).unwrap()
    }

    /// Fails without one counter of the world that continues after the restart of a machine: with one counter for each
    /// memory, the orders mix.
    #[test]
    fn stores_to_several_machines_stand_in_one_order_even_after_one_machine_lost_its_power() {
        let world = World::new(1);
        let machines: [Machine; 2] =
            [0, 1].map(|_| world.machine(MachineOptions::new(MachineProfile::MODERN)));
        let modules = machines.map(|machine| world.module(machine, Survivor::default()));
        for round in 0..8 {
            region(&modules[round % 2]).write(64 * round as u64, &[7; 8]);
        }
        let wreck = |of: usize| world.wreck(machines[of], &modules[of]);
        modules[0].restart(wreck(0).everything());
        region(&modules[0]).write(0, &[8; 8]);
        region(&modules[1]).write(4096, &[8; 8]);
        let wrecks = Wrecks::new(vec![wreck(0), wreck(1)]);
        let mut stores: Vec<(u64, usize)> = (0..wrecks.undecided())
            .flat_map(|unit| wrecks.serials(unit).map(move |serial| (serial, unit)))
            .collect();
        stores.sort_unstable();
        let units: Vec<usize> = stores.into_iter().map(|(_, unit)| unit).collect();
        // The first machine has one undecided line, stored to before the last line of the second one.
        assert_eq!(units, [1, 2, 3, 4, 0, 5]);
    }
}
