//! The purpose of a segment.

use stonecast_log::{
    Kind, LogFormat, RECORD_START_SIZE, RecordHeader, SEGMENT_HEADER_UNITS, SegmentState, Stamp,
    Standing,
};
use stonecast_media::PersistentRegion;

/// The kind of records in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Records that are put.
    Put,
    /// Tombstones, which need room in a full pool, too.
    Delete,
    /// Records that are moved.
    Clean,
}

impl Purpose {
    /// Number of purposes.
    pub const COUNT: usize = 3;

    /// The purpose of the segment of `state`, by its first stamp: the stamp of the first record or, if a power cut took
    /// that, of the next one. Only the server makes stamps, so other bytes that look like a record prove nothing.
    pub(super) fn of(state: &SegmentState, log: &dyn PersistentRegion, format: &LogFormat) -> Self {
        let first = (SEGMENT_HEADER_UNITS..state.end)
            .find_map(|unit| stamped_header(log, format, state, unit));
        match first {
            Some(header) if header.moved_at().is_some() => Self::Clean,
            Some(header) if header.kind() == Kind::Delete => Self::Delete,
            _ => Self::Put,
        }
    }
}

/// The header of the record stamped at a unit of a segment, whether the rest of the record is whole or not.
fn stamped_header(
    log: &dyn PersistentRegion,
    format: &LogFormat,
    state: &SegmentState,
    unit: u32,
) -> Option<RecordHeader> {
    let position = format.position(state.number, unit);
    let mut bytes = [0; RECORD_START_SIZE];
    log.read(position, &mut bytes);
    let header = RecordHeader::parse(&bytes).ok()?;
    // The commit tag does not vouch for the other facts, which may be left from the generation before.
    if header.generation() != state.generation {
        return None;
    }
    let standing = Stamp::judge(&header, format, position, state.generation);
    (standing != Standing::Unstamped).then_some(header)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use stonecast_log::{Condition, Draft, STAMP_SIZE, UNIT_SIZE, commit_tag_position};
    use stonecast_media::{
        Ddio, DeclaredPlatform, DirectoryBacking, Durability, PersistenceDomain, Pool, PoolOptions,
        ReceiveBuffers,
    };

    use super::*;
    use stonecast_log::Form;

    const FIRST: u32 = SEGMENT_HEADER_UNITS;
    const SECOND: u32 = FIRST + 1;

    /// A segment in generation 2 with two records of one unit. `facts` gives the kind of each record and the generation
    /// in its facts.
    fn segment(pool: &Pool, facts: [(Kind, u32); 2]) -> SegmentState {
        let (log, format) = (pool.log(), LogFormat::of(pool));
        let mut state = SegmentState::fresh(2, 2);
        for (unit, (kind, generation)) in [FIRST, SECOND].into_iter().zip(facts) {
            let (position, mut record) = (format.position(2, unit), Vec::new());
            let draft = Draft {
                kind,
                form: Form::Whole,
                condition: Condition::None,
                token: 0,
                expires: None,
                key: b"key",
                value: b"",
            };
            let tag = draft.encode(&format, position, generation, 1, &mut record);
            log.write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
            let stamp = Stamp {
                sequence: unit.into(),
                previous: state.last,
                durable: FIRST,
                opening: 1,
            };
            let commit_tag = stamp.write(&*log, &format, position, 2, tag, UNIT_SIZE);
            state.note_stamped(unit, 1, commit_tag);
        }
        state
    }

    fn pool(directory: &std::path::Path) -> Pool {
        let backing = DirectoryBacking::create(directory).unwrap();
        let options = PoolOptions {
            capacity: 1 << 20,
            segment_size: 256 << 10,
            shards: 1,
            cluster_seed: None,
            platform: DeclaredPlatform {
                persistence_domain: PersistenceDomain::Volatile,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            },
            durability: Durability::Process,
            entropy: [3; 64],
        };
        Pool::create(Rc::new(backing), options).unwrap()
    }

    /// Fails unless the search continues after the first record, which a power cut may have taken, and looks at
    /// stamps: bytes that a client left in front of the first stamp prove nothing.
    #[test]
    fn the_first_stamp_of_a_segment_decides_its_purpose() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let (log, format) = (pool.log(), LogFormat::of(&pool));
        for (kinds, whole, torn) in [
            (
                [Kind::Delete, Kind::Delete],
                Purpose::Delete,
                Purpose::Delete,
            ),
            ([Kind::Delete, Kind::Put], Purpose::Delete, Purpose::Put),
            ([Kind::Put, Kind::Delete], Purpose::Put, Purpose::Delete),
        ] {
            let state = segment(&pool, kinds.map(|kind| (kind, 2)));
            assert_eq!(Purpose::of(&state, &*log, &format), whole, "{kinds:?}");
            log.store(commit_tag_position(format.position(2, FIRST)), 0);
            assert_eq!(Purpose::of(&state, &*log, &format), torn, "{kinds:?}");
            log.store(commit_tag_position(format.position(2, SECOND)), 0);
            assert_eq!(Purpose::of(&state, &*log, &format), Purpose::Put);
        }
    }

    /// Fails without the generation in the facts: a power cut may keep the stamp of a record and the facts of the
    /// record before it at the same place, and the commit tag covers only the stamp.
    #[test]
    fn facts_of_an_earlier_generation_do_not_decide_the_purpose_of_a_segment() {
        let directory = tempfile::TempDir::new().unwrap();
        let pool = pool(&directory.path().join("pool"));
        let (log, format) = (pool.log(), LogFormat::of(&pool));
        for (earlier, kind, purpose) in [
            (Kind::Delete, Kind::Put, Purpose::Put),
            (Kind::Put, Kind::Delete, Purpose::Delete),
        ] {
            let state = segment(&pool, [(earlier, 1), (kind, 2)]);
            assert_eq!(Purpose::of(&state, &*log, &format), purpose, "{kind:?}");
        }
    }
}
