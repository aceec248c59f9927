//! Whether a user may run a command with its keys.
//!
//! The keys of a command come from the table, as in `COMMAND GETKEYS`. Commands about all keys have no keys there: a
//! command that would change or pick any key needs the right to all keys, and a command that lists keys leaves out the
//! keys that the user may not read.

use super::error::CommandError;
use super::key_places::CommandKeys;
use super::operation::Arguments;
use super::options::is;
use super::session::Session;
use super::table::{Id, Spec};
use crate::acl::{Access, Unit, User};

/// The reason why a user may not run a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No right to the command or the subcommand of this name.
    Command(String),
    /// No pattern allows the use of this key.
    Key(Vec<u8>),
    /// The command is about all keys.
    AllKeys,
}

impl Denial {
    /// The reason in the words of `ACL DRYRUN`.
    pub fn in_words(&self, user: &User) -> String {
        let name = user.name().escape_ascii();
        match self {
            Self::Command(command) => {
                format!("User {name} has no permissions to run the '{command}' command")
            }
            Self::Key(key) => format!(
                "User {name} has no permissions to access the '{}' key",
                key.escape_ascii()
            ),
            Self::AllKeys => format!("User {name} has no permissions to access all keys"),
        }
    }

    /// The reply to a command of a transaction that the user might run when it was queued.
    pub fn since_queued(self) -> CommandError {
        let reason = match self {
            Self::Command(_) => "no permission to execute the command or subcommand",
            Self::Key(_) | Self::AllKeys => "no permission to touch the specified keys",
        };
        CommandError::NoPermission(format!(
            "ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
             allowed for the following reason: {reason}"
        ))
    }

    /// The reply to the command.
    pub fn into_error(self, user: &User) -> CommandError {
        match self {
            Self::Command(_) => CommandError::NoPermission(self.in_words(user)),
            Self::Key(_) => CommandError::NoPermission("No permissions to access a key".to_owned()),
            Self::AllKeys => CommandError::NoPermission(
                "No permissions to access a key: the command is about all keys".to_owned(),
            ),
        }
    }
}

/// The reason why `user` may not run the command of `spec`, if there is one. Malformed commands are left to their own
/// errors.
pub fn denial(user: &User, spec: &Spec, arguments: Arguments<'_>) -> Option<Denial> {
    // These run without authentication, too.
    if spec.has("no_auth") {
        return None;
    }
    let unit = Unit::of_call(spec, arguments.get(1));
    if !user.may_run(unit) {
        return Some(Denial::Command(unit.name()));
    }
    if user.reaches_all_keys() {
        return None;
    }
    if is_about_all_keys(spec.id) {
        return Some(Denial::AllKeys);
    }
    let keys = CommandKeys::read(arguments).ok()?;
    let denied =
        |(place, key): &(usize, &[u8])| !user.reaches(key, access(spec.id, *place, arguments));
    let (_, key) = keys.iter().enumerate().find(denied)?;
    Some(Denial::Key(key.to_vec()))
}

/// The refusal of a command of this session, if its user may not run it.
pub fn refusal(
    session: &Session,
    spec: Option<&'static Spec>,
    arguments: Arguments<'_>,
) -> Option<CommandError> {
    let user = session.user();
    if user.may_do_everything() {
        return None;
    }
    Some(denial(user, spec?, arguments)?.into_error(user))
}

/// Whether a command picks or removes keys of all names.
fn is_about_all_keys(id: Id) -> bool {
    matches!(id, Id::FlushAll | Id::FlushDb | Id::RandomKey)
}

/// The use of key number `place` of a command, as Redis has it. Facts about a key other than its value need no right to
/// read.
fn access(id: Id, place: usize, arguments: Arguments<'_>) -> Access {
    match id {
        Id::Exists | Id::Touch | Id::Type | Id::StrLen | Id::Object | Id::Memory | Id::Watch => {
            Access::LOOK
        }
        Id::Get
        | Id::MGet
        | Id::GetRange
        | Id::Ttl
        | Id::PTtl
        | Id::ExpireTime
        | Id::PExpireTime => Access::READ,
        Id::Copy if place == 0 => Access::READ,
        Id::Rename | Id::RenameNx if place == 0 => Access::BOTH,
        Id::Set => match tells_or_compares(arguments) {
            true => Access::BOTH,
            false => Access::WRITE,
        },
        Id::SetEx
        | Id::PSetEx
        | Id::SetNx
        | Id::SetRange
        | Id::MSet
        | Id::MSetNx
        | Id::Append
        | Id::Del
        | Id::Unlink
        | Id::Expire
        | Id::PExpire
        | Id::ExpireAt
        | Id::PExpireAt
        | Id::Persist
        | Id::Copy
        | Id::Rename
        | Id::RenameNx => Access::WRITE,
        // Those that read and write, and any that the table gets later.
        _ => Access::BOTH,
    }
}

/// Whether a `SET` returns the value before, or depends on it.
fn tells_or_compares(set: Arguments<'_>) -> bool {
    let mut options = set.from(3).iter();
    options.any(|option| is(option, "GET") || is(option, "IFEQ"))
}
