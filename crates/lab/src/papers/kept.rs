//! Points that this program measured before.
//!
//! ```text
//!   FOLDER/PROGRAM-FIGURE-OPERATIONS.tsv     PROGRAM is the hash of the program's file
//!     series, place, value to the last bit, and a last line "end"; separated by tabs
//! ```
//!
//! Time is virtual, so program, figure and operations decide the points. Another program, for instance after a change
//! of the code, measures again.

use std::path::{Path, PathBuf};
use std::{fs, io};

use stonecast_base::hash::xxh3_64;

use super::{Axes, Point, Sample};

/// The last line of a file.
const END: &str = "end\n";

/// A folder of points.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    program: u64,
}

impl Kept {
    /// The points in `folder` that the program in the file `program` measured. The folder is made if it is missing.
    pub fn open(folder: &Path, program: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let program = xxh3_64(0, &fs::read(program)?);
        Ok(Self {
            folder: folder.to_owned(),
            program,
        })
    }

    /// The points of a figure with this number of operations. A file that is missing or incomplete gives none.
    pub fn find(&self, axes: &Axes, operations: Option<u64>) -> Option<Vec<Point>> {
        let text = fs::read_to_string(self.file(axes, operations)).ok()?;
        let lines = text.strip_suffix(END)?.lines();
        lines.map(|line| point(axes, line)).collect()
    }

    /// Keeps the points of a figure. A crash leaves a file that counts as missing, or the whole one.
    pub fn keep(&self, axes: &Axes, operations: Option<u64>, points: &[Point]) -> io::Result<()> {
        let lines = points.iter().fold(String::new(), |lines, point| {
            let Point { series, x, y, .. } = point;
            lines + &format!("{series}\t{x}\t{y}\n")
        });
        fs::write(self.file(axes, operations), lines + END)
    }

    fn file(&self, axes: &Axes, operations: Option<u64>) -> PathBuf {
        let operations = operations.map_or("documented".to_owned(), |count| count.to_string());
        let (program, name) = (self.program, axes.name);
        self.folder
            .join(format!("{program:016x}-{name}-{operations}.tsv"))
    }
}

fn point(axes: &Axes, line: &str) -> Option<Point> {
    let mut parts = line.split('\t');
    let (series, x, y) = (parts.next()?, parts.next()?, parts.next()?);
    let series = axes.series.iter().find(|name| **name == series)?;
    Some(axes.point(Sample {
        series,
        x: x.to_owned(),
        y: y.parse().ok()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{Sample, nothing_published};
    use super::*;

    const AXES: Axes = Axes {
        name: "paper-1",
        title: "",
        x_title: "",
        unit: "us",
        series: &["one"],
        published: nothing_published,
    };

    #[test]
    fn kept_points_are_found_to_the_last_bit_by_the_same_program_figure_and_operations_alone() {
        let place = tempfile::tempdir().unwrap();
        let [program, other] = ["program", "other"].map(|name| place.path().join(name));
        fs::write(&program, "a program").unwrap();
        fs::write(&other, "another program").unwrap();
        let kept = Kept::open(&place.path().join("kept"), &program).unwrap();
        assert_eq!(kept.find(&AXES, None), None);
        // A sum of many latencies has digits down to the last bit.
        let values = (1_u32..500).map(|number| 1e3 / f64::from(number).powf(1.7));
        let points: Vec<Point> = values
            .map(|y| {
                AXES.point(Sample {
                    series: "one",
                    x: "64".to_owned(),
                    y,
                })
            })
            .collect();
        kept.keep(&AXES, None, &points).unwrap();
        assert_eq!(kept.find(&AXES, None), Some(points));
        assert_eq!(kept.find(&AXES, Some(10)), None);
        let name = "paper-2";
        assert_eq!(kept.find(&Axes { name, ..AXES }, None), None);
        let by_other = Kept::open(&place.path().join("kept"), &other).unwrap();
        assert_eq!(by_other.find(&AXES, None), None);
        let file = kept.file(&AXES, None);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert_eq!(
            kept.find(&AXES, None),
            None,
            "a torn file counts as missing"
        );
    }
}
