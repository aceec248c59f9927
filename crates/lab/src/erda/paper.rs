//! The paper: its headlines and the text of its page.

use super::cases::WORKLOADS;
use super::{bytes, cleaning, cpu, latency, throughput};
use crate::papers::{Figure, Headline, MEAN, PageText, Paper, Points, mean, no_bars};

/// Erda's paper.
pub static PAPER: Paper = Paper {
    name: "erda",
    figures: &[
        &latency::FIGURES,
        &throughput::FIGURES,
        &cpu::FIGURES,
        &cleaning::FIGURES,
        &bytes::FIGURES,
    ],
    headlines,
    page: PageText {
        introduction: INTRODUCTION,
        heading: "Headlines of the paper",
        columns: [
            "headline",
            "published",
            "measured here",
            "why they differ by more than 15 %",
        ],
        notes: "",
        bars: no_bars,
    },
};

const INTRODUCTION: &str = "\
# The figures of Erda, measured again

`stonecast-lab figure erda --out DIR` prints this page: Erda as published, its two baselines and `kv`, all in one
simulated world of the machines of the paper (profile `connectx3-erda`, see `docs/simulator.md`). Time is virtual: the same
command gives the same numbers. There are 2,000 keys of 23 bytes; latencies are those of one client, throughput is with values
of 64 bytes. Before the measurement each client writes one key and reads every key, so that it remembers places like a client
that has run for a while. While logs are cleaned (`erda-26`) there are 8,000 keys. `kv` cleans the dead records of one more
client, which makes 100,000 random overwrites a second in a pool of twice the live records; *beside a writer* is the same with
room for all its writes. `erda-26-moved`: bytes moved meanwhile for each byte written.
`erda-published` acknowledges writes that are not durable yet (`docs/design/0015-published-designs.md`); `kv` is durable here.
";

const LATENCY: &str = "The artefact waits with `usleep(2)` and on event channels, each tens of microseconds; here clients and server \
                       poll, so an operation takes only the time of NICs, PCIe and links.";
const LATENCY_RATIO: &str = "Beside waits of tens of microseconds a message to a sleeping server costs more than two READs. A server that \
                             polls answers a message in one round trip, and two dependent READs are two.";
const THROUGHPUT: &str = "Follows from the latencies: each thread has one operation under way. The baselines stop where the server's one core \
                          is busy, Erda where its NIC is (reads) or that core (writes).";
const CPU: &str = "The paper measures with `top`, which counts waiting, too; here it is the time in which the core works, \
                   without empty polls. Applying records and answering reads costs the baselines more of that than Erda's look-ups.";
const BYTES: &str = "The paper counts the 4 bytes of tag and offset that change; the 8-byte word is stored whole. \
                     Records of the baselines have 1 byte more for the request.";

/// The value size at which the counts of bytes are compared.
const TABLE_VALUE_SIZE: usize = 256;
/// The designs of the paper; Erda comes first.
const DESIGNS: [&str; 3] = ["erda-published", "redo-logging", "read-after-write"];

/// The headlines whose points are present.
fn headlines(points: &Points) -> Vec<Headline> {
    let mut all = latencies(points);
    all.extend(throughputs(points));
    all.extend(cpu_ratios(points));
    all.extend(byte_counts(points));
    all
}

/// A headline, if its number was measured.
fn headline(
    what: String,
    unit: &str,
    published: Option<f64>,
    measured: Option<f64>,
    why: &'static str,
) -> Option<Headline> {
    let measured = measured.filter(|number| number.is_finite() && *number > 0.0)?;
    Some(Headline::number(what, unit, published?, measured, why))
}

fn latencies(points: &Points) -> Vec<Headline> {
    let of_figure = |(figure, workload): (&Figure, &str)| {
        let axes = figure.axes;
        let measured = |design: &str| points.mean(axes.name, design);
        let published = |design: &str| (axes.published)(design, MEAN);
        let mut all: Vec<Option<Headline>> = DESIGNS
            .map(|design| {
                let what = format!("latency, {workload}, {design}");
                headline(what, "us", published(design), measured(design), LATENCY)
            })
            .into();
        let ratio = |of: &dyn Fn(&str) -> Option<f64>| Some(of(DESIGNS[0])? / of(DESIGNS[1])?);
        all.push(headline(
            format!("latency, {workload}, erda-published : redo-logging"),
            "",
            ratio(&published),
            ratio(&measured),
            LATENCY_RATIO,
        ));
        all
    };
    let figures = latency::FIGURES.iter().zip(WORKLOADS);
    figures.flat_map(of_figure).flatten().collect()
}

fn throughputs(points: &Points) -> Vec<Headline> {
    let of_figure = |(figure, workload): (&Figure, &str)| {
        let axes = figure.axes;
        DESIGNS.map(|design| {
            headline(
                format!("throughput, {workload}, {design}"),
                "kop/s",
                (axes.published)(design, MEAN),
                points.mean(axes.name, design),
                THROUGHPUT,
            )
        })
    };
    let figures = throughput::FIGURES.iter().zip(WORKLOADS);
    figures.flat_map(of_figure).flatten().collect()
}

/// Ratios of the means of all four figures.
fn cpu_ratios(points: &Points) -> Vec<Headline> {
    let mut all = Vec::new();
    for (x, workload) in [
        ("b", "YCSB B"),
        ("a", "YCSB A"),
        ("update-only", "update-only"),
    ] {
        let cpu = |design: &str| {
            let figures = cpu::FIGURES.iter();
            mean(figures.filter_map(|figure| points.at(figure.axes.name, design, x)))
        };
        for design in &DESIGNS[1..] {
            let ratio = || Some(cpu(design)? / cpu(DESIGNS[0])?);
            all.extend(headline(
                format!("server CPU, {workload}, {design} : erda-published"),
                "",
                (cpu::FIGURES[0].axes.published)(design, &format!("{x} : erda-published")),
                ratio(),
                CPU,
            ));
        }
    }
    all
}

fn byte_counts(points: &Points) -> Vec<Headline> {
    let axes = bytes::FIGURES[0].axes;
    let of_design = |design: &'static str| {
        bytes::OPERATIONS.map(|operation| {
            let x = format!("{operation} {TABLE_VALUE_SIZE}");
            headline(
                format!("NVM bytes of a {operation}, {design}"),
                "bytes",
                (axes.published)(design, &x),
                points.at(axes.name, design, &x),
                BYTES,
            )
        })
    };
    DESIGNS.into_iter().flat_map(of_design).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::{Point, page};

    fn point(figure: &str, series: &str, x: &str, y: f64) -> Point {
        Point {
            figure: figure.to_owned(),
            series: series.to_owned(),
            x: x.to_owned(),
            y,
            unit: "us".to_owned(),
        }
    }

    #[test]
    fn a_headline_is_explained_if_and_only_if_it_differs() {
        let points = vec![
            point("erda-14", "erda-published", "16", 60.0),
            point("erda-14", "redo-logging", "16", 30.0),
        ];
        let page = page(&PAPER, &points.into());
        let line = |what: &str| {
            page.lines()
                .find(|line| line.contains(what))
                .unwrap()
                .to_owned()
        };
        assert!(!line("YCSB C, erda-published |").contains("usleep"));
        assert!(line("YCSB C, redo-logging |").contains("usleep"));
        assert!(line("erda-published : redo-logging").contains("2.00"));
        assert!(
            !page.contains("NaN") && !page.contains("YCSB B"),
            "a number that was not measured is not a headline"
        );
    }

    #[test]
    fn the_published_byte_counts_are_those_of_table_one() {
        let points: Vec<Point> = ["create 256", "update 256", "delete 256"]
            .iter()
            .flat_map(|x| DESIGNS.map(|design| point("erda-table1", design, x, 1.0)))
            .collect();
        let counts: Vec<String> = headlines(&points.into())
            .into_iter()
            .map(|headline| headline.published)
            .collect();
        let baseline = ["593.00 bytes", "562.00 bytes", "31.00 bytes"];
        assert_eq!(counts[..3], ["312.00 bytes", "288.00 bytes", "32.00 bytes"]);
        assert_eq!(counts[3..], [baseline, baseline].concat());
    }
}
