//! The documented points of a paper.

use std::path::{Path, PathBuf};

use stonecast_lab::papers::{Paper, Point, Points};

/// A file of the documented figures.
pub fn documented(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    folder.join(file)
}

pub fn text_of(file: &str) -> String {
    std::fs::read_to_string(documented(file)).unwrap()
}

/// The documented points of all figures of a paper.
pub fn points_of(paper: &Paper) -> Points {
    let mut points = Points::default();
    for figure in paper.figures() {
        let lines = text_of(&format!("{}.jsonl", figure.axes.name));
        let point = |line: &str| {
            let fields: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| fields[name].as_str().unwrap().to_owned();
            Point {
                figure: text("figure"),
                series: text("series"),
                x: text("x"),
                y: fields["y"].as_f64().unwrap(),
                unit: text("unit"),
            }
        };
        points.extend(lines.lines().map(point).collect());
    }
    points
}
