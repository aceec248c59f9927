//! The names of types: a name that leaves its module stands for one type in a crate.
//!
//! A reader who meets `Batch` in two files of a crate takes both for one. A private type is read beside its definition,
//! so it may share its name. Modules that mirror one another, as the kinds of structures or the scenarios of a campaign
//! do, have types of the same parts; these families are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lexer::word;

/// Names that stand for several types: the crate, and the names.
const FAMILIES: &[(&str, &[&str])] = &[
    // Each scenario, and each model, has calls, answers, a set-up and mishaps.
    (
        "check",
        &[
            "Answer", "Call", "Contents", "Done", "Memory", "Mishap", "Setup",
        ],
    ),
    // The histories of registers are histories of one model.
    ("check", &["History", "Operation"]),
    // `stonecast structures` has commands of the same names as the commands of the KV store.
    ("cli", &["Export", "Import", "Stat", "Verify"]),
    // Each command that prints JSON has a report.
    ("cli", &["Report"]),
    // Each paper has contestants, cases and outcomes; each command has the name of its subject.
    (
        "lab",
        &["Case", "Contestant", "Design", "Figure", "Outcome"],
    ),
    // A directory of files and a device of persistent memory are two backings.
    ("media", &["Lock"]),
    // Each design of a paper has its own messages, tables and segments.
    (
        "published",
        &["Arrival", "Entry", "Kind", "Outcome", "State", "Word"],
    ),
    // A client of one thread, one that can be sent, and a blocking one have the same calls.
    ("stonecast", &["Client", "Entries"]),
    // `stonecast::structures` mirrors the module of the KV store.
    (
        "stonecast",
        &[
            "Builder",
            "Connection",
            "Entry",
            "Error",
            "Server",
            "ServerHandle",
        ],
    ),
    // Each kind of structure has its own traversals and changes.
    (
        "structures",
        &[
            "Change",
            "ChangePlan",
            "Descent",
            "Find",
            "ItemOfKey",
            "Node",
            "PageOf",
            "Path",
            "Walk",
            "Way",
        ],
    ),
    // An answer to an operation, and the wire's answer, which always stands as `wire::Answer` beside it.
    ("structures", &["Answer"]),
];

/// Returns every name that stands for several types of the crate with the name `role`, as `file:1: sentence`, and every
/// exception that the crate no longer needs. `sources` are the files of the crate, with the code of the product in
/// each.
pub fn findings(role: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut defined: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for (file, code) in sources {
        for name in visible_types(code) {
            defined.entry(name).or_default().insert(file);
        }
    }
    defined.retain(|_, files| files.len() > 1);
    let families = FAMILIES.iter().filter(|(of, _)| *of == role);
    let known: BTreeSet<&str> = families.flat_map(|(_, names)| *names).copied().collect();
    let unneeded = known.iter().filter(|name| !defined.contains_key(**name));
    let unneeded = unneeded.map(|name| {
        format!("xtask/src/type_names.rs:1: `{name}` of {role} is an exception, and needs none")
    });
    let shared = defined
        .iter()
        .filter(|(name, _)| !known.contains(name.as_str()));
    let shared = shared.map(|(name, files)| {
        let others: Vec<_> = files.iter().skip(1).map(|file| file.display().to_string()).collect();
        let first = files.first().expect("several files");
        format!(
            "{}:1: `{name}` is also a type in {}; give each the word of docs/glossary.md for its part",
            first.display(),
            others.join(", ")
        )
    });
    shared.chain(unneeded).collect()
}

/// The names of the types in `code` that leave their module.
fn visible_types(code: &str) -> Vec<String> {
    let named = code.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub")?;
        let rest = match rest.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let is_type = matches!(
            words.next()?,
            "struct" | "enum" | "trait" | "type" | "union"
        );
        let name = words.next().filter(|_| is_type)?;
        Some(word(name).to_owned())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::product_code;

    fn found(role: &str, sources: &[(&str, &str)]) -> Vec<String> {
        let sources = sources.iter();
        let sources: Vec<_> = sources
            .map(|(file, source)| (PathBuf::from(file), product_code(source)))
            .collect();
        findings(role, &sources)
    }

    #[test]
    fn a_name_of_two_types_that_leave_their_modules_is_found() {
        let sources = [
            ("a.rs", "pub(in crate::server) struct Batch<'a> {\n}\n"),
            ("b.rs", "pub enum Batch { A }\n"),
        ];
        let found = found("node", &sources);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("a.rs:1: `Batch` is also a type in b.rs"),
            "{found:?}"
        );
    }

    #[test]
    fn a_private_type_and_one_of_a_test_may_share_a_name() {
        let sources = [
            ("a.rs", "pub struct Batch;\n"),
            ("b.rs", "struct Batch;\n"),
            (
                "c.rs",
                "// pub struct Batch;\n#[cfg(test)]\nmod tests {\npub struct Batch;\n}\n",
            ),
            ("d.rs", "pub fn batch() {}\npub use a::Batch;\n"),
        ];
        assert_eq!(found("node", &sources), [""; 0]);
    }

    #[test]
    fn an_exception_without_a_use_is_found() {
        let lock = "pub(super) struct Lock;\n";
        assert_eq!(found("media", &[("a.rs", lock), ("b.rs", lock)]), [""; 0]);
        assert_eq!(found("media", &[("a.rs", lock)]).len(), 1);
    }
}
