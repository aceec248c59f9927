//! The bytes of the format: any change of them is a change of every pool.

use rand::RngExt as _;
use stonecast_base::{hash, random_from_seed};
use stonecast_log::{
    Condition, Draft, Form, KEY_SIZE_MAX, Kind, STAMP_SIZE, ScanPolicy, SegmentState,
    SegmentVerdict, Stamp, UNIT_SIZE, check, record_size, scan_segment,
};
use stonecast_media::Region as _;

use crate::facts::format;
use crate::memory::Memory;
use crate::server::Collect;

/// XXH3-128 of the log below. When it changes on purpose, the version in the segment header changes with it.
const GOLDEN: u128 = 0x5cfd_ea2f_8dff_c8c8_54c5_fb17_474c_4bbc;

#[test]
fn the_bytes_of_a_few_thousand_records_never_change() {
    let format = format(1 << 20, 8);
    let memory = Memory::steady(8 << 20);
    let mut random = random_from_seed(42);
    let (mut sequence, mut record, mut written) = (0_u64, Vec::new(), 0);
    for number in 0..8 {
        let mut state = SegmentState::fresh(number, number + 1);
        state.write_header(&memory, &format);
        for batch in 0.. {
            if u64::from(format.segment_units() - state.end) * UNIT_SIZE
                < 8 * record_size(KEY_SIZE_MAX, 4000)
            {
                break;
            }
            for _ in 0..random.random_range(1..8) {
                sequence += random.random_range(1..4_u64);
                let kind = if random.random_range(0..10) == 0 {
                    Kind::Delete
                } else {
                    Kind::Put
                };
                let condition = match random.random_range(0..4) {
                    0 => Condition::Version(random.random()),
                    1 => Condition::Absent,
                    _ => Condition::None,
                };
                let key: Vec<u8> = (0..random.random_range(1..60))
                    .map(|_| random.random())
                    .collect();
                let value_size = if kind == Kind::Delete {
                    0
                } else {
                    random.random_range(0..4000)
                };
                let value: Vec<u8> = (0..value_size).map(|_| random.random()).collect();
                let draft = Draft {
                    kind,
                    form: Form::Whole,
                    condition,
                    token: random.random(),
                    expires: None,
                    key: &key,
                    value: &value,
                };
                let unit = state.end + random.random_range(0..2_u32);
                let position = format.position(number, unit);
                draft.encode(&format, position, state.generation, batch, &mut record);
                memory.write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
                let checked = check(&format, position, (state.generation, batch), &record).unwrap();
                let stamp = Stamp {
                    sequence,
                    previous: state.last,
                    durable: state.durable,
                    opening: batch,
                };
                let size = checked.header.size();
                let commit_tag = stamp.write(
                    &memory,
                    &format,
                    position,
                    state.generation,
                    checked.header.tag(),
                    size,
                );
                state.note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
                written += 1;
            }
            state.note_durable();
            if batch % 20 == 19 {
                state.seal(&memory, &format);
            }
        }
        let mut found = Collect::default();
        let verdict = scan_segment(
            &memory,
            &format,
            "log",
            number,
            None,
            ScanPolicy::default(),
            &mut found,
        );
        assert!(
            matches!(verdict, Ok(SegmentVerdict::Used(scanned, _)) if scanned == SegmentState { durable: 0, ..state })
        );
    }
    assert!(written > 3000, "{written}");
    let hash = hash::xxh3_128(&memory.bytes());
    assert_eq!(hash, GOLDEN, "{hash:#034x}");
}
