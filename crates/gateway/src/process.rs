//! Memory of this process, as the kernel counts it.

use std::fs;

/// Bytes of this process in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Private memory: allocations and stacks. Mapped files, including the pool, are not part of it.
    pub private: u64,
    /// All memory, mapped files included.
    pub resident: u64,
}

impl ProcessMemory {
    /// Reads the current sizes; zeros if the kernel does not report them.
    pub fn now() -> Self {
        fs::read_to_string("/proc/self/status").map_or_else(|_| Self::default(), |it| Self::of(&it))
    }

    fn of(status: &str) -> Self {
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            kib.map_or(0, |kib| kib << 10)
        };
        Self {
            private: bytes("RssAnon:"),
            resident: bytes("VmRSS:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t    300 kB\nRssAnon:\t     100 kB\nRssFile:\t     200 kB\n";
        let memory = ProcessMemory::of(status);
        assert_eq!((memory.private, memory.resident), (100 << 10, 300 << 10));
        assert_eq!(ProcessMemory::of(""), ProcessMemory::default());
    }

    #[test]
    fn allocated_memory_shows() {
        let before = ProcessMemory::now();
        assert!(0 < before.private && before.private <= before.resident);
        let block = vec![1_u8; 64 << 20];
        let after = ProcessMemory::now();
        assert!(
            after.private >= before.private + (32 << 20),
            "{before:?}, {after:?}"
        );
        assert_eq!(block.len(), 64 << 20);
    }
}
