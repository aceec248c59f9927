//! The figure in words.

use std::fmt::Write as _;

use super::{Row, SENDERS};

/// The text before the table.
const INTRODUCTION: &str = "\
# Appends of many senders: Rowan's primitive

Threads on eight machines send small records to one machine with persistent memory. *append*: SENDs into buffers that all senders
share, where the receiver's NIC places them one behind the other. *write*: RDMA WRITEs into a log for each sender. Behind each record
goes a READ of one byte, with the same doorbell: DDIO is off, so its answer says that the record is persisted. A thread copies a
record from an object that no cache has, sends it, and waits for that answer before the next one.

The machines are those of Rowan's evaluation, as `docs/simulator.md` describes them (`connectx5-rowan`). Time is virtual: the same
command gives the same numbers. `stonecast-lab figure rowan-appends --markdown` prints this page; a test compares both.

## Published numbers beside these

| what | published | here | why |
| --- | --- | --- | --- |
";

/// The text after the table.
const MODEL: &str = "
Agreement with published numbers is no independent proof of the model: four choices were made in their knowledge. One is a number of
the profile, the size of the medium's buffer (`docs/simulator.md` says what was found with other sizes). The medium reads a block that
leaves its buffer partly filled; by the nominal bandwidth alone WRITEs would reach 37.8 million a second. A thread copies each record
from an object that no cache has; without that, appends reach 61.1 million. The log of each record is drawn; senders that each
write to one log give *write-in-turns*. What decides here:

- The latency of one record decides the rate of appends: each thread has one under way. It is the sum of the parts of the path. A tenth of
  a microsecond of it is the copy of the object.
- The medium writes 256 bytes at a time. It combines lines of the last 80 blocks, and reads a block that leaves before it was filled.
  Logs of 144 senders need more blocks than it has; one sequence of appends needs a few.
- The model has no cost for finding the place of a message in a shared buffer. More senders, or several records under way for each,
  would be limited by the medium at 93 million records a second. What the published card can do with these is not known.
- *write-in-turns* is the worst case of many logs: senders that do nothing else fall into step, so that each block has left the buffer
  when its next line comes. The published amplification fits senders in random turns, as the threads of a replicated store are:
  a record's key decides which machine gets it.

## All points

";

/// The row of a design at the published number of senders.
fn at<'a>(rows: &'a [Row], design: &str, size: u32) -> &'a Row {
    let found = |row: &&Row| (row.design, row.senders, row.size) == (design, SENDERS, size);
    rows.iter().find(found).expect("a point of the figure")
}

/// The page of the documents.
pub fn page(rows: &[Row]) -> String {
    let (append, write) = (at(rows, "append", 64), at(rows, "write", 64));
    let ratio = append.million_a_second / write.million_a_second;
    let mut page = INTRODUCTION.to_owned();
    let mut line = |what: &str, published: &str, here: String, why: &str| {
        let _ = writeln!(page, "| {what} | {published} | {here} | {why} |");
    };
    line(
        "append, 64 bytes, 144 senders",
        "54.5 million a second",
        format!("{:.1}", append.million_a_second),
        "144 records under way, each for the sum of the parts of its path. The published senders are not described further.",
    );
    line(
        "its write amplification",
        "almost 1",
        format!("{:.2}", append.write_amplification),
        "The NIC fills one block after the other.",
    );
    for (size, published) in [(64, "2.48"), (128, "1.58")] {
        line(
            &format!("write, {size} bytes: write amplification"),
            published,
            format!("{:.2}", at(rows, "write", size).write_amplification),
            "More logs than the medium's buffer has blocks.",
        );
    }
    line(
        "append to write, 64 bytes",
        "1.85 x",
        format!("{ratio:.2} x"),
        "The medium limits the WRITEs: blocks that were not filled are read and written for a part of their bytes.",
    );
    page.push_str(MODEL);
    page.push_str(&table(rows));
    page
}

/// All points.
pub fn table(rows: &[Row]) -> String {
    let mut table = "| senders | bytes | design | million a second | write amplification |\n| ---: | ---: | --- | ---: | ---: |\n".to_owned();
    for row in rows {
        let Row {
            design,
            senders,
            size,
            million_a_second,
            write_amplification,
        } = row;
        let _ = writeln!(
            table,
            "| {senders} | {size} | {design} | {million_a_second:.1} | {write_amplification:.2} |"
        );
    }
    table
}
