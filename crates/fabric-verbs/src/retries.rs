//! The time that a requester waits for a receive buffer, in the terms of the hardware.
//!
//! ```text
//!   options of a queue pair     n retries, each after d nanoseconds        wait = n x d
//!   hardware, requester         rnr_retry: 0 to 6 retries (7 means forever, and is never used)
//!   hardware, responder         min_rnr_timer: one of 32 pauses, told to the requester in each RNR NAK
//! ```
//!
//! The requester sends its wait to the responder when they connect; both compute the same pair from it: the full number
//! of hardware retries, with the shortest pause that covers the wait.

/// The most retries that the hardware counts; the next number means "forever".
const HARDWARE_RETRIES_MAX: u8 = 6;

/// The pauses of the InfiniBand specification (volume 1, table "Encoding for RNR NAK Timer Field"), in units of 10
/// microseconds, with their codes, shortest first.
const PAUSES: [(u32, u8); 32] = [
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (6, 5),
    (8, 6),
    (12, 7),
    (16, 8),
    (24, 9),
    (32, 10),
    (48, 11),
    (64, 12),
    (96, 13),
    (128, 14),
    (192, 15),
    (256, 16),
    (384, 17),
    (512, 18),
    (768, 19),
    (1024, 20),
    (1536, 21),
    (2048, 22),
    (3072, 23),
    (4096, 24),
    (6144, 25),
    (8192, 26),
    (12_288, 27),
    (16_384, 28),
    (24_576, 29),
    (32_768, 30),
    (49_152, 31),
    (65_536, 0),
];
/// Nanoseconds of a unit.
const UNIT_NS: u64 = 10_000;

/// The values that both sides set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiverNotReady {
    /// `rnr_retry` of the requester, 0 to 6.
    pub retry_count: u8,
    /// `min_rnr_timer` of the responder.
    pub timer_code: u8,
}

impl ReceiverNotReady {
    /// The hardware's terms for `count` retries after `delay_ns` each. They wait at least that long, up to the
    /// hardware's limit of 3.9 seconds.
    pub fn new(count: u32, delay_ns: u64) -> Self {
        let retry_count = u8::try_from(count)
            .unwrap_or(u8::MAX)
            .min(HARDWARE_RETRIES_MAX);
        let wait = delay_ns.saturating_mul(count.into());
        let pause = wait
            .div_ceil(u64::from(retry_count).max(1))
            .div_ceil(UNIT_NS);
        let (_, timer_code) = *PAUSES
            .iter()
            .find(|(units, _)| u64::from(*units) >= pause)
            .unwrap_or(&PAUSES[PAUSES.len() - 1]);
        Self {
            retry_count,
            timer_code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_ns(terms: ReceiverNotReady) -> u64 {
        let (units, _) = PAUSES
            .iter()
            .find(|(_, code)| *code == terms.timer_code)
            .expect("every code is in the table");
        u64::from(*units) * UNIT_NS * u64::from(terms.retry_count)
    }

    #[test]
    fn the_hardware_waits_at_least_as_long_as_asked() {
        for (count, delay_ns) in [
            (1, 1),
            (3, 2_000_000),
            (6, 1_000_000),
            (7, 1_000_000),
            (100, 1_000_000),
            (1_000, 1_000_000),
        ] {
            let terms = ReceiverNotReady::new(count, delay_ns);
            assert!(
                wait_ns(terms) >= u64::from(count) * delay_ns,
                "{count} x {delay_ns} ns: {terms:?}"
            );
            assert!(
                wait_ns(terms) <= 3 * u64::from(count) * delay_ns.max(UNIT_NS),
                "{count} x {delay_ns} ns: {terms:?}"
            );
        }
    }

    #[test]
    fn no_wait_is_endless() {
        for count in [0, 1, 6, 7, 8, 255, 256, u32::MAX] {
            assert!(ReceiverNotReady::new(count, u64::MAX).retry_count <= 6);
        }
        assert_eq!(ReceiverNotReady::new(0, 1_000).retry_count, 0);
    }

    #[test]
    fn every_code_is_in_the_table_once_and_pauses_grow() {
        let mut codes: Vec<u8> = PAUSES.iter().map(|(_, code)| *code).collect();
        codes.sort_unstable();
        assert!(codes.into_iter().eq(0..32));
        assert!(PAUSES.is_sorted_by(|(shorter, _), (longer, _)| shorter < longer));
    }
}
