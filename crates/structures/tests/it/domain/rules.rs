//! The rules, one by one.

use stonecast_media::Region as _;
use stonecast_structures::{
    Chain, DomainError, Entries, Kind, LogScan, Mark, RecordFault, TenureWriter,
};

use super::rig::{
    Executor, FOREIGN, KEY, Step, Writer, area, created, folded, new_pool, opened, own, registers,
};
use crate::memory::Memory;
use crate::pool::now;

const STEPS: [Step; 3] = [
    Step {
        register: 0,
        amount: 7,
    },
    Step {
        register: 1,
        amount: 8,
    },
    Step {
        register: 0,
        amount: 9,
    },
];

fn start(tenure: u32) -> Mark {
    Mark {
        position: 0,
        chain: Chain::start(KEY, 1, tenure, 10, 40),
    }
}

fn operation(number: u64) -> Kind {
    Kind::Operation { number }
}

/// A log with these records in memory, which begins with the record of number 41.
fn log_of(tenure: u32, bodies: &[&[u8]]) -> Memory {
    let memory = Memory::steady(area(1).offset + area(1).size);
    let mut writer = TenureWriter::new(KEY, area(0), start(tenure), 0);
    for (index, body) in bodies.iter().enumerate() {
        let append = writer.append(operation(41 + index as u64), body, 0);
        let append = append.unwrap();
        memory.write(append.pieces[0].offset, &append.bytes);
    }
    memory
}

/// Needs the comparison of tenures.
pub fn a_log_ends_before_a_record_of_another_tenure() {
    let memory = log_of(3, &[b"first"]);
    let mut mark = start(3);
    mark.chain.tenure = 4;
    let read = LogScan::new(KEY, area(0), mark).next(&memory, 1024);
    let (found, expected) = (3, 4);
    assert_eq!(read, Err(RecordFault::Tenure { found, expected }));
}

/// Needs the comparison with the tag of the record before.
pub fn a_log_ends_before_a_record_whose_predecessor_was_replaced() {
    let memory = log_of(3, &[b"first 8!", b"second"]);
    let mut writer = TenureWriter::new(KEY, area(0), start(3), 0);
    let other = writer.append(operation(41), b"another8", 0).unwrap();
    memory.write(other.pieces[0].offset, &other.bytes);
    let mut scan = LogScan::new(KEY, area(0), start(3));
    scan.next(&memory, 1024).unwrap();
    let read = scan.next(&memory, 1024);
    assert!(
        matches!(read, Err(RecordFault::Previous { .. })),
        "{read:?}"
    );
}

/// Needs the check of the tag.
pub fn a_log_ends_before_a_torn_record() {
    let memory = log_of(3, &[b"a body of a few words"]);
    memory.flip(area(0).offset + 48, 3);
    let read = LogScan::new(KEY, area(0), start(3)).next(&memory, 1024);
    assert!(matches!(read, Err(RecordFault::Tag { .. })), "{read:?}");
}

/// Needs the check that the first covered operation follows the last one. The hostile writer makes the record of a
/// chain in which the first operation was covered.
pub fn a_transaction_that_leaves_an_operation_out_ends_the_log() {
    let memory = log_of(3, &[b"first", b"second"]);
    let mut scan = LogScan::new(KEY, area(0), start(3));
    scan.next(&memory, 1024).unwrap();
    scan.next(&memory, 1024).unwrap();
    let mut mark = *scan.at();
    mark.chain.covered = 41;
    let mut writer = TenureWriter::new(KEY, area(0), mark, 0);
    let kind = Kind::Transaction {
        last: 42,
        covers: 1,
    };
    let append = writer.append(kind, &[], 0).unwrap();
    memory.write(append.pieces[0].offset, &append.bytes);
    let read = scan.next(&memory, 1024);
    assert!(matches!(read, Err(RecordFault::Numbers { .. })), "{read:?}");
}

/// Needs the horizon: without it the log would seem to end in front of the damage.
pub fn damage_below_the_durable_horizon_is_reported_with_its_place() {
    let pool = new_pool();
    let mut domain = created(&pool);
    let grant = now(domain.grant(area(2))).unwrap();
    let mut writer = Writer::new(grant, [0; 4]);
    for step in STEPS {
        assert!(writer.stage(&*pool, step));
        now(domain.take()).unwrap();
    }
    pool.memory().flip(grant.area.offset + 100, 5);
    let mut domain = opened(&pool);
    let raised = domain.raise();
    let error = now(domain.finish(raised, own(), &mut Executor::default())).unwrap_err();
    let lsn = grant.start.chain.lsn + 1;
    let expected = format!(
        "record {lsn} of tenure 1 was durable, as records up to {} were",
        lsn + 2
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(matches!(error, DomainError::Gap { .. }));
}

/// Needs the check of each entry's place.
pub fn a_writer_that_names_foreign_memory_is_refused_and_its_tenure_ends_before_that_record() {
    let pool = new_pool();
    let mut domain = created(&pool);
    let grant = now(domain.grant(area(2))).unwrap();
    let mut writer = Writer::new(grant, [0; 4]);
    for step in &STEPS[..2] {
        writer.stage(&*pool, *step);
    }
    writer.publish(&*pool, 1);
    let mut entries = Entries::default();
    entries.push_word(FOREIGN, 666);
    writer.append_transaction(&*pool, 1, &entries);
    let error = now(domain.take()).unwrap_err();
    assert!(matches!(error, DomainError::Refused { .. }), "{error}");
    assert_eq!(registers(&*pool), folded(&STEPS[..1]));
    let raised = domain.raise();
    let ended = now(domain.finish(raised, own(), &mut Executor::default())).unwrap();
    assert_eq!((ended.operation, ended.replayed.executed), (2, 1));
    assert_eq!(registers(&*pool), folded(&STEPS[..2]));
    assert_eq!(pool.load(FOREIGN), 0);
}

/// Needs the private copy: the writer changes the record after the back-end has read it.
pub fn a_record_that_changes_after_it_was_checked_counts_as_it_was() {
    // The first read is of the header, the second one of the record.
    for reads in 0..4 {
        let pool = new_pool();
        let mut domain = created(&pool);
        let grant = now(domain.grant(area(2))).unwrap();
        let mut writer = Writer::new(grant, [0; 4]);
        let mut entries = Entries::default();
        entries.push_word(super::rig::register_offset(0), 7);
        writer.append_transaction(&*pool, 0, &entries);
        // The target of the entry stands behind the header of the record. The new one is the writer's, too, and no tag
        // covers it.
        let mut other = Entries::default();
        other.push_word(super::rig::register_offset(1), 7);
        let word = u64::from_le_bytes(other.body()[..8].try_into().unwrap());
        pool.meddle(reads, grant.area.offset + 48, word);
        let taken = now(domain.take());
        let shown = registers(&*pool);
        assert_eq!(shown[1], 0, "after {reads} reads: {taken:?}");
    }
}

#[test]
fn each_rule_of_the_log_holds() {
    a_log_ends_before_a_record_of_another_tenure();
    a_log_ends_before_a_record_whose_predecessor_was_replaced();
    a_log_ends_before_a_torn_record();
    a_transaction_that_leaves_an_operation_out_ends_the_log();
}

#[test]
fn each_rule_of_the_back_end_holds() {
    damage_below_the_durable_horizon_is_reported_with_its_place();
    a_writer_that_names_foreign_memory_is_refused_and_its_tenure_ends_before_that_record();
    a_record_that_changes_after_it_was_checked_counts_as_it_was();
}
