//! The processor, as the kernel shows it.

use serde::Serialize;

use crate::doctor::root::{Fact, Root};

/// The processor and the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Processor {
    /// The model name that the maker gave the processor.
    pub model: Option<String>,
    /// The instructions that write a cache line back, best first.
    pub write_back: Vec<&'static str>,
    /// The kernel's version.
    pub kernel: Fact,
}

const WRITE_BACK: [&str; 3] = ["clwb", "clflushopt", "clflush"];

/// The processor.
pub fn processor(root: &Root) -> Processor {
    let text = root.fact("proc/cpuinfo");
    let field = |name: &str| {
        let mut lines = text
            .said()
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.split_once(':'));
        lines
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let flags = field("flags").unwrap_or_default();
    let has = |instruction: &&str| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == *instruction)
    };
    Processor {
        model: field("model name"),
        write_back: WRITE_BACK.iter().copied().filter(has).collect(),
        kernel: root.fact("proc/sys/kernel/osrelease"),
    }
}
