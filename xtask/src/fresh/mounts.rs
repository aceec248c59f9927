//! Mounts, as the kernel lists them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The kernel's list of the mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";

/// The mount points at `folder` or below it.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder =
        fs::canonicalize(folder).with_context(|| format!("looking for {}", folder.display()))?;
    let mut points = all()?;
    points.retain(|point| point.starts_with(&folder));
    Ok(points)
}

/// Returns whether this process runs in a folder of another system: nothing is then mounted at its root.
pub fn is_in_another_system() -> Result<bool> {
    Ok(!all()?.iter().any(|point| point == Path::new("/")))
}

fn all() -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string(MOUNTS).with_context(|| format!("reading {MOUNTS}"))?;
    Ok(points(&text))
}

/// The fifth word of each line, in which a backslash and three octal digits stand for a character that would end the
/// word.
fn points(text: &str) -> Vec<PathBuf> {
    let words = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(4));
    let unescaped = |word: &str| {
        [
            ("\\040", " "),
            ("\\011", "\t"),
            ("\\012", "\n"),
            ("\\134", "\\"),
        ]
        .iter()
        .fold(word.to_owned(), |word, (escaped, plain)| {
            word.replace(escaped, plain)
        })
        .into()
    };
    words.map(unescaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_at_a_folder_and_below_it_are_found() {
        let at_proc = PathBuf::from("/proc");
        assert!(below(Path::new("/")).unwrap().contains(&at_proc));
        assert!(below(Path::new("/proc")).unwrap().contains(&at_proc));
        let folder = tempfile::tempdir().unwrap();
        assert!(below(folder.path()).unwrap().is_empty());
    }

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let text = "24 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw\n\
                    25 24 0:5 / /mnt/two\\040words rw - tmpfs tmpfs rw\n";
        assert_eq!(
            points(text),
            [PathBuf::from("/"), PathBuf::from("/mnt/two words")]
        );
    }
}
