//! The published numbers of the benchmark, beside the measured ones.
//!
//! The publication's figure exists only as an image; these are the numbers of its text (taxonomy of
//! remote persistence, sections 4.3 and 4.4).

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::{Operation, Platform, Scenario, Update};

use Ddio::{Off, On};
use Operation::{Send, Write, WriteImmediate};
use PersistenceDomain::{Dmp, Mhp, Wsp};
use ReceiveBuffers::{Dram, Pm};

use super::paper::latency;
use crate::papers::{Headline, Points};

const SINGLE: Update = Update::Single;
const COMPOUND: Update = Update::Compound { large: false };

/// One bar of the figure.
#[derive(Clone, Copy)]
struct Bar(Update, PersistenceDomain, Ddio, ReceiveBuffers, Operation);

impl Bar {
    fn scenario(self) -> Scenario {
        let Self(update, persistence_domain, ddio, receive_buffers, operation) = self;
        let platform = Platform::of(DeclaredPlatform {
            persistence_domain,
            ddio,
            receive_buffers,
        });
        Scenario {
            platform,
            operation,
            update,
        }
    }
}

/// Measured latencies, as text.
#[derive(Clone, Copy)]
struct Shown<'a>(&'a Points);

impl Shown<'_> {
    fn latency(self, bar: Bar) -> f64 {
        latency(self.0, &bar.scenario())
    }

    fn microseconds(self, bar: Bar) -> String {
        format!("{:.2} us", self.latency(bar))
    }

    fn below(self, this: Bar, that: Bar) -> String {
        let share = 1.0 - self.latency(this) / self.latency(that);
        format!("{:.0} %", 100.0 * share)
    }

    fn times(self, this: Bar, that: Bar) -> String {
        format!("{:.1} x", self.latency(this) / self.latency(that))
    }
}

/// The published numbers beside those of `points`, the 72 scenarios on `connectx4-taxonomy`.
pub fn headlines(points: &Points) -> Vec<Headline> {
    let shown = Shown(points);
    let mut all = single_records(shown);
    all.extend(compound_appends(shown));
    all.push(receive_buffers(shown));
    all
}

fn single_records(shown: Shown<'_>) -> Vec<Headline> {
    let wsp = Bar(SINGLE, Wsp, On, Dram, Write);
    let mhp = Bar(SINGLE, Mhp, On, Dram, Write);
    let message = Bar(SINGLE, Wsp, On, Dram, Send);
    vec![
        Headline::quoted(
            "singleton, WSP, one-sided",
            "1.6 us",
            shown.microseconds(wsp),
            "The sum of the parts of the path, each with the source that the profile names; nothing is fitted to it.",
        ),
        Headline::quoted(
            "singleton, one-sided: WSP below MHP",
            "25 %",
            shown.below(wsp, mhp),
            "The difference is the flush: a READ waits for the PCIe bus of the responder, a WRITE's acknowledgement does not.",
        ),
        Headline::quoted(
            "singleton: one-sided below two-sided, at most",
            "50 %",
            shown.below(wsp, message),
            "The largest difference is that between a WRITE and a message on WSP. Our message carries its place and a checksum \
             with the record: 104 bytes, more than travel inside a descriptor, so the NIC fetches them over PCIe, 0.5 us. The \
             publication does not say how long its messages are.",
        ),
    ]
}

fn compound_appends(shown: Shown<'_>) -> Vec<Headline> {
    vec![
        Headline::quoted(
            "compound, DMP with DDIO: WRITE to SEND",
            "more than 2 x",
            shown.times(
                Bar(COMPOUND, Dmp, On, Dram, Write),
                Bar(COMPOUND, Dmp, On, Dram, Send),
            ),
            "Two round trips to one, as published. Ours are cheaper: write and message are posted with one doorbell and fit \
             the descriptor, while the message of the SEND plan has 128 bytes and is fetched; and our responder needs a \
             poll, a write-back and a post between message and answer, where the published one, judging by its \
             two-sided latencies, takes longer, and twice in this plan.",
        ),
        Headline::quoted(
            "compound, MHP: one-sided below messages, at most",
            "20 %",
            shown.below(
                Bar(COMPOUND, Mhp, On, Dram, Write),
                Bar(COMPOUND, Mhp, On, Dram, Send),
            ),
            "Our second WRITE costs 0.04 us: it is posted with the first one and its 8 bytes occupy NIC and link for \
             nanoseconds. The published one must cost several times that, as two posts with a doorbell each would.",
        ),
        Headline::quoted(
            "compound, WSP: one-sided below messages, at most",
            "30 %",
            shown.below(
                Bar(COMPOUND, Wsp, On, Dram, Write),
                Bar(COMPOUND, Wsp, On, Dram, Send),
            ),
            "As above: the same two WRITEs, and no flush.",
        ),
        Headline::quoted(
            "compound, one-sided: without the flush, WSP below MHP",
            "close to 20 %",
            shown.below(
                Bar(COMPOUND, Wsp, On, Dram, Write),
                Bar(COMPOUND, Mhp, On, Dram, Write),
            ),
            "The same 0.56 us as of a singleton; the published share is smaller because its compound append is longer.",
        ),
        Headline::quoted(
            "compound, DMP without DDIO: WRITE_WITH_IMM to WRITE",
            "\"does not drop as much\"",
            shown.times(
                Bar(COMPOUND, Dmp, Off, Dram, WriteImmediate),
                Bar(COMPOUND, Dmp, Off, Dram, Write),
            ),
            "ATOMIC_WRITE lets the flushes follow each other; WRITE_WITH_IMM has no such form and waits for the first.",
        ),
    ]
}

fn receive_buffers(shown: Shown<'_>) -> Headline {
    Headline::quoted(
        "singleton, MHP: SEND into persistent buffers below SEND into DRAM",
        "\"significantly better\"",
        shown.below(
            Bar(SINGLE, Mhp, On, Pm, Send),
            Bar(SINGLE, Mhp, On, Dram, Send),
        ),
        "The responder's processor has no part in it; the message is put to its place later.",
    )
}
