//! The operations that commands request, after their arguments are read (`parse.rs`).

use std::ops::Range;

use super::acl::AclCommand;
use super::clients::Chosen;
use super::key_places::CommandKeys;
use super::reply::Reply;
use super::transfer::Transfer;
use super::value::ValueCommand;
use super::wait::Wait;
use crate::slow_log::SlowBounds;

/// Arguments of a command, or some of them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    input: &'a [u8],
    places: &'a [Range<u32>],
}

/// The operation that a command requests.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Reads or changes the value of one key.
    Value {
        /// The key.
        key: &'a [u8],
        /// The command on the key's value.
        command: ValueCommand<'a>,
    },
    /// Returns the values of keys.
    GetMany(Arguments<'a>),
    /// Counts the keys that exist.
    CountMany(Arguments<'a>),
    /// Deletes keys, and counts the keys that existed.
    DeleteMany(Arguments<'a>),
    /// Stores values. The arguments are keys and values, alternately.
    SetMany(Arguments<'a>),
    /// Stores values if none of the keys exists. The arguments are keys and values, alternately.
    SetManyIfAbsent(Arguments<'a>),
    /// Gives the value of a key to another key.
    Transfer(Transfer<'a>),
    /// Answers without the store.
    Answer(Reply<'a>),
    /// Concerns the connection, the server or all keys, and runs by itself.
    Control(Control<'a>),
}

/// Operations that run by themselves: after all operations before them, and before all operations after them.
#[derive(Debug)]
pub enum Control<'a> {
    /// `ACL`.
    Acl(AclCommand<'a>),
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
    /// `EXEC` with arguments, which it does not take. Ends a transaction all the same, as in Redis.
    MalformedExec,
    /// `DISCARD`.
    Discard,
    /// `WATCH`.
    Watch(Arguments<'a>),
    /// `UNWATCH`.
    Unwatch,
    /// `CLIENT GETNAME`, `ID`, `INFO`.
    ClientReport(ClientReport),
    /// `CLIENT LIST`.
    ClientList(Chosen),
    /// `CLIENT KILL` with options. The reply is the number of connections.
    ClientsEnd(Chosen),
    /// `CLIENT KILL address`. The reply is OK, or an error if no connection has the address.
    ClientEnd(Chosen),
    /// `SLOWLOG GET`, with the most commands.
    SlowGet(usize),
    /// `SLOWLOG LEN`.
    SlowCount,
    /// `SLOWLOG RESET`.
    SlowReset,
    /// `CLIENT SETNAME`.
    ClientSetName(&'a [u8]),
    /// `CLIENT SETINFO`.
    ClientSetLibrary {
        /// Whether the value is the library's name and not its version.
        is_name: bool,
        /// The value.
        value: &'a [u8],
    },
    /// `COMMAND` and its subcommands.
    Describe(Describe<'a>),
    /// `CONFIG GET` with patterns.
    ConfigGet(Arguments<'a>),
    /// `CONFIG SET` of the bounds of the slow log.
    ConfigSet(SlowBounds),
    /// `INFO` with sections.
    Info(Arguments<'a>),
    /// `DBSIZE`.
    Count,
    /// `TIME`.
    Time,
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
    /// `WAIT`, `WAITAOF`.
    Wait(Wait),
}

/// User and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user; `None`: `default`, in the form of `AUTH` that is older than users.
    pub user: Option<&'a [u8]>,
    /// The password.
    pub password: &'a [u8],
}

/// The arguments of `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Protocol version; `None` keeps the version of the connection.
    pub version: Option<i64>,
    /// User and password, if given.
    pub credentials: Option<Credentials<'a>>,
    /// Name of the connection.
    pub name: Option<&'a [u8]>,
}

/// The fact that `CLIENT` reports about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientReport {
    /// The connection's name.
    Name,
    /// The connection's number.
    Id,
    /// Everything about the connection, in one line.
    Info,
}

/// The subject of `COMMAND`.
#[derive(Clone, Copy, Debug)]
pub enum Describe<'a> {
    /// All commands: arity, flags and keys.
    All,
    /// These commands: arity, flags and keys.
    Named(Arguments<'a>),
    /// These commands in words, or all commands if none is named.
    Documents(Arguments<'a>),
    /// The names of all commands.
    Names,
    /// The arguments of this command that are keys.
    Keys(CommandKeys<'a>),
}

/// The arguments of `SCAN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The cursor at which the iteration continues.
    pub cursor: u64,
    /// The pattern of the keys; `None` for all keys.
    pub pattern: Option<&'a [u8]>,
    /// The approximate number of keys to look at.
    pub count: usize,
    /// Whether values of the type are there at all: all values are strings.
    pub is_of_strings: bool,
}

impl<'a> Arguments<'a> {
    /// The arguments of a command at `places` in `input`.
    pub fn new(input: &'a [u8], places: &'a [Range<u32>]) -> Self {
        Self { input, places }
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether the command has no arguments.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Argument number `index`, which must exist.
    pub fn at(&self, index: usize) -> &'a [u8] {
        let place = &self.places[index];
        &self.input[place.start as usize..place.end as usize]
    }

    /// Argument number `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.at(index))
    }

    /// The arguments from number `start` on.
    pub fn from(&self, start: usize) -> Self {
        Self {
            input: self.input,
            places: &self.places[start.min(self.len())..],
        }
    }

    /// Iterates over the arguments.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let input = self.input;
        self.places
            .iter()
            .map(move |place| &input[place.start as usize..place.end as usize])
    }
}

impl<'a> Operation<'a> {
    /// Bytes of the reply of an operation that needs no store.
    pub fn answer_size(&self) -> usize {
        match self {
            Self::Answer(reply) => reply.size(),
            _ => 0,
        }
    }

    /// Returns true if the commands after this one are not run.
    pub fn ends_the_connection(&self) -> bool {
        matches!(self, Self::Control(Control::Quit))
    }
}
