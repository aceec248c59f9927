//! The documentation names only files and folders of code that exist, and its links lead to files.
//!
//! A name may leave out the folders at its beginning: `decide.rs` and `pipeline/decide.rs` name the same file. The
//! changelog is exempt, because it tells of releases whose files have moved since.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const CHANGELOG: &str = "CHANGELOG.md";
/// Folders of outputs, which no page names.
const OUTPUTS: &str = "target";

/// Returns every name without a file, and every link without a target, as `page:line: sentence`.
pub fn findings(workspace: &Path) -> Result<Vec<String>> {
    let paths = paths_below(workspace)?;
    let names = names_of(&paths);
    let mut findings = Vec::new();
    let is_page = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| extension == "md")
            && path.as_path() != Path::new(CHANGELOG)
    };
    for page in paths.iter().filter(is_page) {
        let file = workspace.join(page);
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", page.display()))?;
        let folder = file.parent().unwrap_or(workspace);
        for (line, number) in text.lines().zip(1..) {
            let lost = named_in(line).filter(|name| !names.contains(*name));
            let broken = links_in(line).filter(|target| !folder.join(target).exists());
            let page = page.display();
            findings.extend(lost.map(|name| format!("{page}:{number}: there is no `{name}`")));
            findings.extend(
                broken.map(|target| format!("{page}:{number}: no link leads to `{target}`")),
            );
        }
    }
    Ok(findings)
}

/// The files and folders below `workspace`, without hidden ones and outputs, relative to it and in order.
fn paths_below(workspace: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(workspace.join(&folder))
            .with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == OUTPUTS {
                continue;
            }
            let path = folder.join(name);
            if entry.file_type()?.is_dir() {
                folders.push(path.clone());
            }
            paths.insert(path);
        }
    }
    Ok(paths)
}

/// Every path, and every end of a path that begins at one of its folders.
fn names_of(paths: &BTreeSet<PathBuf>) -> BTreeSet<String> {
    let ends = paths.iter().flat_map(|path| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        (0..parts.len())
            .map(|from| parts[from..].join("/"))
            .collect::<Vec<_>>()
    });
    ends.collect()
}

/// The files of code and the paths below `crates` that a line names.
fn named_in(line: &str) -> impl Iterator<Item = &str> {
    let words =
        line.split(|letter: char| !letter.is_ascii_alphanumeric() && !"_./-".contains(letter));
    let names = words.map(|word| {
        let word = word.trim_end_matches(['.', '/']);
        word.trim_start_matches("../")
    });
    names.filter(|name| {
        let is_file = name.ends_with(".rs") && *name != ".rs";
        is_file || name.starts_with("crates/")
    })
}

/// The targets of the links of a line to files.
fn links_in(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> BTreeSet<String> {
        names_of(&paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn a_name_may_begin_at_any_folder_of_a_path() {
        let names = names(&["crates/kv/src/lib.rs"]);
        for name in ["lib.rs", "src/lib.rs", "crates/kv/src/lib.rs"] {
            assert!(names.contains(name), "{name}");
        }
        assert!(!names.contains("b.rs") && !names.contains("kv/lib.rs"));
    }

    #[test]
    fn a_line_names_files_of_code_and_paths_below_crates() {
        let line = "See `a/b.rs`, [c](../crates/c/), `*.rs`, `crates/kv/src/{d,e}.rs` and Rust.";
        let named: Vec<_> = named_in(line).collect();
        assert_eq!(named, ["a/b.rs", "crates/c", "crates/kv/src"]);
    }

    #[test]
    fn a_link_to_another_site_or_into_its_own_page_leads_to_no_file() {
        let line = "[a](a.md#top), [b](https://b), [c](#c) and [d](../d)";
        assert_eq!(links_in(line).collect::<Vec<_>>(), ["a.md", "../d"]);
    }
}
