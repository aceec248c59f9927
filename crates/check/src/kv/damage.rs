//! A store on a faulty medium: bits flip, blocks land in the wrong place, lines are lost or cannot be read. The store
//! must either report the damage and serve nothing, or serve the undamaged content.
//!
//! ```text
//!   while it serves      in a served record                every read: the value, or an error
//!   after a power cut    in a record without a seal        recovery: the content, or an error
//!   after a recovery     in a record with no successor     recovery: the content, or an error
//!   after it was closed  anywhere                          recovery: the content, or an error
//!   at any crash point   anywhere                          no value never written to that key
//! ```

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, Span};
use stonecast_fabric_sim::{Fault, Faults, Survivor};
use stonecast_media::Blob;

use crate::kv::client::Work;
use crate::kv::contents::Contents;
use crate::kv::keys;
use crate::kv::subject::{Kv, everything};
use crate::lab::{Lab, REFUSED};
use crate::oracles::values;
use crate::values::{ValueId, encode};
use crate::violation::Violation;

const ORACLE: &str = "damage is never served";

/// Examines damaged media.
pub(crate) struct Damage {
    lab: Rc<Lab<Kv>>,
    faults: Faults,
    pub states: u64,
}

/// The ways in which the content of a medium changes.
const KINDS: [Fault; 5] = [
    Fault::BitFlip,
    Fault::MisdirectedWrite,
    Fault::LostWrite,
    Fault::StaleContent,
    Fault::Poison,
];

impl Damage {
    pub fn new(lab: Rc<Lab<Kv>>, faults: Faults) -> Self {
        Self {
            lab,
            faults,
            states: 0,
        }
    }

    /// Whether the former content of lines is needed.
    pub fn remembers(faults: &Faults) -> bool {
        faults.adr_failure_percent + faults.lost_writes + faults.stale_lines > 0
    }

    /// Judges a crash point whose surviving state is damaged, too. Every value that recovery finds must have been
    /// written to that key.
    pub fn after_crash(
        &mut self,
        work: &Work,
        survivor: &Survivor,
        random: &mut Random,
    ) -> Option<Violation> {
        let mut damaged = survivor.clone();
        if self.faults.adr_failure_percent > 0
            && random.random_range(0..100) < self.faults.adr_failure_percent
        {
            if damaged.lose_queue(random) > 0 {
                work.hit(Fault::AdrFailure);
            }
        } else {
            self.harm(work, &mut damaged, random)?;
        }
        let contents = self.recover(damaged).ok().flatten()?;
        let history = work.testimony.history.borrow();
        let mut judged = contents
            .values()
            .map(|(key, value)| values::judge(&history, key, value));
        judged.find_map(Result::err)
    }

    /// Judges damage after the store was closed: the damage must be noticed, or do no harm.
    pub fn after_close(
        &mut self,
        work: &Work,
        closed: &Survivor,
        random: &mut Random,
    ) -> Option<Violation> {
        let expected = match self.recover(closed.clone()) {
            Ok(Some(contents)) => contents,
            Ok(None) => {
                return Some(Violation::new(
                    ORACLE,
                    "a closed pool is refused".to_owned(),
                ));
            }
            Err(violation) => return Some(violation),
        };
        for round in 0..ROUNDS {
            let mut damaged = closed.clone();
            let mut any = self.harm(work, &mut damaged, random).is_some();
            if self.faults.flipped_bits > 0 && round % 3 == 0 {
                let blob = [Blob::Checkpoint, Blob::HeaderFirst, Blob::HeaderSecond]
                    [random.random_range(0..3)];
                any |= damaged.flip_bit_of(blob, random);
            }
            if any
                && let Some(violation) =
                    self.same_or_refused(damaged, &expected, "of a closed pool")
            {
                return Some(violation);
            }
        }
        None
    }

    /// Judges damage after a power cut without loss. The records of `trail`, written one after the other by one client,
    /// are above every seal. Each record except the last has a successor that proves its durability.
    pub fn of_trail(
        &mut self,
        work: &Work,
        cut: &Survivor,
        trail: &[(u32, ValueId)],
        random: &mut Random,
    ) -> Option<Violation> {
        if !KINDS.iter().any(|&kind| self.faults.rate(kind) > 0) {
            return None;
        }
        let expected = match self.recover(cut.clone()) {
            Ok(Some(contents)) => contents,
            Ok(None) => {
                return Some(Violation::new(
                    ORACLE,
                    "a pool after a power cut is refused".to_owned(),
                ));
            }
            Err(violation) => return Some(violation),
        };
        let image = Image::of(cut);
        let places: Vec<Option<u64>> = trail
            .iter()
            .map(|&(key, value)| image.find(key, value))
            .collect();
        let segment_size = work.setup.pool.segment_size;
        let segment = |place: u64| place / segment_size;
        for pair in places.windows(2) {
            let [Some(place), Some(next)] = *pair else {
                continue;
            };
            if segment(place) != segment(next) || next < place {
                continue;
            }
            let mut damaged = cut.clone();
            spoil(&mut damaged, &image, place, next, random);
            if let Some(violation) =
                self.same_or_refused(damaged, &expected, "that later records vouch for")
            {
                return Some(violation);
            }
        }
        work.hit(Fault::LostWrite);
        match places[..] {
            [.., Some(before), Some(last)] => {
                self.of_last_recovered(cut, &expected, &image, (before, last), random)
            }
            _ => None,
        }
    }

    /// Judges damage after a recovery of `cut` without later writes: the records found are sealed, so the last one
    /// needs no successor.
    fn of_last_recovered(
        &mut self,
        cut: &Survivor,
        expected: &Contents,
        image: &Image,
        (before, last): (u64, u64),
        random: &mut Random,
    ) -> Option<Violation> {
        let bench = self.lab.begin(vec![cut.clone()], ());
        if let Err(violation) = bench.end() {
            return Some(violation);
        }
        let mut damaged = everything(&bench.remains().wrecks);
        spoil(&mut damaged, image, last, before, random);
        self.same_or_refused(damaged, expected, "that an earlier recovery found")
    }

    /// Damages `survivor` in one of this run's ways; `None` if the run has none, or nothing changed.
    fn harm(&self, work: &Work, survivor: &mut Survivor, random: &mut Random) -> Option<()> {
        let kinds: Vec<Fault> = KINDS
            .into_iter()
            .filter(|&kind| self.faults.rate(kind) > 0)
            .collect();
        let kind = *kinds.get(random.random_range(0..kinds.len().max(1)))?;
        let mut any = false;
        for _ in 0..random.random_range(1..=self.faults.rate(kind)) {
            any |= match kind {
                Fault::BitFlip => survivor.flip_bit(random).is_some(),
                Fault::MisdirectedWrite => survivor.misdirect(random),
                Fault::LostWrite => survivor.bring_back(false, random),
                Fault::StaleContent => survivor.bring_back(true, random),
                _ => survivor.poison_line(random),
            };
        }
        if any && kind != Fault::Poison {
            work.hit(kind);
        }
        any.then_some(())
    }

    fn same_or_refused(
        &mut self,
        damaged: Survivor,
        expected: &Contents,
        what: &str,
    ) -> Option<Violation> {
        let contents = match self.recover(damaged) {
            Ok(contents) => contents?,
            Err(violation) => return Some(violation),
        };
        let differs = expected
            .values()
            .zip(contents.values())
            .find(|(before, after)| before != after);
        differs.map(|((key, before), (_, after))| {
            Violation::new(
                ORACLE,
                format!("after damage {what} key {key} has {after} instead of {before}"),
            )
        })
    }

    /// Recovers `survivor`; `None` if the store refused the pool, or could not read it.
    fn recover(&mut self, survivor: Survivor) -> Result<Option<Contents>, Violation> {
        self.states += 1;
        match self.lab.recover(vec![survivor]) {
            Ok(contents) => Ok(Some(contents)),
            Err(violation) if violation.oracle == REFUSED => Ok(None),
            Err(violation) => Err(violation),
        }
    }
}

/// Damages the record at `place`: never written, overwritten by the one at `other`, or with a bit
/// changed after its stamp.
fn spoil(survivor: &mut Survivor, image: &Image, place: u64, other: u64, random: &mut Random) {
    match random.random_range(0..3) {
        0 => survivor.write(place, &[0; 64]),
        1 => survivor.write(place, &image.bytes(other, 64)),
        _ => {
            let place = place + random.random_range(24..48);
            let mut byte = image.bytes(place, 1);
            byte[0] ^= 1 << random.random_range(0..8);
            survivor.write(place, &byte);
        }
    }
}

/// Least number of bytes before the key of a record: the stamp, tag and facts. Up to two more words may follow.
const HEADER_SIZE_MIN: usize = 40;
const HEADER_SIZE_MAX: usize = 56;
/// Damaged pools examined after each closing.
const ROUNDS: u32 = 6;

/// The bytes of a log, to search for records.
pub(crate) struct Image {
    parts: Vec<(u64, Vec<u8>)>,
}

impl Image {
    pub fn of(survivor: &Survivor) -> Self {
        Self::read(survivor.touched(), |offset, into| {
            survivor.read(offset, into)
        })
    }

    /// The bytes that `read` returns for `spans`.
    pub fn read(spans: Vec<Span>, read: impl Fn(u64, &mut [u8])) -> Self {
        let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
        for span in spans {
            let mut bytes = vec![0; span.size as usize];
            read(span.offset, &mut bytes);
            match parts
                .last_mut()
                .filter(|(offset, before)| offset + before.len() as u64 == span.offset)
            {
                Some((_, before)) => before.extend_from_slice(&bytes),
                None => parts.push((span.offset, bytes)),
            }
        }
        Self { parts }
    }

    /// The place of the stamped record of `key` and `value` whose header, key and first words are
    /// whole.
    pub fn find(&self, key: u32, value: ValueId) -> Option<u64> {
        let name = keys::name(key);
        let mut head = Vec::new();
        encode(value, crate::values::VALUE_SIZE_MIN, &mut head);
        let needle = [name.as_slice(), &head[..4]].concat();
        self.parts.iter().find_map(|(offset, bytes)| {
            let starts =
                (0..bytes.len().saturating_sub(HEADER_SIZE_MAX + needle.len())).step_by(64);
            let stamped = |at: usize| bytes[at + 8..at + 16] != [0; 8];
            let says = |at: usize| {
                (HEADER_SIZE_MIN..=HEADER_SIZE_MAX)
                    .step_by(8)
                    .any(|size| bytes[at + size..].starts_with(&needle))
            };
            let mut found = starts.filter(|&at| says(at) && stamped(at));
            found.next_back().map(|at| offset + at as u64)
        })
    }

    /// Some of the bytes; zeros where none were written.
    pub fn bytes(&self, offset: u64, size: usize) -> Vec<u8> {
        let mut found = vec![0; size];
        for (start, bytes) in &self.parts {
            for (at, byte) in found.iter_mut().enumerate() {
                let position = offset + at as u64;
                if position >= *start && position < start + bytes.len() as u64 {
                    *byte = bytes[(position - start) as usize];
                }
            }
        }
        found
    }
}
