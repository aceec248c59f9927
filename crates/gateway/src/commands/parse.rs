//! Turns the arguments of a command into an operation.
//!
//! ```text
//!   arguments -> Spec (table.rs) -> arity -> Operation
//! ```
//!
//! This step finds every error that the command itself causes. The later steps can fail only because of the store.

use super::acl::AclCommand;
use super::error::CommandError;
use super::expiry::{ExpireRules, NewExpiry, TimeForm, When};
use super::long_double::LongDouble;
use super::object::Fact;
use super::operation::{Arguments, Control, Operation};
use super::options::{self, integer};
use super::patch::Patch;
use super::reply::Reply;
use super::table::{self, Id, Spec};
use super::transfer::Transfer;
use super::value::{SetAnswer, SetCondition, ValueCommand};
use super::wait::Wait;

impl<'a> Operation<'a> {
    /// Reads a command, whose name is the first of `arguments`. Also returns the table's entry, or `None` for an
    /// unknown command.
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
            if spec.id == Id::Exec {
                return (Some(spec), Self::Control(Control::MalformedExec));
            }
            let error = CommandError::ArgumentCount(spec.name.to_owned());
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
                expiry: NewExpiry::Never,
            })
        };
        let set_until = |in_ms| {
            let when = When::read_positive(arguments.at(2), (in_ms, true), spec.name)?;
            value(ValueCommand::Set {
                value: arguments.at(3),
                condition: SetCondition::Always,
                answer: SetAnswer::Done,
                expiry: NewExpiry::At(when),
            })
        };
        let expire = |in_ms, is_relative| {
            value(ValueCommand::Expire {
                when: When::read(arguments.at(2), (in_ms, is_relative), spec.name)?,
                rules: ExpireRules::read(arguments.from(3))?,
            })
        };
        let report =
            |in_ms, is_relative| value(ValueCommand::Report(TimeForm { in_ms, is_relative }));
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
            Id::GetEx => value(options::get_and_expire(arguments)?),
            Id::SetEx => set_until(false),
            Id::PSetEx => set_until(true),
            Id::Expire => expire(false, true),
            Id::PExpire => expire(true, true),
            Id::ExpireAt => expire(false, false),
            Id::PExpireAt => expire(true, false),
            Id::Ttl => report(false, true),
            Id::PTtl => report(true, true),
            Id::ExpireTime => report(false, false),
            Id::PExpireTime => report(true, false),
            Id::Persist => value(ValueCommand::Persist),
            Id::Append => value(ValueCommand::Append(arguments.at(2))),
            Id::SetRange => value(ValueCommand::Overwrite(Patch::read(arguments)?)),
            Id::Incr => value(ValueCommand::Add(1)),
            Id::Decr => value(ValueCommand::Add(-1)),
            Id::IncrBy => value(ValueCommand::Add(integer(arguments.at(2))?)),
            Id::IncrByFloat => value(ValueCommand::AddFloat(
                LongDouble::parse(arguments.at(2)).ok_or(CommandError::NotAFloat)?,
            )),
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
            Id::Exists | Id::Touch if rest.len() == 1 => value(ValueCommand::Exists),
            Id::Exists | Id::Touch => Ok(Self::CountMany(rest)),
            Id::MGet => Ok(Self::GetMany(rest)),
            Id::MSet if rest.len().is_multiple_of(2) => Ok(Self::SetMany(rest)),
            Id::MSetNx if rest.len().is_multiple_of(2) => Ok(Self::SetManyIfAbsent(rest)),
            Id::MSet | Id::MSetNx => Err(CommandError::ArgumentCount(spec.name.to_owned())),
            Id::Copy => Ok(Self::Transfer(Transfer::copy(arguments)?)),
            Id::Rename => Ok(Self::Transfer(Transfer::rename(arguments, true))),
            Id::RenameNx => Ok(Self::Transfer(Transfer::rename(arguments, false))),
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
            Id::Wait => control(Control::Wait(Wait::of_copies(rest)?)),
            Id::WaitAof => control(Control::Wait(Wait::of_disks(rest)?)),
            Id::Object => {
                let (key, command) = Fact::of_object(arguments)?;
                Ok(Self::Value { key, command })
            }
            Id::Memory => {
                let (key, command) = Fact::of_memory(arguments)?;
                Ok(Self::Value { key, command })
            }
            Id::Function if options::is(rest.at(0), "FLUSH") => {
                options::flush(spec, rest.from(1))?;
                Ok(Self::Answer(Reply::Ok))
            }
            Id::Function => Err(CommandError::Subcommand {
                command: "FUNCTION",
                subcommand: rest.at(0).to_vec(),
            }),
            Id::Acl => control(Control::Acl(AclCommand::read(rest)?)),
            Id::Auth => control(Control::Auth(options::credentials(rest)?)),
            Id::Hello => control(Control::Hello(options::hello(rest)?)),
            Id::Reset => control(Control::Reset),
            Id::Quit => control(Control::Quit),
            Id::Multi => control(Control::Multi),
            Id::Exec => control(Control::Exec),
            Id::Discard => control(Control::Discard),
            Id::Watch => control(Control::Watch(rest)),
            Id::Unwatch => control(Control::Unwatch),
            Id::Client => control(options::client(rest)?),
            Id::SlowLog => control(options::slow_log(rest)?),
            Id::Command => options::describe(rest),
            Id::Config => control(options::config(rest)?),
            Id::Info => control(Control::Info(rest)),
            Id::DbSize => control(Control::Count),
            Id::Time => control(Control::Time),
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
