//! The glossary has one row for a term, or rows that name their contexts in brackets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const PAGE: &str = "docs/glossary.md";

/// Returns every term with several rows of which one names no context of its own.
pub fn findings(workspace: &Path) -> Result<Vec<String>> {
    let page =
        fs::read_to_string(workspace.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    Ok(judge(&page))
}

fn judge(page: &str) -> Vec<String> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let mut contexts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for term in rows.skip(2).flat_map(|terms| terms.split(", ")) {
        let (name, context) = term.split_once(" (").unwrap_or((term, ""));
        contexts
            .entry(name.trim_matches('*'))
            .or_default()
            .push(context);
    }
    let is_doubtful = |contexts: &[&str]| {
        let mut sorted = contexts.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() < contexts.len() || sorted[0].is_empty()
    };
    let several = contexts.iter().filter(|(_, contexts)| contexts.len() > 1);
    several
        .filter(|(_, contexts)| is_doubtful(contexts))
        .map(|(name, contexts)| {
            let count = contexts.len();
            format!(
                "{PAGE}: `{name}` has {count} rows; each needs a context of its own in brackets"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn page(rows: &[&str]) -> String {
        let rows = rows.iter().map(|term| format!("| {term} | meaning | |\n"));
        format!(
            "| term | meaning here | |\n| --- | --- | --- |\n{}",
            rows.collect::<String>()
        )
    }

    #[test]
    fn a_second_row_of_a_term_needs_a_context_in_both() {
        assert_eq!(judge(&page(&["seal", "stamp"])), [""; 0]);
        assert_eq!(judge(&page(&["seal", "seal (of a tenure)"])).len(), 1);
        assert_eq!(
            judge(&page(&["seal (of a tenure)", "seal (of a tenure)"])).len(),
            1
        );
        assert_eq!(
            judge(&page(&["seal (of a segment)", "seal (of a tenure)"])),
            [""; 0]
        );
        assert_eq!(
            judge(&page(&["sequence, version", "version (of a domain)"])).len(),
            1
        );
    }
}
