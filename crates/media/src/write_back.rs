//! Writes cache lines back to memory: the instructions, the choice for this processor, and their order.
//!
//! Invariants:
//! - Every line that holds a byte of a span is written back, then one fence follows. Without the fence `clwb` and
//!   `clflushopt` have only started, and a power cut may still find the line in the cache.
//! - No line is written back twice in a row: records of one batch lie side by side and share lines with their stamps,
//!   and a hot line costs most to write back.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};

use stonecast_base::{LINE_SIZE, Span};

/// The instructions that make stores persistent. Tests record them instead.
pub(crate) trait Instructions {
    /// Starts writing the line at `line` back to memory.
    fn write_back_line(&self, line: *const u8);
    /// Waits until all lines before it are in the persistence domain.
    fn fence(&self);
}

/// Writes back each line that `spans` touch, in memory from `start`, which is aligned to lines; then fences. Returns
/// the number of lines.
pub(crate) fn write_back(
    instructions: &impl Instructions,
    start: *const u8,
    spans: &[Span],
) -> u64 {
    let mut count = 0;
    let mut last = None;
    for span in spans.iter().filter(|span| span.size > 0) {
        let lines = span.widen(LINE_SIZE as u64);
        for offset in (lines.offset..lines.offset + lines.size).step_by(LINE_SIZE) {
            if last != Some(offset) {
                instructions.write_back_line(start.wrapping_add(offset as usize));
                count += 1;
            }
            last = Some(offset);
        }
    }
    instructions.fence();
    count
}

/// The instruction that writes one line back, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineInstruction {
    /// Keeps the line in the cache.
    Clwb,
    /// Drops the line from the cache; several write-backs may be under way.
    ClflushOpt,
    /// Drops the line from the cache; one write-back at a time.
    Clflush,
}

/// This processor's instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor {
    line: LineInstruction,
}

impl Processor {
    /// Detects this processor's instructions; `None` if the processor cannot write lines back.
    pub fn detect() -> Option<Self> {
        let highest = __cpuid(0).eax;
        // Leaf 7 does not exist everywhere; a processor without it returns the data of another leaf.
        let structured = if highest >= 7 {
            __cpuid_count(7, 0).ebx
        } else {
            0
        };
        Self::from_cpuid(__cpuid(1).edx, structured)
    }

    /// `features`: EDX of leaf 1, `structured`: EBX of leaf 7 (Intel SDM volume 2, CPUID).
    fn from_cpuid(features: u32, structured: u32) -> Option<Self> {
        let line = if structured & (1 << 24) != 0 {
            LineInstruction::Clwb
        } else if structured & (1 << 23) != 0 {
            LineInstruction::ClflushOpt
        } else if features & (1 << 19) != 0 {
            LineInstruction::Clflush
        } else {
            return None;
        };
        Some(Self { line })
    }
}

impl Instructions for Processor {
    #[inline]
    fn write_back_line(&self, line: *const u8) {
        match self.line {
            // SAFETY: CPUID reports that the instruction exists. It changes no byte of memory and no register; the
            // callers of `write_back` ensure that the address is in a mapping.
            LineInstruction::Clwb => unsafe {
                asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
            },
            // SAFETY: as above.
            LineInstruction::ClflushOpt => unsafe {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags))
            },
            // SAFETY: as above.
            LineInstruction::Clflush => unsafe {
                asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags))
            },
        }
    }

    #[inline]
    fn fence(&self) {
        store_fence();
    }
}

/// Waits until every earlier store and write-back is in the persistence domain or, where caches belong to that domain,
/// in a cache.
#[inline]
pub(crate) fn store_fence() {
    // SAFETY: the instruction belongs to SSE, which every x86-64 processor has.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The executed instructions, with addresses as numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Executed {
        WriteBack(usize),
        Fence,
    }

    #[derive(Default)]
    struct Recorder(RefCell<Vec<Executed>>);

    impl Instructions for Recorder {
        fn write_back_line(&self, line: *const u8) {
            self.0.borrow_mut().push(Executed::WriteBack(line.addr()));
        }
        fn fence(&self) {
            self.0.borrow_mut().push(Executed::Fence);
        }
    }

    fn recorded(spans: &[Span]) -> Vec<Executed> {
        let recorder = Recorder::default();
        write_back(&recorder, std::ptr::without_provenance(4096), spans);
        recorder.0.into_inner()
    }

    /// Needs the widening to lines: without it, the last line of a span that starts inside a line is forgotten.
    #[test]
    fn every_line_that_a_span_touches_is_written_back_before_the_fence() {
        use Executed::{Fence, WriteBack};
        assert_eq!(recorded(&[Span::new(0, 64)]), [WriteBack(4096), Fence]);
        assert_eq!(
            recorded(&[Span::new(63, 2)]),
            [WriteBack(4096), WriteBack(4160), Fence]
        );
        assert_eq!(
            recorded(&[Span::new(100, 100)]),
            [WriteBack(4160), WriteBack(4224), WriteBack(4288), Fence]
        );
        assert_eq!(
            recorded(&[Span::new(640, 1), Span::new(64, 1)]),
            [WriteBack(4736), WriteBack(4160), Fence]
        );
    }

    #[test]
    fn neighbours_share_a_line_and_empty_spans_have_none() {
        use Executed::{Fence, WriteBack};
        assert_eq!(
            recorded(&[Span::new(0, 8), Span::new(8, 8), Span::new(16, 0)]),
            [WriteBack(4096), Fence]
        );
        assert_eq!(recorded(&[]), [Fence]);
    }

    #[test]
    fn the_best_available_instruction_is_chosen() {
        let line = |features, structured| {
            Processor::from_cpuid(features, structured).map(|processor| processor.line)
        };
        assert_eq!(
            line(1 << 19, (1 << 24) | (1 << 23)),
            Some(LineInstruction::Clwb)
        );
        assert_eq!(line(1 << 19, 1 << 23), Some(LineInstruction::ClflushOpt));
        assert_eq!(line(1 << 19, 0), Some(LineInstruction::Clflush));
        assert_eq!(line(0, 0), None);
    }

    /// The instructions of this processor run and change nothing. No program can observe whether they reach memory.
    #[test]
    fn writing_back_changes_no_byte() {
        let words = [0x1122_3344_5566_7788_u64; 64];
        let best = Processor::detect().expect("every x86-64 processor has clflush");
        let span = [Span::new(0, 512)];
        write_back(&best, words.as_ptr().cast(), &span);
        write_back(
            &Processor {
                line: LineInstruction::Clflush,
            },
            words.as_ptr().cast(),
            &span,
        );
        assert_eq!(words, [0x1122_3344_5566_7788; 64]);
    }
}
