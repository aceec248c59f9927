//! Options of commands. An unsupported option is an error and is never ignored: a client that asks for a condition must
//! not believe that the store has checked it.

use super::clients::Chosen;
use super::describe::NAMES_MAX;
use super::error::CommandError;
use super::expiry::NewExpiry;
use super::key_places::CommandKeys;
use super::operation::{
    Arguments, ClientReport, Control, Credentials, Describe, Hello, Operation, Scan,
};
use super::reply::Reply;
use super::table::{COMMAND_COUNT, Spec};
use super::value::{SetAnswer, SetCondition, ValueCommand};
use crate::resp::decimal;
use crate::slow_log::{ENTRIES_MAX, SlowBounds};

/// Keys that a `SCAN` looks at by default.
const SCAN_COUNT: usize = 10;
/// The most keys that one `SCAN` looks at: more keys would keep other connections waiting.
const SCAN_COUNT_MAX: usize = 10_000;

/// Parses an integer.
pub fn integer(text: &[u8]) -> Result<i64, CommandError> {
    decimal(text).ok_or(CommandError::NotAnInteger)
}

/// Parses an integer that is not negative.
pub fn positive(text: &[u8]) -> Result<i64, CommandError> {
    integer(text).and_then(|number| {
        if number < 0 {
            Err(CommandError::NotAnInteger)
        } else {
            Ok(number)
        }
    })
}

pub fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}

/// `SET key value [NX | XX | IFEQ value] [GET] [EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL]`.
pub fn set<'a>(arguments: Arguments<'a>) -> Result<ValueCommand<'a>, CommandError> {
    let mut condition = SetCondition::Always;
    let mut answer = SetAnswer::Done;
    let mut expiry = None;
    let mut index = 3;
    while let Some(option) = arguments.get(index) {
        index += 1;
        let asked = if is(option, "NX") {
            SetCondition::IfAbsent
        } else if is(option, "XX") {
            SetCondition::IfPresent
        } else if is(option, "IFEQ") {
            index += 1;
            SetCondition::IfEqual(arguments.get(index - 1).ok_or(CommandError::Syntax)?)
        } else if is(option, "GET") {
            answer = SetAnswer::Before;
            continue;
        } else if let Some((new, read)) = set_expiry(arguments, index - 1)? {
            index += read - 1;
            if expiry.replace(new).is_some() {
                return Err(CommandError::Syntax);
            }
            continue;
        } else if ["IFNE", "IFDEQ", "IFDNE"]
            .iter()
            .any(|known| is(option, known))
        {
            return Err(CommandError::Option {
                command: "SET",
                option: option.to_vec(),
            });
        } else {
            return Err(CommandError::Syntax);
        };
        if condition != SetCondition::Always && condition != asked {
            return Err(CommandError::Syntax);
        }
        condition = asked;
    }
    Ok(ValueCommand::Set {
        value: arguments.at(2),
        condition,
        answer,
        expiry: expiry.unwrap_or(NewExpiry::Never),
    })
}

/// An option of `SET` about expiry, and the number of its arguments.
fn set_expiry(
    arguments: Arguments<'_>,
    index: usize,
) -> Result<Option<(NewExpiry, usize)>, CommandError> {
    match is(arguments.at(index), "KEEPTTL") {
        true => Ok(Some((NewExpiry::Keep, 1))),
        false => NewExpiry::read(arguments, index, "set"),
    }
}

/// `GETEX key [EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST]`.
pub fn get_and_expire<'a>(arguments: Arguments<'a>) -> Result<ValueCommand<'a>, CommandError> {
    let (expiry, read) = match arguments.get(2) {
        None => return Ok(ValueCommand::Get),
        Some(option) if is(option, "PERSIST") => (NewExpiry::Never, 1),
        Some(_) => NewExpiry::read(arguments, 2, "getex")?.ok_or(CommandError::Syntax)?,
    };
    match arguments.len() == 2 + read {
        true => Ok(ValueCommand::GetAndExpire(expiry)),
        false => Err(CommandError::Syntax),
    }
}

/// `AUTH [user] password`.
pub fn credentials<'a>(arguments: Arguments<'a>) -> Result<Credentials<'a>, CommandError> {
    match arguments.len() {
        1 => Ok(Credentials {
            user: None,
            password: arguments.at(0),
        }),
        2 => Ok(Credentials {
            user: Some(arguments.at(0)),
            password: arguments.at(1),
        }),
        _ => Err(CommandError::Syntax),
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
pub fn hello<'a>(arguments: Arguments<'a>) -> Result<Hello<'a>, CommandError> {
    let mut hello = Hello::default();
    let Some(version) = arguments.get(0) else {
        return Ok(hello);
    };
    let version = decimal(version).ok_or(CommandError::Refused(
        "Protocol version is not an integer or out of range",
    ))?;
    if version != 2 && version != 3 {
        return Err(CommandError::Protocol);
    }
    hello.version = Some(version);
    let mut index = 1;
    while let Some(option) = arguments.get(index) {
        if is(option, "AUTH") && index + 2 < arguments.len() {
            hello.credentials = Some(Credentials {
                user: Some(arguments.at(index + 1)),
                password: arguments.at(index + 2),
            });
            index += 3;
        } else if is(option, "SETNAME") && index + 1 < arguments.len() {
            hello.name = Some(client_name(arguments.at(index + 1))?);
            index += 2;
        } else {
            let words = "Syntax error in HELLO option; AUTH and SETNAME are supported";
            return Err(CommandError::Refused(words));
        }
    }
    Ok(hello)
}

/// `CLIENT SUBCOMMAND ...`.
pub fn client<'a>(arguments: Arguments<'a>) -> Result<Control<'a>, CommandError> {
    let subcommand = arguments.at(0);
    let count = |wanted: usize| {
        if arguments.len() == wanted + 1 {
            Ok(())
        } else {
            let name = subcommand.escape_ascii().to_string().to_lowercase();
            Err(CommandError::ArgumentCount(format!("client|{name}")))
        }
    };
    if is(subcommand, "GETNAME") {
        count(0).map(|()| Control::ClientReport(ClientReport::Name))
    } else if is(subcommand, "ID") {
        count(0).map(|()| Control::ClientReport(ClientReport::Id))
    } else if is(subcommand, "INFO") {
        count(0).map(|()| Control::ClientReport(ClientReport::Info))
    } else if is(subcommand, "LIST") {
        Chosen::of_list(arguments.from(1)).map(Control::ClientList)
    } else if is(subcommand, "KILL") && arguments.len() == 2 {
        Ok(Control::ClientEnd(Chosen::of_address(arguments.at(1))))
    } else if is(subcommand, "KILL") && arguments.len() > 2 {
        Chosen::of_kill(arguments.from(1)).map(Control::ClientsEnd)
    } else if is(subcommand, "KILL") {
        Err(CommandError::ArgumentCount("client|kill".to_owned()))
    } else if is(subcommand, "SETNAME") {
        count(1)?;
        client_name(arguments.at(1)).map(Control::ClientSetName)
    } else if is(subcommand, "SETINFO") {
        count(2)?;
        let is_name = is(arguments.at(1), "LIB-NAME");
        if !is_name && !is(arguments.at(1), "LIB-VER") {
            return Err(CommandError::Option {
                command: "CLIENT SETINFO",
                option: arguments.at(1).to_vec(),
            });
        }
        let value = client_name(arguments.at(2))?;
        Ok(Control::ClientSetLibrary { is_name, value })
    } else {
        Err(CommandError::Subcommand {
            command: "CLIENT",
            subcommand: subcommand.to_vec(),
        })
    }
}

/// `SLOWLOG GET [count] | LEN | RESET`.
pub fn slow_log<'a>(arguments: Arguments<'a>) -> Result<Control<'a>, CommandError> {
    let subcommand = arguments.at(0);
    let (control, extra) = if is(subcommand, "GET") {
        let count = arguments.get(1).map_or(Ok(10), integer)?;
        let count = match count {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| {
                CommandError::Refused("count should be greater than or equal to -1")
            })?,
        };
        (Control::SlowGet(count), 2)
    } else if is(subcommand, "LEN") {
        (Control::SlowCount, 1)
    } else if is(subcommand, "RESET") {
        (Control::SlowReset, 1)
    } else {
        return Err(CommandError::Subcommand {
            command: "SLOWLOG",
            subcommand: subcommand.to_vec(),
        });
    };
    if arguments.len() > extra {
        let name = subcommand.escape_ascii().to_string().to_lowercase();
        return Err(CommandError::ArgumentCount(format!("slowlog|{name}")));
    }
    Ok(control)
}

/// The names of the bounds of the slow log.
pub const SLOWER_THAN: &str = "slowlog-log-slower-than";
pub const SLOW_ENTRIES: &str = "slowlog-max-len";

/// Longest name of a connection or a library, in bytes. A name is kept as long as the connection lasts.
const CLIENT_NAME_SIZE_MAX: usize = 1024;

/// Checks that a name can stand in a line of `CLIENT INFO`.
fn client_name(name: &[u8]) -> Result<&[u8], CommandError> {
    let is_plain =
        name.iter().all(|byte| (b'!'..=b'~').contains(byte)) && name.len() <= CLIENT_NAME_SIZE_MAX;
    if is_plain {
        Ok(name)
    } else {
        Err(CommandError::ClientName)
    }
}

/// `COMMAND [COUNT | DOCS name... | GETKEYS command... | INFO name... | LIST]`.
pub fn describe<'a>(arguments: Arguments<'a>) -> Result<Operation<'a>, CommandError> {
    let describe = |what| Ok(Operation::Control(Control::Describe(what)));
    let Some(subcommand) = arguments.get(0) else {
        return describe(Describe::All);
    };
    let rest = arguments.from(1);
    if is(subcommand, "GETKEYS") {
        return describe(Describe::Keys(CommandKeys::read(rest)?));
    }
    if rest.len() > NAMES_MAX {
        return Err(CommandError::Refused(
            "COMMAND describes at most 512 commands at once",
        ));
    }
    if is(subcommand, "COUNT") && rest.is_empty() {
        Ok(Operation::Answer(Reply::Integer(COMMAND_COUNT as i64)))
    } else if is(subcommand, "DOCS") {
        describe(Describe::Documents(rest))
    } else if is(subcommand, "INFO") {
        describe(if rest.is_empty() {
            Describe::All
        } else {
            Describe::Named(rest)
        })
    } else if is(subcommand, "LIST") {
        match rest.get(0) {
            None => describe(Describe::Names),
            Some(option) => Err(CommandError::Option {
                command: "COMMAND LIST",
                option: option.to_vec(),
            }),
        }
    } else {
        Err(CommandError::Subcommand {
            command: "COMMAND",
            subcommand: subcommand.to_vec(),
        })
    }
}

/// `CONFIG GET pattern... | SET setting value...`.
pub fn config<'a>(arguments: Arguments<'a>) -> Result<Control<'a>, CommandError> {
    match arguments.at(0) {
        set if is(set, "SET") && arguments.len() > 2 && arguments.len() % 2 == 1 => {
            slow_bounds(arguments.from(1)).map(Control::ConfigSet)
        }
        set if is(set, "SET") => Err(CommandError::ArgumentCount("config|set".to_owned())),
        get if is(get, "GET") && arguments.len() > 1 => Ok(Control::ConfigGet(arguments.from(1))),
        get if is(get, "GET") => Err(CommandError::ArgumentCount("config|get".to_owned())),
        other => Err(CommandError::Subcommand {
            command: "CONFIG",
            subcommand: other.to_vec(),
        }),
    }
}

/// The settings that `CONFIG SET` knows. If there is any other, nothing is set.
fn slow_bounds(pairs: Arguments<'_>) -> Result<SlowBounds, CommandError> {
    let number = |name, value, least, most| match integer(value) {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) => Err(CommandError::SettingRange { name, least, most }),
        Err(_) => Err(CommandError::SettingNumber { name }),
    };
    let mut bounds = SlowBounds::default();
    for index in (0..pairs.len()).step_by(2) {
        let (name, value) = (pairs.at(index), pairs.at(index + 1));
        if is(name, SLOWER_THAN) {
            bounds.slower_than_us = Some(number(SLOWER_THAN, value, -1, i64::MAX)?);
        } else if is(name, SLOW_ENTRIES) {
            let entries = number(SLOW_ENTRIES, value, 0, ENTRIES_MAX as i64)?;
            bounds.entries = Some(entries as usize);
        } else {
            return Err(CommandError::Option {
                command: "CONFIG SET",
                option: name.to_vec(),
            });
        }
    }
    Ok(bounds)
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub fn scan<'a>(arguments: Arguments<'a>) -> Result<Scan<'a>, CommandError> {
    let cursor = std::str::from_utf8(arguments.at(0))
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(CommandError::Cursor)?;
    let mut scan = Scan {
        cursor,
        pattern: None,
        count: SCAN_COUNT,
        is_of_strings: true,
    };
    let mut index = 1;
    while let Some(option) = arguments.get(index) {
        let value = arguments.get(index + 1);
        index += 2;
        if is(option, "MATCH") {
            scan.pattern = Some(value.ok_or(CommandError::Syntax)?);
        } else if is(option, "COUNT") {
            let count = integer(value.ok_or(CommandError::Syntax)?)?;
            if count < 1 {
                return Err(CommandError::Syntax);
            }
            scan.count =
                usize::try_from(count).map_or(SCAN_COUNT_MAX, |count| count.min(SCAN_COUNT_MAX));
        } else if is(option, "TYPE") {
            scan.is_of_strings = is(value.ok_or(CommandError::Syntax)?, "string");
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(scan)
}

/// `FLUSHDB [ASYNC | SYNC]`. Both options have the same effect: all keys are gone when the command is answered.
pub fn flush(spec: &Spec, arguments: Arguments<'_>) -> Result<(), CommandError> {
    match (arguments.len(), arguments.get(0)) {
        (0, _) => Ok(()),
        (1, Some(option)) if is(option, "ASYNC") || is(option, "SYNC") => Ok(()),
        (1, _) => Err(CommandError::Syntax),
        _ => Err(CommandError::ArgumentCount(spec.name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::*;

    /// Reads a command of words and returns its operation as text, since an operation borrows the words.
    fn read(line: &str) -> String {
        let mut places = Vec::new();
        let mut input = Vec::new();
        for word in line.split(' ') {
            let start = input.len() as u32;
            input.extend(word.bytes());
            places.push(start..input.len() as u32);
        }
        match Operation::read(Arguments::new(&input, &places)).1 {
            Operation::Answer(reply) => reply.to_string(),
            Operation::Value { key, command } => format!("{} {command:?}", key.escape_ascii()),
            Operation::Control(control) => format!("{control:?}"),
            other => format!("{other:?}").split('(').next().unwrap().to_owned(),
        }
    }

    #[test]
    fn an_option_that_is_not_supported_is_refused_by_name() {
        assert_eq!(
            read("SET k v IFNE 10"),
            "ERR SET option IFNE is not supported by this store"
        );
        assert_eq!(
            read("CONFIG SET a b"),
            "ERR CONFIG SET option a is not supported by this store"
        );
        assert_eq!(
            read("CLIENT PAUSE 1"),
            "ERR CLIENT PAUSE is not supported by this store"
        );
        assert_eq!(
            read("CLIENT SETINFO lib-color red"),
            "ERR CLIENT SETINFO option lib-color is not supported by this store"
        );
        assert_eq!(
            read("DEBUG SLEEP 10"),
            "ERR DEBUG is not supported by this store"
        );
        assert_eq!(read("SELECT 1"), "ERR DB index is out of range");
        assert!(read("LPUSH").starts_with("ERR unknown command 'LPUSH'"));
    }

    #[test]
    fn contradictions_are_syntax_errors() {
        for line in [
            "SET k v NX XX",
            "SET k v IFEQ",
            "SET k v XX IFEQ a",
            "SET k v bogus",
            "SCAN 0 COUNT 0",
            "SCAN 0 MATCH",
        ] {
            assert_eq!(read(line), "ERR syntax error", "{line}");
        }
    }

    #[test]
    fn options_in_any_order_and_case_are_understood() {
        let set = |condition: &str, answer: &str| {
            format!(
                "k Set {{ value: [118], condition: {condition}, answer: {answer}, expiry: Never }}"
            )
        };
        assert_eq!(read("set k v"), set("Always", "Done"));
        assert_eq!(read("set k v get nx"), set("IfAbsent", "Before"));
        assert_eq!(read("SET k v XX GET"), set("IfPresent", "Before"));
        assert_eq!(read("SET k v IFEQ a"), set("IfEqual([97])", "Done"));
        assert_eq!(read("SETNX k v"), set("IfAbsent", "Count"));
        assert_eq!(read("GETSET k v"), set("Always", "Before"));
        assert_eq!(
            read("SCAN 17 COUNT 99999999 MATCH a*"),
            "Scan(Scan { cursor: 17, pattern: Some([97, 42]), count: 10000, is_of_strings: true })"
        );
    }

    #[test]
    fn numbers_are_checked_before_anything_is_done() {
        for line in [
            "INCRBY k 1.5",
            "GETRANGE k a 1",
            "WAIT a 0",
            "WAITAOF x 0 0",
            "SELECT a",
        ] {
            assert_eq!(
                read(line),
                "ERR value is not an integer or out of range",
                "{line}"
            );
        }
        assert_eq!(
            read("WAITAOF 2 0 0"),
            "ERR value is out of range, must be between 0 and 1"
        );
        assert_eq!(
            read("DECRBY k -9223372036854775808"),
            "ERR decrement would overflow"
        );
        assert_eq!(read("SCAN -1"), "ERR invalid cursor");
        assert_eq!(read("HELLO 4"), "NOPROTO unsupported protocol version");
    }

    #[test]
    fn the_count_of_arguments_is_checked() {
        for (line, name) in [
            ("GET", "get"),
            ("MSET a 1 b", "mset"),
            ("PING a b", "ping"),
            ("CLIENT SETNAME", "client|setname"),
        ] {
            assert_eq!(
                read(line),
                format!("ERR wrong number of arguments for '{name}' command")
            );
        }
    }

    #[test]
    fn names_of_connections_are_words() {
        assert_eq!(
            read("CLIENT SETNAME a\nb"),
            CommandError::ClientName.to_string()
        );
        assert_eq!(
            read(&format!("CLIENT SETNAME {}", "x".repeat(1025))),
            CommandError::ClientName.to_string()
        );
        assert_eq!(read("CLIENT SETNAME a"), "ClientSetName([97])");
    }

    #[test]
    fn single_keys_and_many_keys_become_different_operations() {
        assert_eq!(read("DEL a"), "a Delete");
        assert_eq!(read("DEL a b"), "DeleteMany");
        assert_eq!(read("EXISTS a"), "a Exists");
        assert_eq!(read("EXISTS a a"), "CountMany");
        assert_eq!(read("PING"), "PONG");
        assert_eq!(read("ECHO a"), "\"a\"");
        assert_eq!(read("COMMAND COUNT"), COMMAND_COUNT.to_string());
    }
}
