//! The content that a pool may have according to the notes.

use std::collections::BTreeMap;
use std::path::Path;

use super::notes::{Kind, Note, read};
use super::work::{operation_of, value_of};

/// The content that a pool may have.
#[derive(Default)]
pub struct Model {
    keys: BTreeMap<String, Key>,
    /// Writes acknowledged so far.
    pub acknowledged: u64,
}

/// One key.
struct Key {
    /// The last operation that is known to have been done.
    done: (u64, Kind),
    /// The operation that was under way when its writer died.
    open: Option<(u64, Kind)>,
    /// The newest operation whose value was read.
    seen: u64,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            done: (0, Kind::Delete),
            open: None,
            seen: 0,
        }
    }
}

impl Model {
    /// Adds a worker's notes.
    pub fn read_notes(&mut self, path: &Path) {
        let mut under_way = BTreeMap::new();
        for note in read(path) {
            match note {
                Note::Begin {
                    operation,
                    kind,
                    key,
                } => {
                    let state = self.keys.entry(key.clone()).or_default();
                    assert!(
                        state.open.is_none(),
                        "a key has one operation at a time, {key} has {:?} and {operation}",
                        state.open
                    );
                    state.open = Some((operation, kind));
                    under_way.insert(operation, key);
                }
                Note::Acknowledged { operation } => {
                    let key = under_way
                        .remove(&operation)
                        .expect("an acknowledged operation was asked for");
                    let state = self.keys.get_mut(&key).expect("its key is known");
                    state.done = state.open.take().expect("its operation is open");
                    self.acknowledged += 1;
                }
                Note::NotDone { operation } => {
                    let key = under_way
                        .remove(&operation)
                        .expect("a refused operation was asked for");
                    self.keys.get_mut(&key).expect("its key is known").open = None;
                }
                Note::Saw { operation, key } => {
                    let state = self.keys.entry(key).or_default();
                    state.seen = state.seen.max(operation);
                }
                Note::Gone { .. } => unreachable!("no key of these writers expires"),
            }
        }
    }

    /// Compares the model with an export, which counts as the truth from now on.
    pub fn compare(&mut self, exported: &str) {
        let mut there = BTreeMap::new();
        for line in exported.lines() {
            let entry: serde_json::Value = serde_json::from_str(line).expect("an export is JSON");
            let (key, value) = (
                entry["key"].as_str().expect("keys are text"),
                entry["value"].as_str().expect("values are text"),
            );
            let operation = operation_of(value.as_bytes());
            assert_eq!(
                value.as_bytes(),
                value_of(operation),
                "{key} has the value that operation {operation} wrote"
            );
            assert!(self.keys.contains_key(key), "{key} was written by somebody");
            assert!(
                there.insert(key.to_owned(), operation).is_none(),
                "{key} is there once"
            );
        }
        for (key, state) in &mut self.keys {
            let found = there.get(key.as_str()).copied();
            let possible = [Some(state.done), state.open].into_iter().flatten();
            let fitting = possible
                .filter(|(operation, kind)| found == (*kind == Kind::Put).then_some(*operation));
            let Some(last) = fitting.max_by_key(|(operation, _)| *operation) else {
                panic!(
                    "{key} holds {found:?}; last acknowledged {:?}, under way {:?}",
                    state.done, state.open
                );
            };
            state.done = last;
            state.open = None;
        }
        // This check comes after the check of acknowledged writes, whose loss is reported if both are gone.
        for (key, state) in &self.keys {
            let found = there.get(key);
            assert!(
                state.done.0 >= state.seen,
                "{key} held the value of operation {}, which is gone; now {found:?}",
                state.seen
            );
        }
    }
}
