//! The memory of a server beside its pool.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Resident bytes of process `pid` outside the pool in `pool`: outside its files and outside the index, which is the
/// largest piece of shared memory that the server made, since it holds a word for each key.
pub(super) fn beside_the_pool(pid: u32, pool: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let resident = resident_by_file(&text);
    // The kernel shows a pool in memory under the name with which it was opened.
    let pool = pool.canonicalize()?;
    let outside = resident
        .iter()
        .filter(|((path, _), _)| !Path::new(path).starts_with(&pool));
    let index = outside
        .clone()
        .filter(|((path, _), _)| path.starts_with(SHARED_MEMORY))
        .map(|(_, &bytes)| bytes)
        .max();
    Ok(outside.map(|(_, bytes)| bytes).sum::<u64>() - index.unwrap_or(0))
}

const SHARED_MEMORY: &str = "/memfd:";

/// Resident bytes by path and inode: memory files may share a name, and a file may be mapped in pieces.
fn resident_by_file(smaps: &str) -> BTreeMap<(String, String), u64> {
    let mut resident = BTreeMap::new();
    let mut file = (String::new(), String::new());
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "Rss:" {
            let kilobytes: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            *resident.entry(file.clone()).or_insert(0) += kilobytes * 1024;
        } else if !first.ends_with(':') {
            // The words of a line: start-end, rights, offset, device, inode, path.
            let inode = words.nth(3).unwrap_or_default().to_owned();
            file = (words.collect::<Vec<_>>().join(" "), inode);
        }
    }
    resident
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f00-7f10 rw-s 00000000 fe:00 77 /dev/shm/x/pool/log
Size:               1024 kB
Rss:                 512 kB
7f10-7f20 rw-s 00001000 fe:00 77 /dev/shm/x/pool/log
Rss:                   8 kB
VmFlags: rd wr sh
7f20-7f30 rw-s 00000000 00:01 5 /memfd:stonecast-memory (deleted)
Rss:                 100 kB
7f30-7f40 rw-s 00000000 00:01 6 /memfd:stonecast-memory (deleted)
Rss:                   4 kB
7f40-7f50 rw-p 00000000 00:00 0 [heap]
Rss:                  20 kB
7f50-7f60 rw-p 00000000 00:00 0
Rss:                   3 kB
";

    #[test]
    fn resident_memory_is_added_up_by_file() {
        let resident = resident_by_file(SMAPS);
        let of = |path: &str, inode: &str| resident[&(path.to_owned(), inode.to_owned())] / 1024;
        assert_eq!(of("/dev/shm/x/pool/log", "77"), 520);
        assert_eq!(of("/memfd:stonecast-memory (deleted)", "5"), 100);
        assert_eq!(of("/memfd:stonecast-memory (deleted)", "6"), 4);
        assert_eq!(of("[heap]", "0"), 20);
        assert_eq!(of("", "0"), 3);
    }

    #[test]
    fn a_process_holds_more_than_nothing_beside_a_pool_that_it_does_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = beside_the_pool(std::process::id(), folder.path()).unwrap();
        assert!((1 << 16..1 << 40).contains(&bytes), "{bytes}");
    }
}
