//! A change of one key, and its effect, which depends on the value of the key.

use super::item::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use super::traversal::Answer;
use crate::wire::{Comparison, Verb};

/// A change of one key of a structure with keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyChange {
    verb: Verb,
    pub key: Vec<u8>,
    value: Vec<u8>,
}

/// The effect on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect<'a> {
    /// The key keeps its value.
    Nothing,
    /// The key gets this value.
    Put(&'a [u8]),
    /// The key is removed.
    Remove,
}

impl KeyChange {
    /// A change by one of the verbs for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than any structure permits.
    pub fn new(verb: Verb, key: &[u8], value: &[u8]) -> Self {
        let change = Self {
            verb,
            key: key.to_vec(),
            value: value.to_vec(),
        };
        assert!(verb.is_for_keys() && key.len() <= KEY_SIZE_MAX);
        assert!(change.new_value().len() <= VALUE_SIZE_MAX);
        change
    }

    /// Whether the change may add the key.
    pub fn adds(&self) -> bool {
        matches!(self.verb, Verb::Insert | Verb::InsertIfAbsent)
    }

    /// Whether the effect depends on the value of the key, and not only on its presence.
    pub fn compares(&self) -> bool {
        self.verb == Verb::CompareAndUpdate
    }

    fn comparison(&self) -> Comparison<'_> {
        let none = Comparison {
            expected: &[],
            new: &[],
        };
        Comparison::parse(&self.value).unwrap_or(none)
    }

    fn new_value(&self) -> &[u8] {
        match self.compares() {
            true => self.comparison().new,
            false => &self.value,
        }
    }

    /// The answer, and the effect on a key with this value.
    pub fn outcome(&self, current: Option<&[u8]>) -> (Answer, Effect<'_>) {
        let existed = current.is_some();
        let put = Effect::Put(self.new_value());
        if self.compares() {
            let is_expected = current == Some(self.comparison().expected);
            let effect = if is_expected { put } else { Effect::Nothing };
            return (Answer::Changed(is_expected), effect);
        }
        let effect = match self.verb {
            Verb::Insert => put,
            Verb::InsertIfAbsent if !existed => put,
            Verb::Update if existed => put,
            Verb::Remove if existed => Effect::Remove,
            _ => Effect::Nothing,
        };
        (Answer::Existed(existed), effect)
    }
}
