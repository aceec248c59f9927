//! Rowan's evaluation: the published figures, and the page of the documentation.
//!
//! The documented figures take minutes. The tests measure some of their points again, to the last digit, and compare
//! the page with all documented points.

use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::papers::{Points, Runs, is_near, page};
use stonecast_lab::rowan::{
    Design, KvLoad, KvOptions, Load, PAPER, SENDERS, Store, measure, measure_kv,
};
use stonecast_media::Ddio;
use stonecast_published::clover::CloverOptions;
use stonecast_published::rowan::Replication;

use crate::documented::{documented, points_of, text_of};

/// The numbers of a design with all senders.
#[derive(Debug)]
struct Row {
    million_a_second: f64,
    write_amplification: f64,
}

fn at(points: &Points, design: &str, size: u32) -> Row {
    let place = format!("{SENDERS}, {size}");
    let at = |figure| points.at(figure, design, &place).expect("a point");
    Row {
        million_a_second: at("rowan-appends"),
        write_amplification: at("rowan-amplification"),
    }
}

fn near(found: f64, published: f64) -> bool {
    (found / published - 1.0).abs() <= 0.1
}

/// Virtual time: these are exact numbers of the model, not speeds of this machine.
#[test]
fn appends_of_144_senders_and_writes_into_their_logs_come_out_as_published() {
    let (mut runs, mut points) = (Runs::default(), Points::default());
    let appends = ["rowan-appends", "rowan-amplification"];
    for figure in PAPER.figures() {
        if appends.contains(&figure.axes.name) {
            points.extend(figure.points(&mut runs, None).unwrap());
        }
    }
    let append = at(&points, "append", 64);
    assert!(near(append.million_a_second, 54.5), "{append:?}");
    assert!(append.write_amplification <= 1.05, "{append:?}");
    for (size, published) in [(64, 2.48), (128, 1.58)] {
        let write = at(&points, "write", size);
        assert!(near(write.write_amplification, published), "{write:?}");
    }
    let write = at(&points, "write", 64);
    let ratio = append.million_a_second / write.million_a_second;
    assert!(ratio >= 1.85, "{ratio}");
    for figure in appends {
        let lines = text_of(&format!("{figure}.jsonl"));
        assert_eq!(lines, points.lines(figure));
    }
}

fn load(design: &str, clients: u32) -> KvLoad {
    let design = Replication::ALL
        .into_iter()
        .find(|known| known.name() == design);
    KvLoad {
        clients,
        ..KvLoad::usual(design.unwrap())
    }
}

/// A reason in words would do for none of them.
#[test]
fn each_headline_that_differs_from_the_paper_names_a_point_that_one_change_brings_near_the_published_number()
 {
    let documented = points_of(&PAPER);
    let headlines = (PAPER.headlines)(&documented);
    let mut isolated = 0;
    for headline in headlines.iter().filter(|headline| !headline.why.is_empty()) {
        let Some(published) = headline.number else {
            continue;
        };
        let by = headline.isolated.expect(&headline.what);
        let measured = documented.at(by.figure, by.series, by.x);
        let measured = measured.expect("the point of a documented figure");
        assert!(
            is_near(measured, published),
            "{}: {measured}",
            headline.what
        );
        assert!(headline.why.contains(by.figure), "{}", headline.what);
        isolated += 1;
    }
    assert_eq!(isolated, 4);
}

/// Needs a run that follows from the load alone: the documented points were measured beside others, in another process.
#[test]
fn a_point_of_the_key_value_figures_is_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    for (series, clients) in [("rowan-kv", 144), ("rwrite-kv", 144)] {
        let outcome = measure_kv(&load(series, clients)).unwrap();
        let figure = |name: &str| documented.at(name, series, &clients.to_string()).unwrap();
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        assert_eq!(rounded(outcome.million_a_second()), figure("rowan-clients"));
        assert_eq!(rounded(outcome.put_us(0.5)), figure("rowan-clients-put"));
        assert_eq!(
            rounded(outcome.write_amplification),
            figure("rowan-clients-amplification")
        );
    }
}

/// Needs the nodes and clients of `kv` as they are: a step more or less in the path of a call changes the last digit.
#[test]
fn a_point_of_kv_is_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    let load = KvLoad {
        store: Store::Kv(KvOptions::USUAL),
        clients: 8,
        threads: 24,
        ..KvLoad::usual(Replication::Append)
    };
    let outcome = measure_kv(&load).unwrap();
    for (figure, value) in [
        ("rowan-threads-clients", outcome.million_a_second()),
        ("rowan-threads-put", outcome.put_us(0.5)),
        ("rowan-threads-put-p99", outcome.put_us(0.99)),
        ("rowan-threads-get", outcome.get_us(0.5)),
        ("rowan-threads-amplification", outcome.write_amplification),
    ] {
        let rounded = (value * 100.0).round() / 100.0;
        assert_eq!(documented.at(figure, "kv", "8"), Some(rounded), "{figure}");
    }
}

/// Needs places for many versions with one request, and clients that know the heads of all keys: otherwise they visit
/// the metadata server for each PUT, or for each key.
#[test]
fn a_point_of_the_store_like_clover_is_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    let clover = CloverOptions {
        addresses: "sim:rowan".to_owned(),
        nodes: 6,
        copies: 3,
        area_size: 64 << 20,
        places_each: CloverOptions::PLACES,
        returned_each: 0,
    };
    let load = KvLoad {
        store: Store::Clover {
            options: clover,
            is_opened: true,
        },
        clients: 8,
        threads: 24,
        ..KvLoad::usual(Replication::Append)
    };
    let outcome = measure_kv(&load).unwrap();
    for (figure, value) in [
        ("rowan-passive-clients", outcome.million_a_second()),
        ("rowan-passive-put", outcome.put_us(0.5)),
        ("rowan-passive-put-p99", outcome.put_us(0.99)),
        ("rowan-passive-get", outcome.get_us(0.5)),
    ] {
        let rounded = (value * 100.0).round() / 100.0;
        let point = documented.at(figure, "clover-like", "8");
        assert_eq!(point, Some(rounded), "{figure}");
    }
}

/// Needs the declaration of the platform, which has the processors of the copies answer: a READ would be twice as fast,
/// and would prove nothing.
#[test]
fn a_point_of_kv_with_answers_of_processors_is_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    let load = KvLoad {
        store: Store::Kv(KvOptions {
            ddio: Ddio::On,
            ..KvOptions::USUAL
        }),
        clients: 8,
        threads: 24,
        ..KvLoad::usual(Replication::Append)
    };
    let outcome = measure_kv(&load).unwrap();
    for (figure, value) in [
        ("rowan-answers", outcome.million_a_second()),
        ("rowan-answers-put", outcome.put_us(0.5)),
        ("rowan-answers-put-p99", outcome.put_us(0.99)),
    ] {
        let rounded = (value * 100.0).round() / 100.0;
        let point = documented.at(figure, "kv-answered", "8");
        assert_eq!(point, Some(rounded), "{figure}");
    }
}

/// Needs the pieces in which a node stores the words of digested records: with long
/// steps in their place, the 99th percentile is 17 times as long.
#[test]
fn a_point_of_kv_over_several_digests_is_measured_again_to_the_last_digit() {
    let documented = points_of(&PAPER);
    let load = KvLoad {
        store: Store::Kv(KvOptions::USUAL),
        clients: 24,
        threads: 24,
        measured_ns: 6_000_000,
        ..KvLoad::usual(Replication::Append)
    };
    let outcome = measure_kv(&load).unwrap();
    for (figure, value) in [
        ("rowan-sustained", outcome.million_a_second()),
        ("rowan-sustained-put", outcome.put_us(0.5)),
        ("rowan-sustained-put-p99", outcome.put_us(0.99)),
    ] {
        let rounded = (value * 100.0).round() / 100.0;
        assert_eq!(documented.at(figure, "kv", "24"), Some(rounded), "{figure}");
    }
}

#[test]
fn the_page_of_the_documentation_shows_the_documented_points() {
    let page = page(&PAPER, &points_of(&PAPER));
    if std::env::var_os("STONECAST_WRITE_PAGE").is_some() {
        std::fs::write(documented("rowan.md"), &page).unwrap();
    }
    assert_eq!(
        text_of("rowan.md"),
        page,
        "STONECAST_WRITE_PAGE=1 writes the page of the documented points; stonecast-lab figure rowan --out docs/figures measures \
         them again"
    );
}

#[test]
fn the_same_load_is_the_same_run_to_the_last_event() {
    let profile = MachineProfile::by_name("connectx5-rowan").unwrap();
    let load = Load {
        design: Design::Write,
        senders: 18,
        size: 64,
        local: 1,
    };
    let run = || measure(profile, &load).unwrap();
    assert_eq!(run(), run());
}
