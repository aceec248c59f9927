//! Answers `COMMAND` and its subcommands.

use super::operation::Describe;
use super::table::{COMMANDS, Spec, find};
use crate::acl::categories_of;
use crate::resp::ReplyWriter;

/// The most names that one command may ask about: many times the number of commands.
pub const NAMES_MAX: usize = 512;
/// Longest description of one command, in bytes.
const DESCRIPTION_SIZE_MAX: usize = 1024;

/// Returns the most bytes that the answer takes.
pub fn size_max(describe: &Describe<'_>) -> usize {
    let count = match describe {
        Describe::Keys(keys) => return keys.size_max(),
        Describe::Named(names) => names.len(),
        Describe::Documents(names) if !names.is_empty() => names.len(),
        _ => COMMANDS.len(),
    };
    (count + 1) * DESCRIPTION_SIZE_MAX
}

/// Writes the answer.
pub fn write(describe: Describe<'_>, writer: &mut ReplyWriter<'_>) {
    match describe {
        Describe::All => {
            writer.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| write_facts(spec, writer));
        }
        Describe::Named(names) => {
            writer.array(names.len());
            for name in names.iter() {
                match find(name) {
                    Some(spec) => write_facts(spec, writer),
                    None => writer.null(),
                }
            }
        }
        Describe::Documents(names) if names.is_empty() => {
            writer.map(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|spec| write_document(spec, writer));
        }
        Describe::Documents(names) => {
            let known: Vec<&Spec> = names.iter().filter_map(find).collect();
            writer.map(known.len());
            known
                .into_iter()
                .for_each(|spec| write_document(spec, writer));
        }
        Describe::Keys(keys) => {
            writer.array(keys.iter().len());
            keys.iter().for_each(|key| writer.bulk(key));
        }
        Describe::Names => {
            writer.array(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|spec| writer.bulk(spec.name.as_bytes()));
        }
    }
}

/// Writes the ten facts that Redis 7 reports: name, arity, flags, three facts about keys, categories, tips, key
/// specifications, subcommands.
fn write_facts(spec: &Spec, writer: &mut ReplyWriter<'_>) {
    writer.array(10);
    writer.bulk(spec.name.as_bytes());
    writer.integer(spec.arity.into());
    writer.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| writer.simple(flag));
    let (first, last, step) = spec.keys;
    [first, last, step]
        .into_iter()
        .for_each(|number| writer.integer(number.into()));
    let categories = categories_of(spec);
    writer.set(categories.len());
    categories
        .iter()
        .for_each(|category| writer.simple(&format!("@{category}")));
    // Tips and subcommands are optional.
    writer.array(0);
    write_key_specifications(spec, writer);
    writer.array(0);
}

fn write_key_specifications(spec: &Spec, writer: &mut ReplyWriter<'_>) {
    let (first, last, step) = spec.keys;
    if first == 0 {
        return writer.array(0);
    }
    writer.array(1);
    writer.map(3);
    writer.bulk(b"flags");
    let flags: &[&str] = if spec.has("readonly") {
        &["RO", "access"]
    } else {
        &["RW", "access", "update"]
    };
    writer.set(flags.len());
    flags.iter().for_each(|flag| writer.simple(flag));
    writer.bulk(b"begin_search");
    writer.map(2);
    writer.bulk(b"type");
    writer.bulk(b"index");
    writer.bulk(b"spec");
    write_numbers(&[("index", first)], writer);
    writer.bulk(b"find_keys");
    writer.map(2);
    writer.bulk(b"type");
    writer.bulk(b"range");
    writer.bulk(b"spec");
    // The last key counts from the first one, or from the end.
    let last = if last < 0 { last } else { last - first };
    write_numbers(
        &[("lastkey", last), ("keystep", step), ("limit", 0)],
        writer,
    );
}

fn write_numbers(pairs: &[(&str, i32)], writer: &mut ReplyWriter<'_>) {
    writer.map(pairs.len());
    for &(name, number) in pairs {
        writer.bulk(name.as_bytes());
        writer.integer(number.into());
    }
}

fn write_document(spec: &Spec, writer: &mut ReplyWriter<'_>) {
    writer.bulk(spec.name.as_bytes());
    let facts = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group.name()),
        ("complexity", spec.complexity),
    ];
    writer.map(facts.len());
    for (name, fact) in facts {
        writer.bulk(name.as_bytes());
        writer.bulk(fact.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::operation::Arguments;
    use crate::memory::Chain;
    use crate::resp::Protocol;

    fn written(describe: Describe<'_>, protocol: Protocol) -> String {
        let mut output = Chain::new(std::rc::Rc::default());
        write(
            describe,
            &mut ReplyWriter {
                output: &mut output,
                protocol,
            },
        );
        output.text()
    }

    fn size(describe: Describe<'_>, protocol: Protocol) -> usize {
        let output = &mut Chain::new(std::rc::Rc::default());
        write(describe, &mut ReplyWriter { output, protocol });
        output.len()
    }

    #[test]
    fn the_facts_about_get_are_those_of_redis() {
        let input = b"getnone";
        let places = [0..3, 3..7];
        let text = written(
            Describe::Named(Arguments::new(input, &places)),
            Protocol::Resp3,
        );
        let head = "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n~3\r\n+@read\r\n+@string\r\n+@fast\r\n*0\r\n*1\r\n%3\r\n";
        assert!(text.starts_with(head), "{text}");
        assert!(
            text.ends_with(
                "$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n*0\r\n_\r\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn documents_are_a_map_of_maps() {
        let places = std::slice::from_ref(&(0..3));
        let text = written(
            Describe::Documents(Arguments::new(b"get", places)),
            Protocol::Resp3,
        );
        assert!(
            text.starts_with("%1\r\n$3\r\nget\r\n%4\r\n$7\r\nsummary\r\n"),
            "{text}"
        );
        let flat = written(
            Describe::Documents(Arguments::new(b"get", places)),
            Protocol::Resp2,
        );
        assert!(flat.starts_with("*2\r\n$3\r\nget\r\n*8\r\n"), "{flat}");
    }

    #[test]
    fn no_answer_is_longer_than_its_reservation() {
        for spec in COMMANDS {
            let places = vec![0..spec.name.len() as u32; NAMES_MAX];
            let names = Arguments::new(spec.name.as_bytes(), &places);
            for describe in [
                Describe::All,
                Describe::Names,
                Describe::Named(names),
                Describe::Documents(names),
            ] {
                for protocol in [Protocol::Resp2, Protocol::Resp3] {
                    let size = size(describe, protocol);
                    assert!(size <= size_max(&describe), "{size} of {describe:?}");
                }
            }
        }
    }

    #[test]
    fn every_list_has_every_command() {
        let count = COMMANDS.len();
        assert!(written(Describe::All, Protocol::Resp2).starts_with(&format!("*{count}\r\n")));
        assert!(written(Describe::Names, Protocol::Resp2).starts_with(&format!("*{count}\r\n")));
        let documents = written(
            Describe::Documents(Arguments::new(b"", &[])),
            Protocol::Resp3,
        );
        assert!(documents.starts_with(&format!("%{count}\r\n")));
    }
}
