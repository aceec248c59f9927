//! No space is lost: every segment is free, in use or full, and the writes account for the bytes in use.

use crate::violation::Violation;

/// A store's report of its space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Number of segments.
    pub segments: u64,
    /// Numbers of free, partly used and not leased, leased, and full segments.
    pub counts: [u64; 4],
    /// Number of keys, by the store's count.
    pub keys: u64,
    /// Bytes of their records, by the store's count.
    pub live_bytes: u64,
    /// Bytes below the ends of its segments.
    pub used_bytes: u64,
    /// Bytes of the log.
    pub capacity: u64,
}

const ORACLE: &str = "no space is lost";

/// Judges a store without clients. `keys` and `live_bytes` are counted independently.
pub fn judge(space: &Space, keys: u64, live_bytes: u64) -> Option<Violation> {
    if let Some(violation) = judge_segments(space.segments, space.counts) {
        return Some(violation);
    }
    let [_, _, taken, _] = space.counts;
    let found = if taken != 0 {
        format!("{taken} segments belong to no existing client")
    } else if space.keys != keys {
        format!("{} keys are counted where there are {keys}", space.keys)
    } else if space.live_bytes != live_bytes {
        format!(
            "{} live bytes are counted where there are {live_bytes}",
            space.live_bytes
        )
    } else if space.used_bytes < live_bytes || space.used_bytes > space.capacity {
        format!(
            "{} bytes are used for {live_bytes} live ones in {}",
            space.used_bytes, space.capacity
        )
    } else {
        return None;
    };
    Some(Violation::new(ORACLE, found))
}

/// Judges a store's counts of its `segments`, even while it serves.
pub fn judge_segments(segments: u64, counts: [u64; 4]) -> Option<Violation> {
    let is_whole = counts.iter().sum::<u64>() == segments;
    (!is_whole).then(|| {
        Violation::new(
            ORACLE,
            format!(
                "{segments} segments are counted as {}",
                counts.map(|count| count.to_string()).join(" + ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_or_a_byte_that_is_not_accounted_for_is_found() {
        let good = Space {
            segments: 4,
            counts: [1, 2, 0, 1],
            keys: 3,
            live_bytes: 300,
            used_bytes: 600,
            capacity: 4000,
        };
        assert_eq!(judge(&good, 3, 300), None);
        for bad in [
            Space {
                counts: [1, 1, 0, 1],
                ..good
            },
            Space {
                counts: [1, 1, 1, 1],
                ..good
            },
            Space { keys: 4, ..good },
            Space {
                live_bytes: 299,
                ..good
            },
            Space {
                used_bytes: 200,
                ..good
            },
        ] {
            assert!(judge(&bad, 3, 300).is_some(), "{bad:?}");
        }
    }
}
