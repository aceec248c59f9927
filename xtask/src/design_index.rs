//! The index of the design pages names every page by its title, with a status that its legend explains.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: &str = "docs/design";
const INDEX: &str = "README.md";
/// The statuses of the legend.
const STATUSES: &[&str] = &["proposed", "decided", "open", "in force", "superseded"];

/// Returns every page that the index lacks, names differently, or gives a status without a meaning.
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
    let Some(rest) = index.lines().find_map(|line| line.strip_prefix(&row)) else {
        return Some(format!(
            "{FOLDER}/{INDEX}: no row begins with `{row}`, which {FOLDER}/{name} needs"
        ));
    };
    let status = rest.split(" | ").next().unwrap_or_default();
    let is_explained = STATUSES.contains(&status) && index.contains(&format!("\n| {status} | "));
    (!is_explained).then(|| format!("{FOLDER}/{INDEX}: the legend has no status `{status}`"))
}

#[cfg(test)]
mod tests {
    use super::judge;

    const PAGE: &str = "# 0007 The gateway\n\n## Choice\n";

    #[test]
    fn a_page_needs_a_row_with_its_number_name_and_title() {
        let index = "\n| in force | followed |\n| [0007](0007-gateway.md) | The gateway | in force | 2026-11-22 |\n";
        assert_eq!(judge(index, "0007-gateway.md", PAGE), None);
        assert!(judge(index, "0007-other.md", PAGE).is_some());
        assert!(judge("| [0007](0007-gateway.md) | Old |", "0007-gateway.md", PAGE).is_some());
        assert!(judge("", "0007-gateway.md", PAGE).is_some());
    }

    #[test]
    fn a_row_needs_a_status_that_the_legend_explains() {
        let row = "| [0007](0007-gateway.md) | The gateway | in force | 2026-11-22 |\n";
        let fault = judge(row, "0007-gateway.md", PAGE).unwrap();
        assert!(fault.contains("no status `in force`"), "{fault}");
        let index = format!("\n| done | followed |\n{}", row.replace("in force", "done"));
        let fault = judge(&index, "0007-gateway.md", PAGE).unwrap();
        assert!(fault.contains("no status `done`"), "{fault}");
    }
}
