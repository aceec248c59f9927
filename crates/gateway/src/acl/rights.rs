//! The rights to commands: the units that can be allowed, the categories, and the rules that change a user's rights.
//!
//! A *unit* is the object of a right: a command, or a subcommand of a command that has some. Categories follow from the
//! table of commands, so a command that is added to the table is in its categories, and a user with `+@read` may run
//! it.

use std::fmt;

use super::rules::RuleError;
use crate::commands::{COMMAND_COUNT, COMMANDS, CommandGroup, Id, Spec, find};

/// A command, or a subcommand of one, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(u8);

/// A subcommand.
struct Subcommand {
    of: Id,
    name: &'static str,
    /// Whether it is for administrators.
    is_admin: bool,
}

const fn plain(of: Id, name: &'static str) -> Subcommand {
    Subcommand {
        of,
        name,
        is_admin: false,
    }
}

const fn admin(of: Id, name: &'static str) -> Subcommand {
    Subcommand {
        of,
        name,
        is_admin: true,
    }
}

/// All subcommands.
const SUBCOMMANDS: &[Subcommand] = &[
    plain(Id::Acl, "cat"),
    admin(Id::Acl, "deluser"),
    admin(Id::Acl, "dryrun"),
    plain(Id::Acl, "genpass"),
    admin(Id::Acl, "getuser"),
    admin(Id::Acl, "list"),
    admin(Id::Acl, "setuser"),
    admin(Id::Acl, "users"),
    plain(Id::Acl, "whoami"),
    plain(Id::Client, "getname"),
    plain(Id::Client, "id"),
    plain(Id::Client, "info"),
    admin(Id::Client, "kill"),
    admin(Id::Client, "list"),
    plain(Id::Client, "setinfo"),
    plain(Id::Client, "setname"),
    plain(Id::Command, "count"),
    plain(Id::Command, "docs"),
    plain(Id::Command, "getkeys"),
    plain(Id::Command, "info"),
    plain(Id::Command, "list"),
    admin(Id::Config, "get"),
    admin(Id::Config, "set"),
    plain(Id::Function, "flush"),
    plain(Id::Memory, "usage"),
    plain(Id::Object, "encoding"),
    plain(Id::Object, "freq"),
    plain(Id::Object, "refcount"),
    admin(Id::SlowLog, "get"),
    admin(Id::SlowLog, "len"),
    admin(Id::SlowLog, "reset"),
];

const UNIT_COUNT: usize = COMMAND_COUNT + SUBCOMMANDS.len();
const _: () = assert!(UNIT_COUNT <= 128, "a set of units has 128 bits");

/// A category, by its place in [`CATEGORIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category(u8);

/// The names of all categories, as Redis orders them. Those of other types of values are empty.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Category {
    /// The category of that name, in any case.
    pub fn of(name: &[u8]) -> Option<Self> {
        let is_it = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        let place = CATEGORIES.iter().position(is_it)?;
        Some(Self(place as u8))
    }

    fn name(self) -> &'static str {
        CATEGORIES[usize::from(self.0)]
    }
}

impl Unit {
    /// The command of `spec`, as a whole.
    pub fn of(spec: &Spec) -> Self {
        Self(spec.id as u8)
    }

    /// The unit of a command with `first` as its first argument.
    pub fn of_call(spec: &Spec, first: Option<&[u8]>) -> Self {
        let named = first.and_then(|first| subcommand(spec.id, first));
        named.unwrap_or_else(|| Self::of(spec))
    }

    /// The name, as in an error: `get`, `client|list`.
    pub fn name(self) -> String {
        match self.subcommand() {
            None => COMMANDS[usize::from(self.0)].name.to_owned(),
            Some(sub) => format!("{}|{}", COMMANDS[sub.of as usize].name, sub.name),
        }
    }

    fn subcommand(self) -> Option<&'static Subcommand> {
        let place = usize::from(self.0).checked_sub(COMMAND_COUNT)?;
        Some(&SUBCOMMANDS[place])
    }

    fn bit(self) -> u128 {
        1 << self.0
    }

    /// The categories, in their order.
    fn categories(self) -> Vec<Category> {
        match self.subcommand() {
            None => categories_of(&COMMANDS[usize::from(self.0)]),
            Some(sub) => categories_of_subcommand(sub),
        }
    }
}

/// The subcommand of that name, in any case.
fn subcommand(of: Id, name: &[u8]) -> Option<Unit> {
    let is_it = |sub: &Subcommand| sub.of == of && sub.name.as_bytes().eq_ignore_ascii_case(name);
    let place = SUBCOMMANDS.iter().position(is_it)?;
    Some(Unit((COMMAND_COUNT + place) as u8))
}

/// All units: each command, followed by its subcommands.
fn units() -> impl Iterator<Item = Unit> {
    COMMANDS.iter().flat_map(|spec| {
        let subs = (0..SUBCOMMANDS.len()).filter(|&at| SUBCOMMANDS[at].of == spec.id);
        let subs = subs.map(|at| Unit((COMMAND_COUNT + at) as u8));
        std::iter::once(Unit::of(spec)).chain(subs)
    })
}

/// The units of a category.
pub fn units_of(category: Category) -> impl Iterator<Item = Unit> {
    units().filter(move |unit| unit.categories().contains(&category))
}

/// The categories of a command, in their order. A command with subcommands is in few; its subcommands have their own.
pub fn categories_of(spec: &Spec) -> Vec<Category> {
    let has_subcommands = SUBCOMMANDS.iter().any(|sub| sub.of == spec.id);
    let of_group = match spec.group {
        CommandGroup::Connection => Some("connection"),
        CommandGroup::String => Some("string"),
        CommandGroup::Transactions => Some("transaction"),
        CommandGroup::Generic => Some("keyspace"),
        CommandGroup::Server => None,
    };
    let of_few: &[&str] = match spec.id {
        Id::FlushAll | Id::FlushDb => &["keyspace", "dangerous"],
        Id::Keys | Id::Info => &["dangerous"],
        Id::DbSize => &["keyspace"],
        Id::Command => &["connection"],
        Id::Wait | Id::WaitAof => &["connection"],
        _ => &[],
    };
    let flags: &[(&str, &[&str])] = &[
        ("readonly", &["read"]),
        ("write", &["write"]),
        ("admin", &["admin", "dangerous"]),
        ("blocking", &["blocking"]),
    ];
    let of_flags = flags.iter().filter(|(flag, _)| spec.has(flag));
    let is_container = has_subcommands && spec.id != Id::Command;
    let is_fast =
        spec.has("fast") && !has_subcommands && spec.id != Id::Exec && spec.id != Id::Info;
    let mut names = vec![if is_fast { "fast" } else { "slow" }];
    if !is_container {
        names.extend(of_group.filter(|_| !matches!(spec.id, Id::Wait | Id::WaitAof)));
        names.extend(of_few);
        names.extend(of_flags.flat_map(|(_, names)| *names));
    }
    in_order(&names)
}

fn categories_of_subcommand(sub: &Subcommand) -> Vec<Category> {
    let mut names = vec!["slow"];
    if sub.is_admin {
        names.extend(["admin", "dangerous"]);
    }
    names.extend(match sub.of {
        Id::Client | Id::Command => &["connection"][..],
        Id::Object => &["keyspace", "read"],
        Id::Memory => &["read"],
        Id::Function => &["write", "scripting"],
        _ => &[],
    });
    in_order(&names)
}

fn in_order(names: &[&str]) -> Vec<Category> {
    let places = (0..CATEGORIES.len()).filter(|&at| names.contains(&CATEGORIES[at]));
    places.map(|at| Category(at as u8)).collect()
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The rights of a user to commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    allowed: u128,
    /// The rules that lead to them, in their order, with the last one about each name alone.
    rules: Vec<String>,
}

/// The bits of all units.
const ALL: u128 = u128::MAX >> (128 - UNIT_COUNT);

impl Rights {
    /// All rights, also to commands that the table gets later.
    pub fn all() -> Self {
        Self {
            allowed: ALL,
            rules: vec!["+@all".to_owned()],
        }
    }

    /// No rights.
    pub fn none() -> Self {
        Self {
            allowed: 0,
            rules: vec!["-@all".to_owned()],
        }
    }

    pub fn are_all(&self) -> bool {
        self.allowed == ALL
    }

    pub fn has(&self, unit: Unit) -> bool {
        self.allowed & unit.bit() != 0
    }

    /// Applies `+get`, `-client|kill`, `+@read` and the like.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (sign, name) = rule.split_at(1);
        let grants = sign == b"+";
        let name = String::from_utf8(name.to_ascii_lowercase());
        let name = name.map_err(|_| RuleError::UnknownCommand)?;
        if name == "@all" {
            *self = if grants { Self::all() } else { Self::none() };
            return Ok(());
        }
        let bits = named(&name).ok_or(RuleError::UnknownCommand)?;
        match grants {
            true => self.allowed |= bits,
            false => self.allowed &= !bits,
        }
        // A rule about a command also decides about the subcommands that earlier rules name.
        let below = format!("{name}|");
        self.rules
            .retain(|rule| rule[1..] != name && !rule[1..].starts_with(&below));
        let sign = if grants { '+' } else { '-' };
        self.rules.push(format!("{sign}{name}"));
        Ok(())
    }
}

/// The units that a rule names.
fn named(name: &str) -> Option<u128> {
    let all = |units: &mut dyn Iterator<Item = Unit>| units.fold(0, |bits, unit| bits | unit.bit());
    if let Some(category) = name.strip_prefix('@') {
        return Some(all(&mut units_of(Category::of(category.as_bytes())?)));
    }
    if let Some((command, sub)) = name.split_once('|') {
        let spec = find(command.as_bytes())?;
        return Some(subcommand(spec.id, sub.as_bytes())?.bit());
    }
    let spec = find(name.as_bytes())?;
    let is_of_it = |unit: &Unit| match unit.subcommand() {
        None => *unit == Unit::of(spec),
        Some(sub) => sub.of == spec.id,
    };
    Some(all(&mut units().filter(is_of_it)))
}

impl fmt::Display for Rights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.rules.join(" "))
    }
}
