//! Appends of many senders: the published figures, and the page of the documentation.

use std::path::Path;

use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::papers::{Points, Runs, page};
use stonecast_lab::rowan::{Design, Load, PAPER, SENDERS, measure};

fn rows() -> Points {
    let (mut runs, mut points) = (Runs::default(), Points::default());
    for figure in PAPER.figures() {
        points.extend(figure.points(&mut runs, None).unwrap());
    }
    points
}

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

fn documented(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    std::fs::read_to_string(path.join(file)).unwrap()
}

fn near(found: f64, published: f64) -> bool {
    (found / published - 1.0).abs() <= 0.1
}

/// Virtual time: these are exact numbers of the model, not speeds of this machine.
#[test]
fn appends_of_144_senders_and_writes_into_their_logs_come_out_as_published_and_as_the_page_says() {
    let rows = rows();
    let append = at(&rows, "append", 64);
    assert!(near(append.million_a_second, 54.5), "{append:?}");
    assert!(append.write_amplification <= 1.05, "{append:?}");
    for (size, published) in [(64, 2.48), (128, 1.58)] {
        let write = at(&rows, "write", size);
        assert!(near(write.write_amplification, published), "{write:?}");
    }
    let write = at(&rows, "write", 64);
    let ratio = append.million_a_second / write.million_a_second;
    assert!(ratio >= 1.85, "{ratio}");
    assert_eq!(
        documented("rowan.md"),
        page(&PAPER, &rows),
        "stonecast-lab figure rowan --out docs/figures writes the page"
    );
    for figure in PAPER.figures() {
        let name = figure.axes.name;
        assert_eq!(documented(&format!("{name}.jsonl")), rows.lines(name));
    }
}

#[test]
fn the_same_load_is_the_same_run_to_the_last_event() {
    let profile = MachineProfile::by_name("connectx5-rowan").unwrap();
    let load = Load {
        design: Design::Write,
        senders: 18,
        size: 64,
    };
    let run = || measure(profile, &load).unwrap();
    assert_eq!(run(), run());
}
