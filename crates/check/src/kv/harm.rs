//! Damages records of a run: records that the server serves, and records that it leaves.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_fabric_sim::Fault;

use crate::kv::damage::Image;
use crate::kv::drive::Run;
use crate::kv::subject::everything;
use crate::kv::{keys, progress};
use crate::values::ValueId;

impl Run {
    /// Damages records while the server serves them, lets clients read them, and restores them.
    pub(super) fn damage_live(&mut self) {
        let faults = self.work.setup.faults;
        let kinds = [
            faults.flipped_bits,
            faults.misdirected_writes + faults.stale_lines,
            faults.poisoned_lines,
        ];
        if kinds == [0; 3] || !self.server().is_running() {
            return;
        }
        self.allowed.update(&self.work.testimony.history.borrow());
        let present: Vec<(u32, ValueId)> = (0..self.work.setup.keys)
            .filter_map(|key| match *self.allowed.of_key(key) {
                [value] if value != ValueId::ABSENT => Some((key, value)),
                _ => None,
            })
            .collect();
        let module = self.server().module.clone();
        let image = Image::read(module.touched(), |offset, into| module.look(offset, into));
        let places: Vec<(u32, ValueId, u64)> = present
            .iter()
            .filter_map(|&(key, value)| Some((key, value, image.find(key, value)?)))
            .collect();
        let Some(&(key, value, place)) =
            places.get(self.random.random_range(0..places.len().max(1)))
        else {
            return;
        };
        // A block of a few lines, inside the segment.
        let segment_size = self.work.setup.pool.segment_size;
        let size = 512.min(segment_size - place % segment_size) as usize;
        let before = image.bytes(place, size);
        let kind = (0..3)
            .map(|turn| (turn + self.random.random_range(0..3)) % 3)
            .find(|&kind| kinds[kind] > 0);
        match kind {
            Some(0) => {
                let at = 40 + keys::name(key).len() as u64 + self.random.random_range(0..8);
                let mut byte = image.bytes(place + at, 1);
                byte[0] ^= 1 << self.random.random_range(0..8);
                module.corrupt(place + at, &byte);
                self.stage.world.hit(Fault::BitFlip);
            }
            Some(1) => {
                let other = places[self.random.random_range(0..places.len())].2;
                if other == place {
                    return;
                }
                module.corrupt(place, &image.bytes(other, size));
                self.stage.world.hit(Fault::MisdirectedWrite);
            }
            Some(_) => module.poison(place, 64),
            None => return,
        }
        self.stage
            .mark(format!("the record of key {key} at {place} is damaged"));
        let work = self.work.clone();
        self.visit_alone(move |process, done| {
            Box::pin(progress::read_damaged(
                work,
                process,
                vec![(key, value)],
                done,
            ))
        });
        module.corrupt(place, &before);
        module.cure();
        self.stage.mark("the record is restored".to_owned());
    }

    /// Damages records that only their successors vouch for.
    pub(super) fn damage_trail(&mut self) {
        let trail = Rc::new(Cell::new(Vec::new()));
        let (work, laid) = (self.work.clone(), trail.clone());
        self.visit_alone(move |process, done| {
            Box::pin(progress::lay_trail(work, process, laid, done))
        });
        if !self.stage.is_sound() || !self.server().is_running() {
            return;
        }
        let cut = everything(&self.stage.wrecks());
        let found = self
            .damage
            .of_trail(&self.work, &cut, &trail.take(), &mut self.random);
        self.stage.report.violations.extend(found);
    }
}
