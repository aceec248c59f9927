//! Every command: its name, its arguments, its effect on keys, and its description in `COMMAND`.

/// A command. The table below has a sentence about each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    Acl,
    Append,
    Auth,
    Client,
    Command,
    Config,
    Copy,
    DbSize,
    Debug,
    Decr,
    DecrBy,
    Del,
    Discard,
    Echo,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    FlushAll,
    FlushDb,
    Function,
    Get,
    GetDel,
    GetEx,
    GetRange,
    GetSet,
    Hello,
    Incr,
    IncrBy,
    IncrByFloat,
    Info,
    Keys,
    Memory,
    MGet,
    MSet,
    MSetNx,
    Multi,
    Object,
    Persist,
    PExpire,
    PExpireAt,
    PExpireTime,
    Ping,
    PSetEx,
    PTtl,
    Quit,
    RandomKey,
    Rename,
    RenameNx,
    Reset,
    Scan,
    Select,
    Set,
    SetEx,
    SetNx,
    SetRange,
    SlowLog,
    StrLen,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unwatch,
    Wait,
    WaitAof,
    Watch,
}

/// The table's entry of a command.
#[derive(Debug)]
pub struct Spec {
    /// Name, in lower case.
    pub name: &'static str,
    /// The command.
    pub id: Id,
    /// The number of arguments, including the name; `-n` stands for at least `n`.
    pub arity: i32,
    /// Flags, as Redis names them.
    pub flags: &'static [&'static str],
    /// The first and the last argument that are keys, and the step from key to key; zeros if no argument is a key.
    pub keys: (i32, i32, i32),
    /// Kind of the command.
    pub group: CommandGroup,
    /// Version of Redis that introduced the command.
    pub since: &'static str,
    /// Complexity of the command.
    pub complexity: &'static str,
    /// The command in a sentence.
    pub summary: &'static str,
}

/// Kinds of commands, as Redis groups them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandGroup {
    /// About the connection.
    Connection,
    /// About any key.
    Generic,
    /// About the server.
    Server,
    /// About values.
    String,
    /// About transactions.
    Transactions,
}

impl CommandGroup {
    /// The name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}

impl Spec {
    /// Returns whether the command takes this number of arguments, including its name.
    pub fn accepts(&self, arguments: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            arguments >= wanted
        } else {
            arguments == wanted
        }
    }

    /// Returns whether `COMMAND` lists the command with this flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

const READ: &[&str] = &["readonly", "fast"];
const SLOW_READ: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const SLOW_WRITE: &[&str] = &["write", "denyoom"];
const REMOVE: &[&str] = &["write", "fast"];
const SLOW_REMOVE: &[&str] = &["write"];
const ANY_TIME: &[&str] = &["loading", "stale", "fast"];
const BEFORE_PASSWORD: &[&str] = &["loading", "stale", "fast", "no_auth"];
const ADMIN: &[&str] = &["admin", "loading", "stale"];
const BLOCKING: &[&str] = &["blocking"];
const CONTAINER: &[&str] = &["loading", "stale"];

const NO_KEY: (i32, i32, i32) = (0, 0, 0);
const ONE_KEY: (i32, i32, i32) = (1, 1, 1);
const SECOND_KEY: (i32, i32, i32) = (2, 2, 1);
const TWO_KEYS: (i32, i32, i32) = (1, 2, 1);
const ALL_KEYS: (i32, i32, i32) = (1, -1, 1);
const EVERY_SECOND: (i32, i32, i32) = (1, -1, 2);

macro_rules! commands {
    ($($name:literal $id:ident $arity:literal $flags:ident $keys:ident $group:ident $since:literal $complexity:literal $summary:literal;)*) => {
        &[$(Spec {
            name: $name, id: Id::$id, arity: $arity, flags: $flags, keys: $keys, group: CommandGroup::$group,
            since: $since, complexity: $complexity, summary: $summary,
        }),*]
    };
}

/// All commands, in the order of their names.
pub const COMMANDS: &[Spec] = commands! {
    "acl" Acl -2 CONTAINER NO_KEY Server "6.0.0" "O(1)" "Users and their rights: CAT, DELUSER, DRYRUN, GENPASS, GETUSER, LIST, LOAD, SAVE, SETUSER, USERS, WHOAMI.";
    "append" Append 3 WRITE ONE_KEY String "2.0.0" "O(N)" "Appends bytes to the value of a key. An absent key is created.";
    "auth" Auth -2 BEFORE_PASSWORD NO_KEY Connection "1.0.0" "O(1)" "Authenticates the connection with a password, as the user default or as a user who is named.";
    "client" Client -2 ANY_TIME NO_KEY Connection "2.4.0" "O(1)" "Names this connection, reports about it and others, and ends some: GETNAME, ID, INFO, KILL, LIST, SETINFO, SETNAME.";
    "command" Command -1 ANY_TIME NO_KEY Server "2.8.13" "O(N)" "Describes commands: COUNT, DOCS, GETKEYS, INFO, LIST.";
    "config" Config -2 ADMIN NO_KEY Server "2.0.0" "O(N)" "Reports settings: GET. Sets the bounds of SLOWLOG, until the gateway ends: SET of slowlog-log-slower-than and slowlog-max-len (at most 1,024). No other setting can be set.";
    "copy" Copy -3 SLOW_WRITE TWO_KEYS Generic "6.2.0" "O(N)" "Gives the value of a key, with its moment, to another key as well. REPLACE replaces the other key's value. In a cluster both keys are of one shard.";
    "dbsize" DbSize 1 READ NO_KEY Server "1.0.0" "O(1)" "Counts the keys.";
    "debug" Debug -2 ADMIN NO_KEY Server "1.0.0" "O(1)" "Refused.";
    "decr" Decr 2 WRITE ONE_KEY String "1.0.0" "O(1)" "Subtracts one from a number, which is 0 if the key is absent.";
    "decrby" DecrBy 3 WRITE ONE_KEY String "1.0.0" "O(1)" "Subtracts from a number, which is 0 if the key is absent.";
    "del" Del -2 SLOW_REMOVE ALL_KEYS Generic "1.0.0" "O(N)" "Deletes keys and says how many were there.";
    "discard" Discard 1 ANY_TIME NO_KEY Transactions "2.0.0" "O(1)" "Ends the transaction without any of its commands.";
    "echo" Echo 2 ANY_TIME NO_KEY Connection "1.0.0" "O(1)" "Returns its argument.";
    "exec" Exec 1 ANY_TIME NO_KEY Transactions "1.2.0" "O(1)" "Does the commands of the transaction as a whole, or none: nil if a watched key has another version.";
    "exists" Exists -2 READ ALL_KEYS Generic "1.0.0" "O(N)" "Counts the keys that exist.";
    "expire" Expire -3 REMOVE ONE_KEY Generic "1.0.0" "O(1)" "Lets a key expire after some seconds. NX, XX, GT and LT are conditions on the moment that the key has.";
    "expireat" ExpireAt -3 REMOVE ONE_KEY Generic "1.2.0" "O(1)" "Lets a key expire at a moment, in seconds since 1970. Conditions as for EXPIRE.";
    "expiretime" ExpireTime 2 READ ONE_KEY Generic "7.0.0" "O(1)" "Returns the moment at which a key expires, in seconds since 1970; -1: never, -2: the key is absent.";
    "flushall" FlushAll -1 SLOW_REMOVE NO_KEY Server "1.0.0" "O(N)" "Deletes every key. There is one database, so the command equals FLUSHDB.";
    "flushdb" FlushDb -1 SLOW_REMOVE NO_KEY Server "1.0.0" "O(N)" "Deletes every key, one after the other.";
    "function" Function -2 ANY_TIME NO_KEY Server "7.0.0" "O(1)" "FLUSH answers OK, since there are no functions. All else is refused.";
    "get" Get 2 READ ONE_KEY String "1.0.0" "O(1)" "Returns the value of a key.";
    "getdel" GetDel 2 REMOVE ONE_KEY String "6.2.0" "O(1)" "Returns the value of a key and deletes it.";
    "getex" GetEx -2 WRITE ONE_KEY String "6.2.0" "O(1)" "Returns the value of a key, and changes its expiry with EX, PX, EXAT, PXAT or PERSIST.";
    "getrange" GetRange 4 SLOW_READ ONE_KEY String "2.4.0" "O(N)" "Returns a part of the value of a key.";
    "getset" GetSet 3 WRITE ONE_KEY String "1.0.0" "O(1)" "Stores a value and returns the previous value.";
    "hello" Hello -1 BEFORE_PASSWORD NO_KEY Connection "6.0.0" "O(1)" "Chooses the protocol, authenticates, and names the connection.";
    "incr" Incr 2 WRITE ONE_KEY String "1.0.0" "O(1)" "Adds one to a number, which is 0 if the key is absent.";
    "incrby" IncrBy 3 WRITE ONE_KEY String "1.0.0" "O(1)" "Adds to a number, which is 0 if the key is absent.";
    "incrbyfloat" IncrByFloat 3 WRITE ONE_KEY String "2.6.0" "O(1)" "Adds to a number with decimal places, which is 0 if the key is absent. Computes and prints as Redis does, with the 80-bit numbers of x86-64.";
    "info" Info -1 ANY_TIME NO_KEY Server "1.0.0" "O(1)" "Reports about server and store.";
    "keys" Keys 2 SLOW_READ NO_KEY Generic "1.0.0" "O(N)" "Returns all keys that match a pattern.";
    "memory" Memory -2 SLOW_READ SECOND_KEY Server "4.0.0" "O(1)" "Returns the bytes that a key takes of the log and of the index: USAGE.";
    "mget" MGet -2 READ ALL_KEYS String "1.0.0" "O(N)" "Returns the values of keys. The values together are no snapshot.";
    "mset" MSet -3 SLOW_WRITE EVERY_SECOND String "1.0.1" "O(N)" "Stores values of keys. Each value is stored as a whole, but other clients may see some values before the rest.";
    "msetnx" MSetNx -3 SLOW_WRITE EVERY_SECOND String "1.0.1" "O(N)" "Stores values of keys, all or none: only if none of the keys exists. In a cluster all keys are of one shard.";
    "multi" Multi 1 ANY_TIME NO_KEY Transactions "1.2.0" "O(1)" "Begins a transaction: later commands are queued up to EXEC, DISCARD or RESET. In a cluster all keys are of one shard.";
    "object" Object -2 SLOW_READ SECOND_KEY Generic "2.2.3" "O(1)" "Reports about a key: ENCODING, which is raw, REFCOUNT, which is 1, and FREQ, which is refused as by a Redis that does not count.";
    "persist" Persist 2 REMOVE ONE_KEY Generic "2.2.0" "O(1)" "Lets a key expire no more.";
    "pexpire" PExpire -3 REMOVE ONE_KEY Generic "2.6.0" "O(1)" "Lets a key expire after some milliseconds. Conditions as for EXPIRE.";
    "pexpireat" PExpireAt -3 REMOVE ONE_KEY Generic "2.6.0" "O(1)" "Lets a key expire at a moment, in milliseconds since 1970. Conditions as for EXPIRE.";
    "pexpiretime" PExpireTime 2 READ ONE_KEY Generic "7.0.0" "O(1)" "Returns the moment at which a key expires, in milliseconds since 1970; -1: never, -2: the key is absent.";
    "ping" Ping -1 ANY_TIME NO_KEY Connection "1.0.0" "O(1)" "Returns PONG, or its argument.";
    "psetex" PSetEx 4 WRITE ONE_KEY String "2.6.0" "O(1)" "Stores a value that expires after some milliseconds.";
    "pttl" PTtl 2 READ ONE_KEY Generic "2.6.0" "O(1)" "Returns the milliseconds until a key expires; -1: never, -2: the key is absent.";
    "quit" Quit -1 BEFORE_PASSWORD NO_KEY Connection "1.0.0" "O(1)" "Ends the connection.";
    "randomkey" RandomKey 1 SLOW_READ NO_KEY Generic "1.0.0" "O(1)" "Returns a random key.";
    "rename" Rename 3 SLOW_WRITE TWO_KEYS Generic "1.0.0" "O(N)" "Gives the value of a key, with its moment, to another key, and deletes the first, both or none. In a cluster both keys are of one shard.";
    "renamenx" RenameNx 3 SLOW_WRITE TWO_KEYS Generic "1.0.0" "O(N)" "Like RENAME, if the other key is absent. In a cluster both keys are of one shard.";
    "reset" Reset 1 BEFORE_PASSWORD NO_KEY Connection "6.2.0" "O(1)" "Resets the connection to its initial state.";
    "scan" Scan -2 SLOW_READ NO_KEY Generic "2.8.0" "O(N)" "Returns some keys, and the cursor of the next ones.";
    "select" Select 2 ANY_TIME NO_KEY Connection "1.0.0" "O(1)" "Chooses database 0, the only one.";
    "set" Set -3 WRITE ONE_KEY String "1.0.0" "O(1)" "Stores a value. NX, XX and IFEQ are conditions; GET returns the previous value; EX, PX, EXAT and PXAT let the key expire, KEEPTTL keeps its moment.";
    "setex" SetEx 4 WRITE ONE_KEY String "2.0.0" "O(1)" "Stores a value that expires after some seconds.";
    "setnx" SetNx 3 WRITE ONE_KEY String "1.0.0" "O(1)" "Stores a value if the key is absent.";
    "setrange" SetRange 4 SLOW_WRITE ONE_KEY String "2.2.0" "O(N)" "Overwrites a part of the value of a key. Zero bytes fill the gap behind a shorter value.";
    "slowlog" SlowLog -2 ADMIN NO_KEY Server "2.2.12" "O(N)" "Reports the latest commands that took 10 ms or more, or the time that CONFIG SET says: GET, LEN, RESET. Commands of a pipeline that are done together are one, under the name of the first.";
    "strlen" StrLen 2 READ ONE_KEY String "2.2.0" "O(1)" "Returns the length of the value of a key.";
    "time" Time 1 ANY_TIME NO_KEY Server "2.6.0" "O(1)" "Returns the server's time, by which keys expire, as seconds since 1970 and microseconds.";
    "touch" Touch -2 READ ALL_KEYS Generic "3.2.1" "O(N)" "Counts the keys that exist. Reads leave no trace, so nothing else changes.";
    "ttl" Ttl 2 READ ONE_KEY Generic "1.0.0" "O(1)" "Returns the seconds until a key expires, rounded; -1: never, -2: the key is absent.";
    "type" Type 2 READ ONE_KEY Generic "1.0.0" "O(1)" "Returns `string`, or `none` if the key is absent.";
    "unlink" Unlink -2 REMOVE ALL_KEYS Generic "4.0.0" "O(N)" "Deletes keys and says how many were there.";
    "unwatch" Unwatch 1 ANY_TIME NO_KEY Transactions "2.2.0" "O(1)" "Forgets the keys that WATCH named.";
    "wait" Wait 3 BLOCKING NO_KEY Generic "3.0.0" "O(1)" "Returns the number of copies, beside the primary, that have the writes of this connection. In a cluster, waits for that many up to the time limit; a server alone has none.";
    "waitaof" WaitAof 4 BLOCKING NO_KEY Generic "7.2.0" "O(1)" "Returns whether the writes of this connection survive power loss where they were done, 1 or 0, and the number of other copies that survive it. Waits as WAIT does.";
    "watch" Watch -2 ANY_TIME ALL_KEYS Transactions "2.2.0" "O(N)" "Lets the next EXEC do nothing if one of the keys has another version by then.";
};

/// The number of commands.
pub const COMMAND_COUNT: usize = COMMANDS.len();

const NAME_SIZE_MAX: usize = 16;

/// Names as numbers, in the order of the table, so that each name takes one comparison.
const NAMES: [u128; COMMAND_COUNT] = {
    let mut names = [0; COMMAND_COUNT];
    let mut index = 0;
    while index < COMMAND_COUNT {
        names[index] = name_number(COMMANDS[index].name.as_bytes());
        index += 1;
    }
    names
};

/// The first 16 bytes of a name, in lower case, as a number that sorts like the name.
const fn name_number(name: &[u8]) -> u128 {
    let mut number = 0;
    let mut index = 0;
    while index < NAME_SIZE_MAX {
        number = number << 8
            | if index < name.len() {
                name[index].to_ascii_lowercase() as u128
            } else {
                0
            };
        index += 1;
    }
    number
}

/// Finds a command by its name, in upper or lower case.
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    if name.len() > NAME_SIZE_MAX || name.contains(&0) {
        return None;
    }
    NAMES
        .binary_search(&name_number(name))
        .ok()
        .map(|index| &COMMANDS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_small_and_lead_to_their_commands() {
        assert!(NAMES.is_sorted_by(|before, after| before < after));
        for spec in COMMANDS {
            assert!(spec.name.len() <= NAME_SIZE_MAX && spec.name == spec.name.to_lowercase());
            assert_eq!(
                find(spec.name.to_uppercase().as_bytes()).unwrap().id,
                spec.id
            );
            assert_eq!(format!("{:?}", spec.id).to_lowercase(), spec.name);
        }
        for name in [&b""[..], b"ge", b"gett", b"get\0", b"averyveryverylongname"] {
            assert!(find(name).is_none(), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn the_number_of_a_command_is_its_place_in_the_table() {
        assert!(
            COMMANDS
                .iter()
                .enumerate()
                .all(|(index, spec)| spec.id as usize == index)
        );
    }

    /// The table in `docs/gateway.md` is this table.
    #[test]
    fn the_documentation_has_every_command() {
        let page = include_str!("../../../../docs/gateway.md");
        let (start, end) = (
            "<!-- printed from the table of commands -->\n",
            "<!-- end of the printed table -->",
        );
        let table = page
            .split_once(start)
            .and_then(|(_, rest)| rest.split_once(end))
            .expect("the page has a table")
            .0;
        let row = |spec: &Spec| {
            let count = spec.arity.unsigned_abs() - 1;
            let more = if spec.arity < 0 { " or more" } else { "" };
            let name = spec.name.to_uppercase();
            format!(
                "| `{name}` | {count}{more} | {} | {} |\n",
                spec.group.name(),
                spec.summary
            )
        };
        let head = "| command | arguments | about | what it does |\n| --- | --- | --- | --- |\n";
        let printed: String = head
            .chars()
            .chain(COMMANDS.iter().map(row).collect::<String>().chars())
            .collect();
        assert!(
            table == printed,
            "the table in docs/gateway.md is to be:\n{printed}"
        );
    }

    #[test]
    fn arity_counts_the_name() {
        assert!(find(b"get").unwrap().accepts(2) && !find(b"get").unwrap().accepts(3));
        assert!(find(b"set").unwrap().accepts(9) && !find(b"set").unwrap().accepts(2));
    }
}
