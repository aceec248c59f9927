//! `RENAME`, `RENAMENX` and `COPY`: the value of a key, with its moment, goes to another key.

use super::error::CommandError;
use super::operation::Arguments;
use super::options::integer;
use super::reply::Reply;
use super::value::State;

/// The value of a key goes to another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The key with the value.
    pub from: &'a [u8],
    /// The key that gets the value.
    pub to: &'a [u8],
    /// Whether the first key keeps the value, too.
    pub is_copy: bool,
    /// Whether a value that the second key has is replaced.
    pub replaces: bool,
}

impl<'a> Transfer<'a> {
    /// The arguments of `RENAME`, which `replaces` the other key's value, or of `RENAMENX`.
    pub fn rename(arguments: Arguments<'a>, replaces: bool) -> Self {
        Self {
            from: arguments.at(1),
            to: arguments.at(2),
            is_copy: false,
            replaces,
        }
    }

    /// Reads the arguments of `COPY`.
    pub fn copy(arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let (from, to) = (arguments.at(1), arguments.at(2));
        let mut replaces = false;
        let mut options = arguments.from(3).iter();
        while let Some(option) = options.next() {
            if option.eq_ignore_ascii_case(b"replace") {
                replaces = true;
            } else if option.eq_ignore_ascii_case(b"db") {
                let number = options.next().ok_or(CommandError::Syntax)?;
                if integer(number)? != 0 {
                    return Err(CommandError::Database);
                }
            } else {
                return Err(CommandError::Syntax);
            }
        }
        match from == to {
            true => Err(CommandError::Refused(
                "source and destination objects are the same",
            )),
            false => Ok(Self {
                from,
                to,
                is_copy: true,
                replaces,
            }),
        }
    }

    /// Whether both keys are the same one.
    pub fn is_onto_itself(self) -> bool {
        self.from == self.to
    }

    /// Applies the command to the states of two keys.
    pub fn apply(self, from: &mut State<'a>, to: &mut State<'a>) -> Reply<'a> {
        if from.value.is_none() {
            return self.without_value();
        }
        if to.value.is_some() && !self.replaces {
            return Reply::Integer(0);
        }
        (to.value, to.expires, to.is_changed) = (from.value.clone(), from.expires, true);
        if !self.is_copy {
            from.take();
        }
        self.done()
    }

    /// Applies a command whose two keys are the same one.
    pub fn apply_onto_itself(self, state: &State<'a>) -> Reply<'a> {
        match (&state.value, self.replaces) {
            (None, _) => self.without_value(),
            (Some(_), true) => self.done(),
            (Some(_), false) => Reply::Integer(0),
        }
    }

    fn without_value(self) -> Reply<'a> {
        match self.is_copy {
            true => Reply::Integer(0),
            false => Reply::from(CommandError::Refused("no such key")),
        }
    }

    fn done(self) -> Reply<'a> {
        match self.replaces && !self.is_copy {
            true => Reply::Ok,
            false => Reply::Integer(1),
        }
    }
}
