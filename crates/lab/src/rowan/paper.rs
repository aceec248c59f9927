//! The paper: its headlines and the text of its page.

use super::SENDERS;
use super::appends::{self, AMPLIFICATION, RATE, place};
use super::streams;
use crate::papers::{Headline, PageText, Paper, Points};

/// Rowan's paper.
pub static PAPER: Paper = Paper {
    name: "rowan",
    figures: &[&appends::FIGURES, &streams::FIGURES],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Published numbers beside these",
        columns: ["what", "published", "here", "why"],
        notes: NOTES,
    },
};

const INTRODUCTION: &str = "\
# Appends of many senders: Rowan's primitive

Threads on eight machines send small records to one machine with persistent memory. *append*: SENDs into buffers that all senders
share, where the receiver's NIC places them one behind the other. *write*: RDMA WRITEs into a log for each sender. Behind each record
goes a READ of one byte, with the same doorbell: DDIO is off, so its answer says that the record is persisted. A thread copies a
record from an object that no cache has, sends it, and waits for that answer before the next one.

The machines are those of Rowan's evaluation, as `docs/simulator.md` describes them (`connectx5-rowan`). Time is virtual: the same
command gives the same numbers. `stonecast-lab figure rowan-appends --markdown` prints this page; a test compares both.
";

const NOTES: &str = "
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
";

fn headlines(points: &Points) -> Vec<Headline> {
    let at = |figure, design, size| {
        let value = points.at(figure, design, &place(SENDERS, size));
        value.expect("a point of the figure")
    };
    let amplification = |design, size| format!("{:.2}", at(AMPLIFICATION, design, size));
    let appends = at(RATE, "append", 64);
    let ratio = appends / at(RATE, "write", 64);
    const LOGS: &str = "More logs than the medium's buffer has blocks.";
    vec![
        Headline::quoted(
            "append, 64 bytes, 144 senders",
            "54.5 million a second",
            format!("{appends:.1}"),
            "144 records under way, each for the sum of the parts of its path. The publication says no more about its senders.",
        ),
        Headline::quoted(
            "its write amplification",
            "almost 1",
            amplification("append", 64),
            "The NIC fills one block after the other.",
        ),
        Headline::quoted(
            "write, 64 bytes: write amplification",
            "2.48",
            amplification("write", 64),
            LOGS,
        ),
        Headline::quoted(
            "write, 128 bytes: write amplification",
            "1.58",
            amplification("write", 128),
            LOGS,
        ),
        Headline::quoted(
            "append to write, 64 bytes",
            "1.85 x",
            format!("{ratio:.2} x"),
            "The medium limits the WRITEs: blocks that were not filled are read and written for a part of their bytes.",
        ),
    ]
}
