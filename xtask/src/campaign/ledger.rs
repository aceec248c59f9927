//! The parts of a campaign that are done, each as one line of JSON. Each commit has a file of its own below `target`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::orders::Part;
use crate::sim::Total;

/// A part of an order that was run to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub order: String,
    pub part: u64,
    pub of: u64,
    pub percent: f64,
    pub seconds: f64,
    /// Whether no seed broke a promise, or every seeded bug was found.
    pub holds: bool,
    pub total: Total,
}

/// The finished parts of a campaign.
pub struct Ledger {
    /// `None` if the checkout was changed since its commit: then no earlier part counts.
    path: Option<PathBuf>,
    done: Vec<Done>,
}

impl Ledger {
    /// Reads the parts that are done at `commit`. A changed checkout starts without parts, and its parts are not kept.
    pub fn open(target: &Path, commit: &str, is_clean: bool) -> Result<Self> {
        let path = is_clean.then(|| target.join("campaign").join(format!("{commit}.jsonl")));
        let text = match &path {
            Some(path) if path.exists() => {
                fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?
            }
            _ => String::new(),
        };
        let done = text.lines().map(|line| {
            serde_json::from_str(line).with_context(|| format!("a part of a campaign: {line}"))
        });
        Ok(Self {
            done: done.collect::<Result<_>>()?,
            path,
        })
    }

    /// Returns the parts of `order` that are done, in the campaign of `percent` percent in `of` parts.
    pub fn parts<'a>(
        &'a self,
        order: &'a str,
        percent: f64,
        of: u64,
    ) -> impl Iterator<Item = &'a Done> {
        self.done
            .iter()
            .filter(move |done| (&*done.order, done.percent, done.of) == (order, percent, of))
    }

    /// Returns whether `part` of `order` is done.
    pub fn has(&self, order: &str, percent: f64, part: Part) -> bool {
        let mut parts = self.parts(order, percent, part.of);
        parts.any(|done| done.part == part.number)
    }

    /// Notes that a part is done.
    pub fn note(&mut self, done: Done) -> Result<()> {
        if let Some(path) = &self.path {
            let line = serde_json::to_string(&done)?;
            let folder = path.parent().context("a ledger has a folder")?;
            fs::create_dir_all(folder)?;
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            writeln!(file, "{line}").with_context(|| format!("writing {}", path.display()))?;
        }
        self.done.push(done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(order: &str, part: u64) -> Done {
        Done {
            order: order.to_owned(),
            part,
            of: 4,
            percent: 100.0,
            seconds: 1.5,
            holds: true,
            total: Total::default(),
        }
    }

    #[test]
    fn a_part_that_is_done_is_found_again_at_the_same_commit_and_at_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let open = |commit| Ledger::open(folder.path(), commit, true).unwrap();
        let mut ledger = open("abc");
        ledger.note(done("kv", 2)).unwrap();
        ledger.note(done("kv", 3)).unwrap();
        let part = |number| Part { number, of: 4 };
        let again = open("abc");
        assert!(again.has("kv", 100.0, part(2)) && again.has("kv", 100.0, part(3)));
        assert!(!again.has("kv", 100.0, part(1)), "another part");
        assert!(!again.has("copies", 100.0, part(2)), "another order");
        assert!(!again.has("kv", 1.0, part(2)), "another campaign");
        assert!(!again.has("kv", 100.0, Part { number: 2, of: 8 }));
        assert!(!open("abd").has("kv", 100.0, part(2)), "another commit");
        assert_eq!(again.parts("kv", 100.0, 4).count(), 2);
    }

    #[test]
    fn nothing_that_was_done_counts_where_the_checkout_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Ledger::open(folder.path(), "abc", false).unwrap();
        let mut ledger = open();
        ledger.note(done("kv", 2)).unwrap();
        let part = Part { number: 2, of: 4 };
        assert!(ledger.has("kv", 100.0, part));
        assert!(!open().has("kv", 100.0, part));
    }
}
