//! Cuts a pipeline into steps whose operations may go to the store together.
//!
//! ```text
//!   GET a, GET b, SET a, GET a, SET c, PING, GET d, INFO
//!   [Reads      ][Writes                   ][Reads][Alone]
//!                 {SET a, GET a}{SET c}
//! ```
//!
//! Rules, so that a connection sees its commands take effect in order:
//! - Consecutive operations on the same key form a *unit*, applied one after the other to one value.
//! - Units of one step touch different keys, except that a key may occur again if each of its units only overwrites the
//!   key (SET): the store executes these units in order, so they need no step, and no sync, of their own.
//! - An operation that writes many keys is a step by itself.
//! - A read outside a unit of writes begins a new step, and so sees the effect of every earlier write.
//! - Answers that need no store may stand anywhere.

use std::ops::Range;

use stonecast_base::hash::xxh3_64;

use super::operation::Operation;

/// Operations that go to the store together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads, all at once.
    Reads(Range<usize>),
    /// Writes, in flight together.
    Writes(Range<usize>),
    /// One operation by itself.
    Alone(usize),
}

/// The keys of a step while the step grows. Reuse saves allocations.
#[derive(Default)]
pub struct StepKeys {
    /// Hashes of the keys, in a table with open addressing; 0 is a free slot. The lowest bit means that the key is only
    /// overwritten.
    slots: Vec<u64>,
    count: usize,
    comes_again: bool,
}

/// The bit of a slot that is not part of the hash.
const OVERWRITTEN: u64 = 1;

impl StepKeys {
    fn clear(&mut self) {
        if self.count > 0 {
            self.slots.fill(0);
            self.count = 0;
        }
        self.comes_again = false;
        // After an enormous step the table shrinks, so that later steps do not clear as much.
        if self.slots.len() > 4096 {
            self.slots = Vec::new();
        }
    }

    /// Returns whether a key occurs more than once in the latest step of writes.
    pub fn comes_again(&self) -> bool {
        self.comes_again
    }

    /// Adds the key of a unit, which `overwrites` the key or does more. Returns false if the key (or a key with the
    /// same hash) is present and one of the two units does more than overwrite.
    fn insert(&mut self, key: &[u8], overwrites: bool) -> bool {
        if (self.count + 1) * 2 > self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![0; (old.len() * 2).max(64)];
            old.into_iter().filter(|&hash| hash != 0).for_each(|hash| {
                let slot = self.slot(hash);
                self.slots[slot] = hash;
            });
        }
        let hash = (xxh3_64(0, key) & !OVERWRITTEN).max(OVERWRITTEN << 1) | u64::from(overwrites);
        let slot = self.slot(hash);
        let present = self.slots[slot];
        if present == 0 {
            self.slots[slot] = hash;
            self.count += 1;
            return true;
        }
        let may_share = present == hash && overwrites;
        self.comes_again |= may_share;
        may_share
    }

    /// The slot of `hash`, or the free slot for it.
    fn slot(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> 1) as usize & mask;
        while self.slots[slot] != 0 && self.slots[slot] | OVERWRITTEN != hash | OVERWRITTEN {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

/// The step that begins with operation number `start`, which must exist.
pub fn next_step(operations: &[Operation<'_>], start: usize, keys: &mut StepKeys) -> Step {
    let answers = |from: usize| {
        operations[from..]
            .iter()
            .take_while(|operation| matches!(operation, Operation::Answer(_)))
            .count()
    };
    let first = start + answers(start);
    let ends = |end: usize| start..end + answers(end);
    match operations.get(first) {
        None => Step::Reads(start..first),
        Some(Operation::Control(_)) if first == start => Step::Alone(start),
        Some(Operation::Control(_)) => Step::Reads(start..first),
        // An operation on many keys is a step by itself.
        Some(
            Operation::DeleteMany(_)
            | Operation::SetMany(_)
            | Operation::SetManyIfAbsent(_)
            | Operation::Transfer(_),
        ) => Step::Writes(ends(first + 1)),
        Some(operation) if writes(operation) => {
            keys.clear();
            let (mut end, mut returned) = (first, 0);
            while let Some((key, after)) = write_unit(operations, end) {
                returned += values_returned(&operations[end..after]);
                if returned > VALUES_RETURNED_MAX
                    || !keys.insert(key, overwrites(&operations[end..after]))
                {
                    break;
                }
                end = after + answers(after);
            }
            Step::Writes(ends(end))
        }
        Some(_) => {
            let is_read = |operation: &&Operation<'_>| {
                !writes(operation) && !matches!(operation, Operation::Control(_))
            };
            Step::Reads(start..first + operations[first..].iter().take_while(is_read).count())
        }
    }
}

/// The most replies of one step of writes that may be as long as a value.
const VALUES_RETURNED_MAX: usize = 16;

/// The number of replies of these operations that may be as long as a value.
pub fn values_returned(operations: &[Operation<'_>]) -> usize {
    let returns = |operation: &&Operation<'_>| matches!(operation, Operation::Value { command, .. } if command.returns_value());
    operations.iter().filter(returns).count()
}

/// Returns the key and the end of the unit of writes that begins with operation number `start`, if a unit begins there.
pub fn write_unit<'a>(operations: &[Operation<'a>], start: usize) -> Option<(&'a [u8], usize)> {
    let Operation::Value { key, command } = operations.get(start)? else {
        return None;
    };
    let is_same = |operation: &&Operation<'_>| matches!(operation, Operation::Value { key: other, .. } if other == key);
    let mut returned = 0;
    let fits = |operation: &&Operation<'_>| {
        returned += values_returned(std::slice::from_ref(*operation));
        is_same(operation) && returned <= VALUES_RETURNED_MAX
    };
    command.writes().then(|| {
        (
            *key,
            start + operations[start..].iter().take_while(fits).count(),
        )
    })
}

/// Returns whether a unit leaves a value and replies that do not depend on the value before.
fn overwrites(unit: &[Operation<'_>]) -> bool {
    unit.iter().all(
        |operation| matches!(operation, Operation::Value { command, .. } if command.is_blind()),
    )
}

fn writes(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Value { command, .. } => command.writes(),
        Operation::DeleteMany(_)
        | Operation::SetMany(_)
        | Operation::SetManyIfAbsent(_)
        | Operation::Transfer(_) => true,
        Operation::GetMany(_)
        | Operation::CountMany(_)
        | Operation::Answer(_)
        | Operation::Control(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::operation::Arguments;

    /// The steps of a pipeline written as words, commands separated by commas.
    fn steps(pipeline: &str) -> Vec<String> {
        let mut input = Vec::new();
        let mut commands = Vec::new();
        for command in pipeline.split(", ") {
            let mut places = Vec::new();
            for word in command.split(' ') {
                let start = input.len() as u32;
                input.extend(word.bytes());
                places.push(start..input.len() as u32);
            }
            commands.push(places);
        }
        let operations: Vec<Operation<'_>> = commands
            .iter()
            .map(|places| Operation::read(Arguments::new(&input, places)).1)
            .collect();
        let (mut start, mut steps, mut keys) = (0, Vec::new(), StepKeys::default());
        while start < operations.len() {
            let step = next_step(&operations, start, &mut keys);
            let (name, end) = match step {
                Step::Reads(range) => ("reads", range.end),
                Step::Writes(range) => ("writes", range.end),
                Step::Alone(index) => ("alone", index + 1),
            };
            assert!(end > start, "each step gets on");
            steps.push(format!("{name} {}", end - start));
            start = end;
        }
        steps
    }

    #[test]
    fn reads_go_together_and_writes_go_together() {
        assert_eq!(steps("GET a, GET a, MGET b c, STRLEN a"), ["reads 4"]);
        assert_eq!(steps("SET a 1, SET b 1, INCR c, DEL d"), ["writes 4"]);
        assert_eq!(steps("GET a, SET a 1"), ["reads 1", "writes 1"]);
    }

    #[test]
    fn a_read_waits_for_every_earlier_write_unless_it_reads_the_key_just_written() {
        assert_eq!(steps("SET a 1, GET b"), ["writes 1", "reads 1"]);
        assert_eq!(
            steps("SET a 1, GET a, SET b 1, GET b, GET c"),
            ["writes 4", "reads 1"]
        );
        assert_eq!(steps("SET a 1, SET b 1, GET a"), ["writes 2", "reads 1"]);
    }

    #[test]
    fn a_key_that_is_only_overwritten_may_occur_again_in_the_same_step() {
        assert_eq!(
            steps("SET a 1, SET b 1, SET a 2, SET c 1, SET a 3, SET a 4"),
            ["writes 6"]
        );
        assert_eq!(steps("INCR a, INCR a, INCR a"), ["writes 3"]);
    }

    /// Needs the bit of each key: without the bit, an operation would read a value before an earlier write of the value
    /// is done.
    #[test]
    fn a_key_that_occurs_again_for_more_than_an_overwrite_begins_a_new_step() {
        assert_eq!(
            steps("SET a 1, SET b 1, INCR a, SET c 1"),
            ["writes 2", "writes 2"]
        );
        assert_eq!(
            steps("INCR a, SET b 1, SET a 2, SET b 2"),
            ["writes 2", "writes 2"]
        );
        assert_eq!(
            steps("SET a 1, SET b 1, SET a 2 NX"),
            ["writes 2", "writes 1"]
        );
        assert_eq!(
            steps("SET a 1, SET b 1, SET a 2, GET a"),
            ["writes 2", "writes 2"]
        );
        assert_eq!(steps("SET a 1, SET b 1, DEL a"), ["writes 2", "writes 1"]);
    }

    #[test]
    fn answers_stand_anywhere_and_controls_stand_alone() {
        assert_eq!(
            steps("PING, SET a 1, PING, NONSENSE, SET b 1, PING"),
            ["writes 6"]
        );
        assert_eq!(steps("PING, GET a, PING"), ["reads 3"]);
        assert_eq!(
            steps("PING, INFO, INFO, PING"),
            ["reads 1", "alone 1", "alone 1", "reads 1"]
        );
    }

    #[test]
    fn operations_on_many_keys_are_a_step_each() {
        assert_eq!(
            steps("SET a 1, MSET a 2 b 2, SET b 3, DEL a b, DEL c d"),
            ["writes 1", "writes 1", "writes 1", "writes 1", "writes 1"]
        );
    }

    /// Needs both bounds: without them, a step would hold any number of long replies.
    #[test]
    fn a_step_of_writes_returns_few_values() {
        let takes: Vec<String> = (0..20)
            .map(|number| format!("GETDEL key{number}"))
            .collect();
        assert_eq!(steps(&takes.join(", ")), ["writes 16", "writes 4"]);
        let reads = format!("APPEND a 1{}", ", GET a".repeat(20));
        assert_eq!(steps(&reads), ["writes 17", "reads 4"]);
    }

    #[test]
    fn many_keys_are_told_apart() {
        let pipeline: Vec<String> = (0..1000)
            .map(|number| format!("SET key{number} v"))
            .collect();
        assert_eq!(steps(&pipeline.join(", ")), ["writes 1000"]);
    }
}
