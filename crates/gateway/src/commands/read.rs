//! Reading: the keys of many commands go to the store together.

use std::ops::Range;

use smallvec::SmallVec;
use stonecast_kv::Values;

use super::error::CommandError;
use super::operation::{Arguments, Operation};
use super::reply::Reply;
use super::run::Run;
use super::value::ValueCommand;
use crate::connection::End;

/// Keys that are read together: enough that the way to the store no longer counts, and few enough that the values of one
/// read, a megabyte each at most, can be held.
const KEYS_MAX: usize = 32;

type KeyList<'a> = SmallVec<[&'a [u8]; KEYS_MAX]>;

impl<'a> Run<'_, 'a> {
    /// Does the operations of a step of reads.
    pub(super) async fn reads(&mut self, range: Range<usize>) -> Result<(), End> {
        let mut start = range.start;
        while start < range.end {
            let operation = &self.operations[start];
            if key_count(operation) > KEYS_MAX {
                self.wide_read(operation).await?;
                start += 1;
            } else {
                let mut keys = 0;
                let fits = |operation: &&Operation<'_>| {
                    keys += key_count(operation);
                    keys <= KEYS_MAX
                };
                let end = start
                    + self.operations[start..range.end]
                        .iter()
                        .take_while(fits)
                        .count();
                self.read_group(start..end).await;
                start = end;
            }
            self.outlet.relieve().await?;
        }
        Ok(())
    }

    /// Operations that have not too many keys together.
    async fn read_group(&mut self, range: Range<usize>) {
        let operations = &self.operations[range];
        let keys: KeyList<'a> = operations.iter().flat_map(keys_of).collect();
        let mut values = self.context.take_values();
        let result = if keys.is_empty() {
            Ok(())
        } else {
            self.context.store.get_many(&keys, &mut values).await
        };
        match result {
            Ok(()) => {
                let mut next = 0;
                for operation in operations {
                    let first = next;
                    next += key_count(operation);
                    self.answer_read(operation, &values, first);
                }
            }
            // One key's failure must not be the others': each operation by itself.
            Err(error) if operations.len() > 1 && !self.context.store.is_lost() => {
                drop(error);
                for operation in operations {
                    self.read_alone(operation, &mut values).await;
                }
            }
            Err(error) => operations
                .iter()
                .for_each(|_| self.reply(&Reply::Error(error.clone()))),
        }
        self.context.give_values(values);
    }

    async fn read_alone(&mut self, operation: &Operation<'a>, values: &mut Values) {
        let keys: KeyList<'a> = keys_of(operation).collect();
        let result = if keys.is_empty() {
            Ok(())
        } else {
            self.context.store.get_many(&keys, values).await
        };
        match result {
            Ok(()) => self.answer_read(operation, values, 0),
            Err(error) => self.reply(&Reply::Error(error)),
        }
    }

    /// Answers an operation whose values begin at number `first`.
    fn answer_read(&mut self, operation: &Operation<'a>, values: &Values, first: usize) {
        let value = |index: usize| values.get(first + index).map(|(bytes, _)| bytes);
        match operation {
            Operation::Value {
                command: ValueCommand::Get,
                ..
            } => self.writer().optional(value(0)),
            Operation::Value { command, .. } => {
                let reply = command.apply(&mut value(0).map(Into::into), &mut false);
                self.reply(&reply);
            }
            Operation::GetMany(keys) => {
                self.writer().array(keys.len());
                (0..keys.len()).for_each(|index| self.writer().optional(value(index)));
            }
            Operation::CountMany(keys) => {
                let count = (0..keys.len())
                    .filter(|&index| value(index).is_some())
                    .count();
                self.writer().integer(count as i64);
            }
            Operation::Answer(reply) => self.reply(reply),
            other => unreachable!("{other:?} is no read"),
        }
    }

    /// An operation on more keys than go together: piece by piece, so that no more than the values of one piece are held.
    async fn wide_read(&mut self, operation: &Operation<'a>) -> Result<(), End> {
        let start = self.outlet.mark();
        let mut values = self.context.take_values();
        let result = self.wide_read_with(operation, &mut values).await;
        self.context.give_values(values);
        match result {
            Ok(Ok(())) => Ok(()),
            // A reply that is partly sent can be no error any more.
            Ok(Err(error)) if self.outlet.rewind(start) => {
                self.reply(&Reply::Error(error));
                Ok(())
            }
            Ok(Err(_)) => Err(End::Store),
            Err(end) => Err(end),
        }
    }

    async fn wide_read_with(
        &mut self,
        operation: &Operation<'a>,
        values: &mut Values,
    ) -> Result<Result<(), CommandError>, End> {
        let (keys, returns_values): (Arguments<'a>, bool) = match operation {
            Operation::GetMany(keys) => (*keys, true),
            Operation::CountMany(keys) => (*keys, false),
            other => unreachable!("{other:?} has few keys"),
        };
        if returns_values {
            self.writer().array(keys.len());
        }
        let mut count = 0;
        for start in (0..keys.len()).step_by(KEYS_MAX) {
            let piece: KeyList<'a> = keys.from(start).iter().take(KEYS_MAX).collect();
            if let Err(error) = self.context.store.get_many(&piece, values).await {
                return Ok(Err(error));
            }
            for index in 0..piece.len() {
                let value = values.get(index).map(|(bytes, _)| bytes);
                count += i64::from(value.is_some());
                if returns_values {
                    self.writer().optional(value);
                }
            }
            self.outlet.relieve().await?;
        }
        if !returns_values {
            self.writer().integer(count);
        }
        Ok(Ok(()))
    }
}

fn key_count(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Value { .. } => 1,
        Operation::GetMany(keys) | Operation::CountMany(keys) => keys.len(),
        _ => 0,
    }
}

fn keys_of<'a>(operation: &Operation<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let (one, many) = match operation {
        Operation::Value { key, .. } => (Some(*key), None),
        Operation::GetMany(keys) | Operation::CountMany(keys) => (None, Some(keys.iter())),
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten())
}
