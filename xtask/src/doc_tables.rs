//! Tables of the documentation that are printed from facts, so that they cannot go stale.
//!
//! `docs/dependencies.md` holds one row for each crate that the workspace names: `crate | licence |
//! used by | why | rather than`. The first three columns are facts of `Cargo.toml` and are printed;
//! the last two are judgements, kept by the name of the crate. A crate without a judgement is a
//! finding, and so is a row for a crate that no `Cargo.toml` names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};

use crate::layers::role;
use crate::metadata::Metadata;

const PAGE: &str = "docs/dependencies.md";
const START: &str = "<!-- printed by `cargo xtask doc-tables --write` -->";
const END: &str = "<!-- end of the printed table -->";
const HEADINGS: &str =
    "| crate | licence | used by | why | rather than |\n| --- | --- | --- | --- | --- |\n";

/// The facts about one crate.
struct Facts {
    licence: String,
    users: BTreeSet<String>,
}

/// Compares the table with the facts, or writes it. Returns the findings.
pub fn run(write: bool) -> Result<Vec<String>> {
    let metadata = Metadata::of_everything()?;
    let path = metadata.workspace_root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
    let (before, table, after) = split(&page)?;
    let judgements = judgements(table);
    let facts = facts(&metadata);
    let printed = print(&facts, &judgements);

    let mut findings: Vec<String> = facts
        .keys()
        .filter(|name| {
            judgements
                .get(*name)
                .is_none_or(|(why, rather)| why.is_empty() || rather.is_empty())
        })
        .map(|name| {
            format!("{PAGE}: {name} has no row that says why it is used and what was rejected")
        })
        .collect();
    if write {
        fs::write(&path, format!("{before}{START}\n{printed}{END}{after}"))
            .with_context(|| format!("writing {PAGE}"))?;
    } else if table != printed {
        findings.push(format!(
            "{PAGE}: the table differs from Cargo.toml; run `cargo xtask doc-tables --write`"
        ));
    }
    Ok(findings)
}

fn split(page: &str) -> Result<(&str, &str, &str)> {
    let parts = page.split_once(START).and_then(|(before, rest)| {
        rest.split_once(END)
            .map(|(table, after)| (before, table, after))
    });
    match parts {
        Some((before, table, after)) => Ok((before, table.trim_start_matches('\n'), after)),
        None => bail!("{PAGE} has no table between `{START}` and `{END}`"),
    }
}

/// `(why, rather than)` of each crate in a table.
fn judgements(table: &str) -> BTreeMap<String, (String, String)> {
    let row = |line: &str| {
        let mut cells = line
            .trim()
            .strip_prefix('|')?
            .strip_suffix('|')?
            .split('|')
            .map(str::trim);
        let name = cells.next()?.trim_matches('`').to_owned();
        let why = cells.nth(2)?.to_owned();
        Some((name, (why, cells.next()?.to_owned())))
    };
    table.lines().skip(2).filter_map(row).collect()
}

/// The facts in `Cargo.toml` files about each external crate.
fn facts(metadata: &Metadata) -> BTreeMap<String, Facts> {
    let mut facts = BTreeMap::<String, Facts>::new();
    for package in metadata
        .packages
        .iter()
        .filter(|package| package.source.is_none())
    {
        let user = role(&package.name).unwrap_or(&package.name);
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_none())
        {
            let found = metadata
                .packages
                .iter()
                .filter(|package| package.name == dependency.name && package.source.is_some());
            let licence = found
                .max_by_key(|package| version(&package.version))
                .and_then(|package| package.license.clone());
            let entry = facts
                .entry(dependency.name.clone())
                .or_insert_with(|| Facts {
                    licence: licence.unwrap_or_else(|| "not stated".into()),
                    users: BTreeSet::new(),
                });
            let tests_only = if dependency.kind.as_deref() == Some("dev") {
                " (tests)"
            } else {
                ""
            };
            entry.users.insert(format!("{user}{tests_only}"));
        }
    }
    for entry in facts.values_mut() {
        let whole = entry.users.clone();
        entry.users.retain(|user| {
            user.strip_suffix(" (tests)")
                .is_none_or(|user| !whole.contains(user))
        });
    }
    facts
}

fn version(text: &str) -> Vec<u64> {
    text.split(['.', '-', '+'])
        .map_while(|part| part.parse().ok())
        .collect()
}

fn print(
    facts: &BTreeMap<String, Facts>,
    judgements: &BTreeMap<String, (String, String)>,
) -> String {
    let row = |(name, facts): (&String, &Facts)| {
        let users = facts.users.iter().cloned().collect::<Vec<_>>().join(", ");
        let (why, rather) = judgements.get(name).cloned().unwrap_or_default();
        format!(
            "| `{name}` | {} | {users} | {why} | {rather} |\n",
            facts.licence
        )
    };
    HEADINGS
        .chars()
        .chain(facts.iter().map(row).collect::<String>().chars())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgements_survive_printing_and_rows_without_a_crate_are_removed() {
        let table = format!(
            "{HEADINGS}| `old` | MIT | cli | x | y |\n| `clap` | ? | ? | parses | by hand |\n"
        );
        let users = BTreeSet::from(["cli".to_owned()]);
        let facts = BTreeMap::from([(
            "clap".to_owned(),
            Facts {
                licence: "MIT".into(),
                users,
            },
        )]);
        let printed = print(&facts, &judgements(&table));
        assert_eq!(
            printed,
            format!("{HEADINGS}| `clap` | MIT | cli | parses | by hand |\n")
        );
    }

    #[test]
    fn a_page_without_the_marks_is_refused() {
        assert!(split("no table here").is_err());
        assert_eq!(
            split(&format!("a{START}\nb{END}c")).unwrap(),
            ("a", "b", "c")
        );
    }
}
