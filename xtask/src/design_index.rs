//! The index of the design pages names every page by its title.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: &str = "docs/design";
const INDEX: &str = "README.md";

/// Returns every page that the index lacks or names differently.
pub fn findings(workspace: &Path) -> Result<Vec<String>> {
    let folder = workspace.join(FOLDER);
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).with_context(|| format!("reading {FOLDER}/{name}"))
    };
    let index = read(INDEX)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {FOLDER}"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut findings = Vec::new();
    for name in names.iter().filter(|name| *name != INDEX) {
        let page = read(name)?;
        findings.extend(judge(&index, name, &page));
    }
    Ok(findings)
}

/// The fault of the index's row of a page, if there is one.
fn judge(index: &str, name: &str, page: &str) -> Option<String> {
    let heading = page.lines().next().unwrap_or_default();
    let (number, title) = heading.strip_prefix("# ")?.split_once(' ')?;
    let row = format!("| [{number}]({name}) | {title} | ");
    (!index.contains(&row)).then(|| {
        format!("{FOLDER}/{INDEX}: no row begins with `{row}`, which {FOLDER}/{name} needs")
    })
}

#[cfg(test)]
mod tests {
    use super::judge;

    const PAGE: &str = "# 0007 The gateway\n\n## Choice\n";

    #[test]
    fn a_page_needs_a_row_with_its_number_name_and_title() {
        let index = "| [0007](0007-gateway.md) | The gateway | in force | 2026-11-22 |\n";
        assert_eq!(judge(index, "0007-gateway.md", PAGE), None);
        assert!(judge(index, "0007-other.md", PAGE).is_some());
        assert!(judge("| [0007](0007-gateway.md) | Old |", "0007-gateway.md", PAGE).is_some());
        assert!(judge("", "0007-gateway.md", PAGE).is_some());
    }
}
