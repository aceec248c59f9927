//! Measures the speed of a segment scan, including all checks: `cargo bench -p stonecast-log`.

use std::time::Instant;

use stonecast_log::{
    Condition, Draft, Form, Found, Kind, LogFormat, ScanPolicy, Secret, SegmentState,
    SegmentVerdict, Stamp, UNIT_SIZE, Visitor, check, scan_segment,
};
use stonecast_media::Region as _;

#[path = "../tests/it/facts.rs"]
mod facts;
#[path = "../tests/it/memory.rs"]
mod memory;

use facts::format;
use memory::Memory;

struct Count(u64);

impl Visitor for Count {
    fn records(&mut self, batch: &[Found<'_>]) {
        self.0 += batch.len() as u64;
    }
}

fn main() {
    let format = format(4 << 20, 32);
    println!(
        "{:>10} {:>10} {:>8} {:>12}",
        "value size", "record", "GB/s", "ns/record"
    );
    for value_size in [40, 100, 1000, 10_000, 1 << 20] {
        let log = filled(&format, value_size);
        let mut best = f64::MAX;
        let mut count = Count(0);
        for _ in 0..5 {
            count = Count(0);
            let start = Instant::now();
            for number in 0..format.segment_count {
                let verdict = scan_segment(
                    &log,
                    &format,
                    "log",
                    number,
                    None,
                    ScanPolicy::default(),
                    &mut count,
                );
                assert!(matches!(verdict, Ok(SegmentVerdict::Used(..))));
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        let bytes = format.segment_size as f64 * f64::from(format.segment_count);
        let record = stonecast_log::record_size(20, value_size);
        println!(
            "{value_size:>10} {record:>10} {:>8.2} {:>12.1}",
            bytes / best / 1e9,
            best * 1e9 / count.0 as f64
        );
    }
    println!(
        "{:>10} {:>10} {:>8} {:>12.1}",
        100,
        "check",
        "",
        check_ns(&format)
    );
}

/// Fills every segment with records, as a server would leave them.
fn filled(format: &LogFormat, value_size: usize) -> Memory {
    let log = Memory::steady(format.segment_size * u64::from(format.segment_count));
    let value = vec![7; value_size];
    let (mut sequence, mut record) = (0, Vec::new());
    for number in 0..format.segment_count {
        let mut state = SegmentState::fresh(number, 1);
        state.write_header(&log, format);
        let size = stonecast_log::record_size(20, value_size);
        while u64::from(state.end) * UNIT_SIZE + size <= format.segment_size {
            sequence += 1;
            let key = format!("key{sequence:017}");
            let position = format.position(number, state.end);
            let draft = Draft {
                kind: Kind::Put,
                form: Form::Whole,
                condition: Condition::None,
                token: 0,
                expires: None,
                key: key.as_bytes(),
                value: &value,
            };
            let tag = draft.encode(format, position, 1, 1, &mut record);
            log.write(position, &record);
            let stamp = Stamp {
                sequence,
                previous: state.last,
                durable: state.durable,
                opening: 1,
            };
            let commit_tag = stamp.write(&log, format, position, 1, tag, size);
            state.note_stamped(state.end, (size / UNIT_SIZE) as u32, commit_tag);
        }
        state.note_durable();
        state.seal(&log, format);
    }
    log
}

/// Measures the cost of the check of a cached record for a reader.
fn check_ns(format: &LogFormat) -> f64 {
    let draft = Draft {
        kind: Kind::Put,
        form: Form::Whole,
        condition: Condition::None,
        token: 0,
        expires: None,
        key: &[1; 20],
        value: &[2; 100],
    };
    let mut record = Vec::new();
    draft.encode(format, 256, 1, 1, &mut record);
    let rounds = 5_000_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let record = std::hint::black_box(&record);
        assert!(check(format, 256, (1, 1), record).is_ok());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}
