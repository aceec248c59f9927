//! The headlines of Erda's paper: the published number, the measured number, and the reason for a difference.

use std::fmt::Write as _;

use super::contestant::Design;
use super::figures::Point;
use super::run::KEY_SIZE;

/// A number of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// The quantity.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// The published number.
    pub published: f64,
    /// The measured number.
    pub measured: f64,
    /// The reason for a difference.
    pub why: &'static str,
}

/// Relative difference above which a headline is explained.
const TOLERANCE: f64 = 0.15;

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

const LATENCIES: [(&str, &str, [f64; 3]); 4] = [
    ("erda-14", "YCSB C", [62.84, 92.7, 92.48]),
    ("erda-15", "YCSB B", [62.76, 94.71, 94.25]),
    ("erda-16", "YCSB A", [74.64, 100.0, 100.18]),
    ("erda-17", "update-only", [102.1, 103.89, 105.47]),
];
const THROUGHPUTS: [(&str, &str, [f64; 3]); 3] = [
    ("erda-18", "YCSB C", [96.35, 62.93, 63.28]),
    ("erda-19", "YCSB B", [92.57, 61.78, 62.57]),
    ("erda-20", "YCSB A", [79.77, 57.60, 58.32]),
];
const CPU_RATIOS: [(&str, &str, [f64; 2]); 3] = [
    ("b", "YCSB B", [20.09, 20.81]),
    ("a", "YCSB A", [1.89, 1.96]),
    ("update-only", "update-only", [1.17, 1.11]),
];
const CPU_FIGURES: [&str; 4] = ["erda-22", "erda-23", "erda-24", "erda-25"];
/// The value size at which the counts of bytes are compared.
const TABLE_VALUE_SIZE: usize = 256;

const OPERATIONS: [&str; 3] = ["create", "update", "delete"];

/// The row of a figure with the mean of the other rows.
pub(super) const MEAN: &str = "mean";

/// The paper's number for a design at a place of a figure, if there is one.
pub(super) fn published(figure: &str, design: Design, x: &str) -> Option<f64> {
    let at = Design::ALL[..3].iter().position(|one| *one == design)?;
    if figure == TABLE {
        let (operation, size) = x.split_once(' ')?;
        let row = OPERATIONS.iter().position(|one| *one == operation)?;
        return Some(bytes(design, size.parse().ok()?)[row]);
    }
    if CPU_FIGURES.contains(&figure) {
        // The mean of all four figures, as a ratio to Erda.
        let workload = x.strip_suffix(RATIO)?;
        let (_, _, ratios) = CPU_RATIOS.iter().find(|(name, ..)| *name == workload)?;
        return ratios.get(at.checked_sub(1)?).copied();
    }
    let means = LATENCIES.iter().chain(&THROUGHPUTS);
    let (_, _, numbers) = means
        .into_iter()
        .find(|(name, ..)| *name == figure && x == MEAN)?;
    Some(numbers[at])
}

/// Suffix of the workload in the name of a row with ratios to Erda.
pub(super) const RATIO: &str = " : erda-published";
const TABLE: &str = "erda-table1";

/// Bytes that the paper counts for create, update and delete of a value of `size` bytes.
fn bytes(design: Design, size: usize) -> [f64; 3] {
    let (key, pair) = (KEY_SIZE as f64, (KEY_SIZE + size) as f64);
    if design == Design::ErdaPublished {
        [key + 10.0 + pair, 9.0 + pair, key + 9.0]
    } else {
        [key + 12.0 + 2.0 * pair, 4.0 + 2.0 * pair, key + 8.0]
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// The headlines of the figures in `points`.
pub fn headlines(points: &[Point]) -> Vec<Headline> {
    let of = |figure: &str, design: Design| {
        let (figure, series) = (figure.to_owned(), design.name());
        points
            .iter()
            .filter(move |point| point.figure == figure && point.series == series)
    };
    let published = &Design::ALL[..3];
    let average = |figure: &str, design: Design| mean(of(figure, design).map(|point| point.y));
    let mut all = Vec::new();
    let mut push = |what: String, unit, published, measured, why| {
        all.push(Headline {
            what,
            unit,
            published,
            measured,
            why,
        });
    };
    for (figure, workload, numbers) in LATENCIES {
        for (&design, number) in published.iter().zip(numbers) {
            push(
                format!("latency, {workload}, {}", design.name()),
                "us",
                number,
                average(figure, design),
                LATENCY,
            );
        }
        let ratio = average(figure, published[0]) / average(figure, published[1]);
        push(
            format!("latency, {workload}, erda-published : redo-logging"),
            "",
            numbers[0] / numbers[1],
            ratio,
            LATENCY_RATIO,
        );
    }
    for (figure, workload, numbers) in THROUGHPUTS {
        for (&design, number) in published.iter().zip(numbers) {
            push(
                format!("throughput, {workload}, {}", design.name()),
                "kop/s",
                number,
                average(figure, design),
                THROUGHPUT,
            );
        }
    }
    for (x, workload, numbers) in CPU_RATIOS {
        let cpu = |design: Design| {
            mean(
                CPU_FIGURES
                    .iter()
                    .flat_map(|figure| of(figure, design))
                    .filter(|point| point.x == x)
                    .map(|point| point.y),
            )
        };
        for (&design, number) in published[1..].iter().zip(numbers) {
            let what = format!("server CPU, {workload}, {} : erda-published", design.name());
            push(what, "", number, cpu(design) / cpu(published[0]), CPU);
        }
    }
    for &design in published {
        for (operation, count) in OPERATIONS.iter().zip(bytes(design, TABLE_VALUE_SIZE)) {
            let x = format!("{operation} {TABLE_VALUE_SIZE}");
            let measured = mean(
                of("erda-table1", design)
                    .filter(|point| point.x == x)
                    .map(|point| point.y),
            );
            push(
                format!("NVM bytes of a {operation}, {}", design.name()),
                "bytes",
                count,
                measured,
                BYTES,
            );
        }
    }
    all.retain(|headline| headline.measured.is_finite() && headline.measured > 0.0);
    all
}

/// The page of the documents.
pub fn page(points: &[Point]) -> String {
    let mut text = String::from(
        "# The figures of Erda, measured again\n\n\
         `stonecast-lab figure erda --out DIR` prints this page: Erda as published, its two baselines and `kv`, all in one\n\
         simulated world of the machines of the paper (profile `connectx3-erda`, see `docs/simulator.md`). Time is virtual: the same\n\
         command gives the same numbers. There are 2,000 keys of 23 bytes; latencies are those of one client, throughput is with values\n\
         of 64 bytes. Before the measurement each client writes one key and reads every key, so that it remembers places like a client\n\
         that has run for a while. While logs are cleaned (`erda-26`) there are 8,000 keys. `kv` cleans the dead records of one more\n\
         client, which makes 100,000 random overwrites a second in a pool of twice the live records; *beside a writer* is the same with\n\
         room for all its writes. `erda-26-moved`: bytes moved meanwhile for each byte written.\n\
         `erda-published` acknowledges writes that are not durable yet (`docs/design/0015-published-designs.md`); `kv` is durable here.\n\n\
         ## Headlines of the paper\n\n\
         | headline | published | measured here | why they differ by more than 15 % |\n| --- | --- | --- | --- |\n",
    );
    for headline in headlines(points) {
        let Headline {
            what,
            unit,
            published,
            measured,
            why,
        } = headline;
        let differs = ((measured - published) / published).abs() > TOLERANCE;
        let why = if differs { why } else { "" };
        let line = format!("| {what} | {published:.2} {unit} | {measured:.2} {unit} | {why} |")
            .replace("  ", " ")
            .replace(" |  |", " | |");
        writeln!(text, "{line}").expect("a String takes everything");
    }
    let mut figures: Vec<&str> = points.iter().map(|point| point.figure.as_str()).collect();
    figures.dedup();
    for figure in figures {
        write!(text, "\n## {figure}\n\n{}\n\n", title(figure)).expect("a String takes everything");
        table(
            &mut text,
            points
                .iter()
                .filter(|point| point.figure == figure)
                .collect(),
        );
        if figure.trim_start_matches("erda-").parse::<u32>().is_ok() {
            write!(text, "\n![{figure}]({figure}.svg)\n").expect("a String takes everything");
        }
    }
    text
}

fn table(text: &mut String, points: Vec<&Point>) {
    let places = places(&points);
    let unit = points.first().map_or("", |point| point.unit);
    writeln!(text, "| {unit} | {} |", places.join(" | ")).expect("a String takes everything");
    writeln!(text, "| --- |{}", " --- |".repeat(places.len())).expect("a String takes everything");
    for design in Design::ALL {
        let cells: Vec<String> = places
            .iter()
            .map(|x| {
                let point = points
                    .iter()
                    .find(|point| point.series == design.name() && point.x == *x);
                point.map_or("-".to_owned(), |point| format!("{:.2}", point.y))
            })
            .collect();
        writeln!(text, "| {} | {} |", design.name(), cells.join(" | "))
            .expect("a String takes everything");
    }
}

/// The places of the x axis, in the order of their first points.
pub(super) fn places(points: &[&Point]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for point in points {
        if !places.contains(&point.x) {
            places.push(point.x.clone());
        }
    }
    places
}

/// The title of a figure's x axis.
pub(super) fn x_title(figure: &str) -> &'static str {
    let number = figure.strip_prefix("erda-").map(str::parse::<u32>);
    match number {
        Some(Ok(14..=17)) => "value size, bytes",
        Some(Ok(18..=21)) => "threads",
        _ if figure == TABLE => "operation, value size",
        _ => "workload",
    }
}

/// The title of a figure.
pub(super) fn title(figure: &str) -> &'static str {
    match figure {
        "erda-shm-latency" => "Mean latency over shared memory by workload",
        "erda-shm-throughput" => "Throughput over shared memory by workload",
        "erda-shm-cpu" => "CPU time of the server over shared memory by workload",
        "erda-14" => "Mean latency of YCSB C by value size in bytes",
        "erda-15" => "Mean latency of YCSB B by value size in bytes",
        "erda-16" => "Mean latency of YCSB A by value size in bytes",
        "erda-17" => "Mean latency of update-only by value size in bytes",
        "erda-18" => "Throughput of YCSB C by threads",
        "erda-19" => "Throughput of YCSB B by threads",
        "erda-20" => "Throughput of YCSB A by threads",
        "erda-21" => "Throughput of update-only by threads",
        "erda-22" => "CPU time of the server by workload, values of 16 bytes",
        "erda-23" => "CPU time of the server by workload, values of 64 bytes",
        "erda-24" => "CPU time of the server by workload, values of 256 bytes",
        "erda-25" => "CPU time of the server by workload, values of 1024 bytes",
        "erda-26" => {
            "Mean latency while the log is cleaned and while it is not, values of 1024 bytes"
        }
        "erda-26-moved" => {
            "Bytes that were moved for each byte that was written, while the latencies of erda-26 were measured"
        }
        _ => "Bytes stored to persistent memory by operation and value size",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(figure: &str, design: Design, x: &str, y: f64) -> Point {
        Point {
            figure: figure.to_owned(),
            series: design.name().to_owned(),
            x: x.to_owned(),
            y,
            unit: "us",
        }
    }

    #[test]
    fn a_headline_is_explained_if_and_only_if_it_differs() {
        let points = [
            point("erda-14", Design::ErdaPublished, "16", 60.0),
            point("erda-14", Design::RedoLogging, "16", 30.0),
        ];
        let page = page(&points);
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
            .flat_map(|x| Design::ALL.map(|design| point("erda-table1", design, x, 1.0)))
            .collect();
        let counts: Vec<f64> = headlines(&points)
            .iter()
            .map(|headline| headline.published)
            .collect();
        assert_eq!(counts[..6], [312.0, 288.0, 32.0, 593.0, 562.0, 31.0]);
        assert_eq!(counts[6..], counts[3..6]);
    }
}
