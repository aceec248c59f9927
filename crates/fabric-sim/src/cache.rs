//! The cost of a core's memory accesses: a table of recently accessed lines, large enough to tell a hot line from a
//! cold one. The table decides only times, never contents.

use std::ops::RangeInclusive;

use stonecast_base::LINE_SIZE;

/// The latencies of accesses to a piece of memory, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    /// A line that the core's cache has.
    pub hit_ps: u64,
    /// The first line of an access that the cache does not have.
    pub miss_ps: u64,
    /// Each further line of the same access: the hardware prefetches.
    pub stream_ps: u64,
}

/// Entries of the table: 32 KiB of lines, a level-1 cache.
const LINES: usize = 512;
/// Accesses longer than this are streams: they evict everything else and do not use the table.
const LONG: usize = LINES / 4 * LINE_SIZE;

pub(crate) struct Cache {
    lines: Box<[u64; LINES]>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            lines: Box::new([u64::MAX; LINES]),
        }
    }
}

impl Cache {
    /// The duration of an access, in picoseconds.
    #[inline]
    pub fn access(&mut self, space: u32, offset: u64, size: usize, latencies: &Latencies) -> u64 {
        if size == 0 {
            return 0;
        }
        let (first, last) = (
            offset / LINE_SIZE as u64,
            (offset + size as u64 - 1) / LINE_SIZE as u64,
        );
        // Most accesses are words.
        if first == last {
            return if self.touch(space, first) {
                latencies.hit_ps
            } else {
                latencies.miss_ps
            };
        }
        if size > LONG {
            return latencies.miss_ps + (last - first) * latencies.stream_ps;
        }
        self.access_lines(space, first..=last, latencies)
    }

    fn access_lines(
        &mut self,
        space: u32,
        lines: RangeInclusive<u64>,
        latencies: &Latencies,
    ) -> u64 {
        let mut cost = 0;
        let mut missed = false;
        for line in lines {
            cost += if self.touch(space, line) {
                latencies.hit_ps
            } else if missed {
                latencies.stream_ps
            } else {
                missed = true;
                latencies.miss_ps
            };
        }
        cost
    }

    /// Puts `line` into the table; returns whether it was there.
    #[inline]
    fn touch(&mut self, space: u32, line: u64) -> bool {
        let tag = u64::from(space) << 40 | line;
        // Neighbouring lines and the same lines of different memories map to different entries.
        let entry = (line as usize ^ (space as usize).wrapping_mul(0x9e37)) % LINES;
        std::mem::replace(&mut self.lines[entry], tag) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_access_costs_a_miss_and_a_second_one_hits() {
        let latencies = Latencies {
            hit_ps: 1,
            miss_ps: 100,
            stream_ps: 10,
        };
        let mut cache = Cache::default();
        assert_eq!(
            cache.access(1, 60, 8, &latencies),
            110,
            "two lines, the second streams"
        );
        assert_eq!(cache.access(1, 0, 128, &latencies), 2);
        assert_eq!(cache.access(2, 0, 8, &latencies), 100, "other memory");
        assert_eq!(cache.access(1, 0, 0, &latencies), 0);
        assert_eq!(cache.access(1, 0, 1 << 20, &latencies), 100 + 16_383 * 10);
    }
}
