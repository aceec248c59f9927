//! From the arguments of a command to what has to be done.
//!
//! ```text
//!   arguments -> Spec (table.rs) -> arity -> Operation
//! ```
//!
//! Everything that is wrong with a command shows here; what is left can fail only because of the store.

use std::ops::Range;

use super::error::CommandError;
use super::options;
use super::reply::Reply;
use super::table::{self, Id, Spec};
use super::value::{SetAnswer, SetCondition, ValueCommand};
use crate::resp::decimal;

/// Arguments of a command, or some of them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    input: &'a [u8],
    places: &'a [Range<u32>],
}

/// What a command has to do.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Something with the value of one key.
    Value {
        /// The key.
        key: &'a [u8],
        /// What.
        command: ValueCommand<'a>,
    },
    /// Returns the values of keys.
    GetMany(Arguments<'a>),
    /// Counts which keys are there.
    CountMany(Arguments<'a>),
    /// Deletes keys and counts which were there.
    DeleteMany(Arguments<'a>),
    /// Stores values: keys and values in turn.
    SetMany(Arguments<'a>),
    /// Answers without looking anywhere.
    Answer(Reply<'a>),
    /// Something about the connection, the server or all keys, which has to be done by itself.
    Control(Control<'a>),
}

/// What is done by itself: after everything before it, and before everything after it.
#[derive(Debug)]
pub enum Control<'a> {
    /// `AUTH`.
    Auth(Credentials<'a>),
    /// `HELLO`.
    Hello(Hello<'a>),
    /// `RESET`.
    Reset,
    /// `QUIT`.
    Quit,
    /// `MULTI`.
    Multi,
    /// `EXEC`.
    Exec,
    /// `DISCARD`.
    Discard,
    /// `CLIENT GETNAME`, `ID`, `INFO`.
    ClientReport(ClientReport),
    /// `CLIENT SETNAME`.
    ClientSetName(&'a [u8]),
    /// `CLIENT SETINFO`.
    ClientSetLibrary {
        /// Name rather than version.
        is_name: bool,
        /// The value.
        value: &'a [u8],
    },
    /// `COMMAND` and its subcommands.
    Describe(Describe<'a>),
    /// `CONFIG GET` with patterns.
    ConfigGet(Arguments<'a>),
    /// `INFO` with sections.
    Info(Arguments<'a>),
    /// `DBSIZE`.
    Count,
    /// `KEYS`.
    Keys {
        /// The pattern.
        pattern: &'a [u8],
    },
    /// `SCAN`.
    Scan(Scan<'a>),
    /// `RANDOMKEY`.
    RandomKey,
    /// `FLUSHDB`, `FLUSHALL`.
    Flush,
    /// `WAITAOF`: whether the local copy is asked for.
    WaitPersisted,
}

/// User and password. The only user is `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

/// What `HELLO` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Protocol version; none: as it is.
    pub version: Option<i64>,
    /// Who asks.
    pub credentials: Option<Credentials<'a>>,
    /// Name of the connection.
    pub name: Option<&'a [u8]>,
}

/// What a connection wants to know about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientReport {
    /// Its name.
    Name,
    /// Its number.
    Id,
    /// Everything, in one line.
    Info,
}

/// What is wanted about commands.
#[derive(Clone, Copy, Debug)]
pub enum Describe<'a> {
    /// All, by arity, flags and keys.
    All,
    /// These, likewise.
    Named(Arguments<'a>),
    /// These, in words; none: all.
    Documents(Arguments<'a>),
    /// Names.
    Names,
}

/// What `SCAN` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Where to go on.
    pub cursor: u64,
    /// Which keys; none: all.
    pub pattern: Option<&'a [u8]>,
    /// How many keys to look at, about.
    pub count: usize,
}

impl<'a> Arguments<'a> {
    /// Of a command at `places` in `input`.
    pub fn new(input: &'a [u8], places: &'a [Range<u32>]) -> Self {
        Self { input, places }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Number `index`, which is there.
    pub fn at(&self, index: usize) -> &'a [u8] {
        let place = &self.places[index];
        &self.input[place.start as usize..place.end as usize]
    }

    /// Number `index`.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Those from number `start` on.
    pub fn from(&self, start: usize) -> Self {
        Self {
            input: self.input,
            places: &self.places[start.min(self.len())..],
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let input = self.input;
        self.places
            .iter()
            .map(move |place| &input[place.start as usize..place.end as usize])
    }
}

impl<'a> Operation<'a> {
    /// Bytes that it answers without looking anywhere.
    pub fn answer_size(&self) -> usize {
        match self {
            Self::Answer(Reply::Bulk(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// Whether nothing behind it is done.
    pub fn ends_the_connection(&self) -> bool {
        matches!(self, Self::Control(Control::Quit))
    }

    /// Reads a command; `arguments` has its name first. The table's entry comes with it, none if there is no such command.
    pub fn read(arguments: Arguments<'a>) -> (Option<&'static Spec>, Self) {
        let Some(spec) = table::find(arguments.at(0)) else {
            let owned = |bytes: &[u8]| bytes[..bytes.len().min(128)].to_vec();
            let unknown = CommandError::Unknown {
                name: owned(arguments.at(0)),
                arguments: arguments.iter().skip(1).take(8).map(owned).collect(),
            };
            return (None, Self::Answer(unknown.into()));
        };
        if !spec.accepts(arguments.len()) {
            let error = CommandError::ArgumentCount(spec.name.to_owned());
            let error = match spec.id {
                Id::Exec => error.aborts_transaction(),
                _ => error,
            };
            return (Some(spec), Self::Answer(error.into()));
        }
        let operation =
            Self::of(spec, arguments).unwrap_or_else(|error| Self::Answer(error.into()));
        (Some(spec), operation)
    }

    fn of(spec: &Spec, arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let value = |command| {
            Ok(Self::Value {
                key: arguments.at(1),
                command,
            })
        };
        let set = |condition, answer| {
            value(ValueCommand::Set {
                value: arguments.at(2),
                condition,
                answer,
            })
        };
        let rest = arguments.from(1);
        let control = |control| Ok(Self::Control(control));
        match spec.id {
            Id::Get => value(ValueCommand::Get),
            Id::StrLen => value(ValueCommand::Length),
            Id::Type => value(ValueCommand::Type),
            Id::GetRange => value(ValueCommand::Range {
                start: integer(arguments.at(2))?,
                end: integer(arguments.at(3))?,
            }),
            Id::Set => value(options::set(arguments)?),
            Id::SetNx => set(SetCondition::IfAbsent, SetAnswer::Count),
            Id::GetSet => set(SetCondition::Always, SetAnswer::Before),
            Id::GetDel => value(ValueCommand::Take),
            Id::Append => value(ValueCommand::Append(arguments.at(2))),
            Id::Incr => value(ValueCommand::Add(1)),
            Id::Decr => value(ValueCommand::Add(-1)),
            Id::IncrBy => value(ValueCommand::Add(integer(arguments.at(2))?)),
            Id::DecrBy => {
                let delta = integer(arguments.at(2))?;
                value(ValueCommand::Add(
                    delta
                        .checked_neg()
                        .ok_or(CommandError::Refused("decrement would overflow"))?,
                ))
            }
            Id::Del | Id::Unlink if rest.len() == 1 => value(ValueCommand::Delete),
            Id::Del | Id::Unlink => Ok(Self::DeleteMany(rest)),
            Id::Exists if rest.len() == 1 => value(ValueCommand::Exists),
            Id::Exists => Ok(Self::CountMany(rest)),
            Id::MGet => Ok(Self::GetMany(rest)),
            Id::MSet if rest.len().is_multiple_of(2) => Ok(Self::SetMany(rest)),
            Id::MSet => Err(CommandError::ArgumentCount(spec.name.to_owned())),
            Id::Ping if rest.len() > 1 => Err(CommandError::ArgumentCount(spec.name.to_owned())),
            Id::Ping => Ok(Self::Answer(
                rest.get(0)
                    .map_or(Reply::Simple("PONG"), |text| Reply::Bulk(text.into())),
            )),
            Id::Echo => Ok(Self::Answer(Reply::Bulk(rest.at(0).into()))),
            Id::Select if integer(rest.at(0))? == 0 => Ok(Self::Answer(Reply::Ok)),
            Id::Select => Err(CommandError::Database),
            Id::Debug => Err(CommandError::Refused(
                "DEBUG is not supported by this store",
            )),
            Id::Wait => {
                // There are no replicas, so there is nothing to wait for, however long.
                rest.iter()
                    .try_for_each(|number| positive(number).map(drop))?;
                Ok(Self::Answer(Reply::Integer(0)))
            }
            Id::WaitAof => {
                options::wait_persisted(rest)?;
                control(Control::WaitPersisted)
            }
            Id::Auth => control(Control::Auth(options::credentials(rest)?)),
            Id::Hello => control(Control::Hello(options::hello(rest)?)),
            Id::Reset => control(Control::Reset),
            Id::Quit => control(Control::Quit),
            Id::Multi => control(Control::Multi),
            Id::Exec => control(Control::Exec),
            Id::Discard => control(Control::Discard),
            Id::Watch => Err(CommandError::Refused(
                "WATCH is not supported by this store",
            )),
            Id::Client => control(options::client(rest)?),
            Id::Command => options::describe(rest),
            Id::Config => control(options::config(rest)?),
            Id::Info => control(Control::Info(rest)),
            Id::DbSize => control(Control::Count),
            Id::Keys => control(Control::Keys {
                pattern: rest.at(0),
            }),
            Id::Scan => control(Control::Scan(options::scan(rest)?)),
            Id::RandomKey => control(Control::RandomKey),
            Id::FlushDb | Id::FlushAll => {
                options::flush(spec, rest)?;
                control(Control::Flush)
            }
        }
    }
}

/// A whole number.
pub fn integer(text: &[u8]) -> Result<i64, CommandError> {
    decimal(text).ok_or(CommandError::NotAnInteger)
}

/// A whole number that is not negative.
pub fn positive(text: &[u8]) -> Result<i64, CommandError> {
    integer(text).and_then(|number| {
        if number < 0 {
            Err(CommandError::NotAnInteger)
        } else {
            Ok(number)
        }
    })
}
