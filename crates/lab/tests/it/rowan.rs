//! Appends of many senders: the published figures, and the page of the documentation.

use std::path::Path;

use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::rowan::{Design, Load, Row, SENDERS, measure, page, rows};

fn at<'a>(rows: &'a [Row], design: &str, size: u32) -> &'a Row {
    let found = |row: &&Row| (row.design, row.senders, row.size) == (design, SENDERS, size);
    rows.iter().find(found).expect("a point")
}

fn near(found: f64, published: f64) -> bool {
    (found / published - 1.0).abs() <= 0.1
}

/// Virtual time: these are exact numbers of the model, not speeds of this machine.
#[test]
fn appends_of_144_senders_and_writes_into_their_logs_come_out_as_published_and_as_the_page_says() {
    let rows = rows().unwrap();
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
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures/rowan.md");
    let kept = std::fs::read_to_string(file).unwrap();
    assert_eq!(
        kept,
        page(&rows),
        "stonecast-lab figure rowan-appends --markdown prints the page"
    );
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
