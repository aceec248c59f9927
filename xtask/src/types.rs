//! The size of types: the files over which the behaviour of a type is spread, and its fields.
//!
//! The behaviour of a type is in three files at most, and a struct has twelve fields at most. A component that outgrows
//! this has parts with state of their own. Configuration, counters, reports and the formats of media and wire may have
//! more fields. Only code counts, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lexer::word;

/// The most files with an `impl` of one type.
const FILES_MAX: usize = 3;
/// The most fields of a struct.
const FIELDS_MAX: usize = 12;

/// Types that are spread over more files: the crate, and the type.
const MORE_FILES: &[(&str, &str)] = &[
    // A value whose changes are pure functions, sorted by the party that asks for them.
    ("cluster", "Configuration"),
    // Components that are to be divided.
    ("backup", "Intake"),
    ("fabric-shm", "State"),
    ("fabric-sim", "Net"),
    ("fabric-verbs", "State"),
    ("replication-sim", "World"),
    ("structures", "BTree"),
    ("structures", "HashTable"),
];
/// Structs with more fields: the crate, and the struct.
const MORE_FIELDS: &[(&str, &str)] = &[
    // Settings that a user may give.
    ("check", "Setup"),
    ("cli", "GatewayFlags"),
    ("cli", "Selectors"),
    ("cli", "Serve"),
    ("cli", "Serving"),
    ("fabric-verbs", "VerbsOptions"),
    ("lab", "Sim"),
    ("published", "RowanOptions"),
    ("replication-sim", "Faults"),
    // Counters and reports.
    ("bench", "YcsbResult"),
    ("c", "Statistics"),
    ("cli", "CopyingReport"),
    ("cli", "PoolReport"),
    ("cli", "Report"),
    ("fabric", "Counts"),
    ("gateway", "Counters"),
    ("lab", "Cost"),
    // Formats of media and wire.
    ("kv", "Segment"),
    ("media", "HeaderBytes"),
];

/// Returns every type of the crate with the name `role` that is too large, as `file:1: sentence`, and every exception
/// that the crate no longer needs. `sources` are the files of the crate, with the code of the product in each.
pub fn findings(role: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut types = Types::default();
    for (file, code) in sources {
        types.read(file, code);
    }
    let mut findings = types.spread(role);
    findings.extend(types.wide(role));
    findings
}

/// The types of a crate. Two modules may have types of one name.
#[derive(Default)]
struct Types {
    /// The files with a definition, by name.
    defined: BTreeMap<String, BTreeSet<PathBuf>>,
    /// The files with an `impl`, by name.
    behaviour: BTreeMap<String, BTreeSet<PathBuf>>,
    /// Structs with their fields.
    fields: Vec<(String, PathBuf, usize)>,
}

impl Types {
    fn read(&mut self, file: &Path, code: &str) {
        for (at, _) in code
            .match_indices("struct ")
            .chain(code.match_indices("enum "))
        {
            if at > 0 && !code[..at].ends_with([' ', '\n']) {
                continue;
            }
            let rest = code[at..].split_once(' ').map_or("", |(_, rest)| rest);
            let name = word(rest);
            if name.is_empty() {
                continue;
            }
            let known = self.defined.entry(name.to_owned()).or_default();
            known.insert(file.to_owned());
            if code[at..].starts_with("struct ")
                && let Some(count) = fields(&rest[name.len()..])
            {
                self.fields.push((name.to_owned(), file.to_owned(), count));
            }
        }
        for name in implemented(code) {
            let known = self.behaviour.entry(name).or_default();
            known.insert(file.to_owned());
        }
    }

    /// The types whose behaviour is in too many files.
    fn spread(&self, role: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let mut unneeded: BTreeSet<&str> = names_of(MORE_FILES, role).collect();
        for (name, definitions) in &self.defined {
            for definition in definitions {
                let files = self.behaviour.get(name).into_iter().flatten();
                let own = files.filter(|file| nearest(definitions, file) == definition);
                let count = own.count();
                if count <= FILES_MAX {
                    continue;
                }
                unneeded.remove(name.as_str());
                if !names_of(MORE_FILES, role).any(|known| known == name) {
                    findings.push(format!(
                        "{}:1: the behaviour of `{name}` is in {count} files, and {FILES_MAX} may have it; make parts that own their state, or functions that take the value",
                        definition.display()
                    ));
                }
            }
        }
        findings.extend(unneeded.into_iter().map(|name| no_exception(role, name)));
        findings
    }

    /// The structs with too many fields.
    fn wide(&self, role: &str) -> Vec<String> {
        let wide = self.fields.iter().filter(|(.., count)| *count > FIELDS_MAX);
        let breach = |(name, file, count): &(String, PathBuf, usize)| {
            format!(
                "{}:1: `{name}` has {count} fields, and {FIELDS_MAX} are the most; make components of the fields that change together",
                file.display()
            )
        };
        let is_known = |name: &str| names_of(MORE_FIELDS, role).any(|known| known == name);
        let breaches = wide.clone().filter(|(name, ..)| !is_known(name));
        let mut findings: Vec<_> = breaches.map(breach).collect();
        let known = names_of(MORE_FIELDS, role);
        let unneeded = known.filter(|&name| !wide.clone().any(|(wide, ..)| wide == name));
        findings.extend(unneeded.map(|name| no_exception(role, name)));
        findings
    }
}

/// The exceptions of a crate.
fn names_of<'e>(exceptions: &'e [(&str, &str)], role: &str) -> impl Iterator<Item = &'e str> {
    let own = exceptions.iter().filter(move |(of, _)| *of == role);
    own.map(|&(_, name)| name)
}

fn no_exception(role: &str, name: &str) -> String {
    format!("xtask/src/types.rs:1: `{name}` of {role} is an exception, and needs none")
}

/// The definition that `file` is about: that in the folder nearest to it.
fn nearest<'d>(definitions: &'d BTreeSet<PathBuf>, file: &Path) -> &'d PathBuf {
    let shared = |definition: &&PathBuf| {
        let (parts, others) = (definition.components(), file.components());
        parts
            .zip(others)
            .take_while(|(one, other)| one == other)
            .count()
    };
    let nearest = definitions.iter().max_by_key(shared);
    nearest.expect("a defined type has a definition")
}

/// The names of the types that `code` has an `impl` of.
fn implemented(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.strip_prefix("unsafe ").unwrap_or(line);
        let begins = line.starts_with("impl<") || line.starts_with("impl ");
        let Some((header, _)) = code[start..].split_once('{').filter(|_| begins) else {
            continue;
        };
        let header = header
            .trim_start_matches("unsafe ")
            .trim_start_matches("impl");
        let subject = behind_generics(header);
        let subject = subject.split_once(" for ").map_or(subject, |(_, of)| of);
        let path = subject.trim_start().trim_start_matches(['&', '(']);
        let path = path.split(['<', ' ', '\n', ')']).next().unwrap_or_default();
        let name = word(path.rsplit("::").next().unwrap_or_default());
        names.extend((!name.is_empty()).then(|| name.to_owned()));
    }
    names
}

/// `header` without the generic parameters at its start.
pub fn behind_generics(header: &str) -> &str {
    if !header.starts_with('<') {
        return header;
    }
    let mut depth = 0;
    for (at, letter) in header.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if header[..at].ends_with(['-', '=']) => {}
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &header[at + 1..];
        }
    }
    ""
}

/// The number of fields of a struct whose text after its name is `text`; `None`: its fields have no names.
fn fields(text: &str) -> Option<usize> {
    let begin = text.find(['{', ';', '('])?;
    let body = text[begin..].strip_prefix('{')?;
    let (mut depth, mut count, mut is_empty) = (0, 0, true);
    let mut before = ' ';
    for letter in body.chars() {
        match letter {
            '}' if depth == 0 => break,
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                count += usize::from(!is_empty);
                is_empty = true;
            }
            letter if !letter.is_whitespace() => is_empty = false,
            _ => {}
        }
        before = letter;
    }
    Some(count + usize::from(!is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::product_code;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let sources = sources.iter();
        let sources: Vec<_> = sources
            .map(|(file, source)| (PathBuf::from(file), product_code(source)))
            .collect();
        findings("node", &sources)
    }

    #[test]
    fn a_type_whose_behaviour_is_in_a_fourth_file_is_found() {
        let behaviour = "impl<C: Fn(u8) -> u8> State<C> {\n fn f() {} }\n";
        let defined = "pub struct State<C> { c: C }\nimpl<C> Drop for State<C> {}\n";
        let mut sources = vec![
            ("a/state.rs", defined),
            ("a/b.rs", behaviour),
            ("a/c.rs", behaviour),
        ];
        assert_eq!(found(&sources), [""; 0]);
        sources.push(("a/d.rs", behaviour));
        assert_eq!(found(&sources).len(), 1);
        sources[3].1 = "#[cfg(test)]\nmod tests {\nimpl State {\n}\n}\n// impl State {\n";
        assert_eq!(found(&sources), [""; 0]);
    }

    #[test]
    fn types_of_one_name_in_two_folders_are_two() {
        let behaviour = "impl Run {\n}\n";
        let defined = "struct Run { n: u64 }\nimpl Run {\n}\n";
        let sources = [
            ("x/a/mod.rs", defined),
            ("x/a/one.rs", behaviour),
            ("x/a/two.rs", behaviour),
            ("x/b/mod.rs", defined),
            ("x/b/one.rs", behaviour),
            ("x/b/two.rs", behaviour),
        ];
        assert_eq!(found(&sources), [""; 0]);
    }

    #[test]
    fn a_struct_with_a_thirteenth_field_is_found() {
        let fields = |count: usize| "a: Map<u8, (u8, fn(u8) -> [u8; 2])>,".repeat(count);
        let source = |count| format!("pub struct Wide<T> {{ {} }}", fields(count));
        assert_eq!(found(&[("a.rs", &source(12))]), [""; 0]);
        assert_eq!(found(&[("a.rs", &source(13))]).len(), 1);
        assert_eq!(
            found(&[("a.rs", "struct Pair(u8, u8); enum E { A }")]),
            [""; 0]
        );
    }
}
