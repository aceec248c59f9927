//! What a command has to do, once its arguments are read (`parse.rs`).

use std::ops::Range;

use super::reply::Reply;
use super::value::ValueCommand;

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
            Self::Answer(reply) => reply.size(),
            _ => 0,
        }
    }

    /// Whether nothing behind it is done.
    pub fn ends_the_connection(&self) -> bool {
        matches!(self, Self::Control(Control::Quit))
    }
}
