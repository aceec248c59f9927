//! The published numbers of the benchmark, beside the measured ones.
//!
//! The publication's figure exists only as an image; these are the numbers of its text (taxonomy of
//! remote persistence, sections 4.3 and 4.4).

use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::{Operation, Update};

use super::Measurement;

/// A published number and the measured one.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// The quantity.
    pub what: &'static str,
    /// The published number.
    pub published: &'static str,
    /// The measured number, in the same unit.
    pub ours: String,
    /// The reason for a difference, or the source of the agreement.
    pub why: &'static str,
}

/// One bar of the figure.
#[derive(Clone, Copy)]
struct Bar(Update, PersistenceDomain, Ddio, ReceiveBuffers, Operation);

/// The published numbers beside those of `measured`, the 72 scenarios on `connectx4-taxonomy`.
pub fn anchors(measured: &[Measurement]) -> Vec<Anchor> {
    use Ddio::{Off, On};
    use Operation::{Send, Write, WriteImmediate};
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    use ReceiveBuffers::{Dram, Pm};
    const SINGLE: Update = Update::Single;
    const COMPOUND: Update = Update::Compound { large: false };
    let latency = |Bar(update, persistence, ddio, receive_buffers, operation)| {
        let of = |measurement: &&Measurement| {
            let scenario = measurement.plan.scenario();
            let platform = scenario.platform;
            (
                scenario.update,
                platform.persistence,
                platform.ddio,
                platform.receive_buffers,
                scenario.operation,
            ) == (update, persistence, ddio, receive_buffers, operation)
        };
        measured
            .iter()
            .find(of)
            .expect("all scenarios were measured")
            .latency_ns_mean
            / 1000.0
    };
    let below =
        |this: Bar, that: Bar| format!("{:.0} %", 100.0 * (1.0 - latency(this) / latency(that)));
    let microseconds = |bar: Bar| format!("{:.2} us", latency(bar));
    let times = |this: Bar, that: Bar| format!("{:.1} x", latency(this) / latency(that));
    let wsp = Bar(SINGLE, Wsp, On, Dram, Write);
    let mhp = Bar(SINGLE, Mhp, On, Dram, Write);
    let message = Bar(SINGLE, Wsp, On, Dram, Send);
    vec![
        Anchor {
            what: "singleton, WSP, one-sided",
            published: "1.6 us",
            ours: microseconds(wsp),
            why: "The sum of the parts of the path, each with the source that the profile names; nothing is fitted to it.",
        },
        Anchor {
            what: "singleton, one-sided: WSP below MHP",
            published: "25 %",
            ours: below(wsp, mhp),
            why: "The difference is the flush: a READ waits for the PCIe bus of the responder, a WRITE's acknowledgement does not.",
        },
        Anchor {
            what: "singleton: one-sided below two-sided, at most",
            published: "50 %",
            ours: below(wsp, message),
            why: "The largest difference is that between a WRITE and a message on WSP. Our message carries its place and a checksum \
                  with the record: 104 bytes, more than travel inside a descriptor, so the NIC fetches them over PCIe, 0.5 us. The \
                  publication does not say how long its messages are.",
        },
        Anchor {
            what: "compound, DMP with DDIO: WRITE to SEND",
            published: "more than 2 x",
            ours: times(
                Bar(COMPOUND, Dmp, On, Dram, Write),
                Bar(COMPOUND, Dmp, On, Dram, Send),
            ),
            why: "Two round trips to one, as published. Ours are cheaper: write and message are posted with one doorbell and fit \
                  the descriptor, while the message of the SEND plan has 128 bytes and is fetched; and our responder needs a \
                  poll, a write-back and a post between message and answer, where the published one, judging by its \
                  two-sided latencies, takes longer, and twice in this plan.",
        },
        Anchor {
            what: "compound, MHP: one-sided below messages, at most",
            published: "20 %",
            ours: below(
                Bar(COMPOUND, Mhp, On, Dram, Write),
                Bar(COMPOUND, Mhp, On, Dram, Send),
            ),
            why: "Our second WRITE costs 0.04 us: it is posted with the first one and its 8 bytes occupy NIC and link for \
                  nanoseconds. The published one must cost several times that, as two posts with a doorbell each would.",
        },
        Anchor {
            what: "compound, WSP: one-sided below messages, at most",
            published: "30 %",
            ours: below(
                Bar(COMPOUND, Wsp, On, Dram, Write),
                Bar(COMPOUND, Wsp, On, Dram, Send),
            ),
            why: "As above: the same two WRITEs, and no flush.",
        },
        Anchor {
            what: "compound, one-sided: without the flush, WSP below MHP",
            published: "close to 20 %",
            ours: below(
                Bar(COMPOUND, Wsp, On, Dram, Write),
                Bar(COMPOUND, Mhp, On, Dram, Write),
            ),
            why: "The same 0.56 us as of a singleton; the published share is smaller because its compound append is longer.",
        },
        Anchor {
            what: "compound, DMP without DDIO: WRITE_WITH_IMM to WRITE",
            published: "\"does not drop as much\"",
            ours: times(
                Bar(COMPOUND, Dmp, Off, Dram, WriteImmediate),
                Bar(COMPOUND, Dmp, Off, Dram, Write),
            ),
            why: "ATOMIC_WRITE lets the flushes follow each other; WRITE_WITH_IMM has no such form and waits for the first.",
        },
        Anchor {
            what: "singleton, MHP: SEND into persistent buffers below SEND into DRAM",
            published: "\"significantly better\"",
            ours: below(
                Bar(SINGLE, Mhp, On, Pm, Send),
                Bar(SINGLE, Mhp, On, Dram, Send),
            ),
            why: "The responder's processor has no part in it; the message is put to its place later.",
        },
    ]
}
