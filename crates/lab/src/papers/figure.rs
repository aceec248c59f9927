//! A figure as data.

use super::{FigureError, Point, Points, Runs};

/// The axes of a figure, and the published values.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    /// The name of the command and of files, which begins with the name of the paper.
    pub name: &'static str,
    /// The quantity.
    pub title: &'static str,
    /// The title of the x axis.
    pub x_title: &'static str,
    /// The unit of the y axis.
    pub unit: &'static str,
    /// The series, in the order of tables and legends. Published ratios are ratios to the first one.
    pub series: &'static [&'static str],
    /// The value that the paper has for a series at a place: a place of the x axis, [`MEAN`](super::MEAN), or a place
    /// followed by ` : ` and the first series, which is a ratio to that series.
    pub published: fn(series: &str, x: &str) -> Option<f64>,
}

/// The published values of a figure without any.
pub fn nothing_published(_series: &str, _x: &str) -> Option<f64> {
    None
}

/// A figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The axes, and the published values.
    pub axes: Axes,
    /// The measurement.
    pub measure: Measure,
    /// The picture.
    pub picture: Picture,
    /// The part of the paper's page.
    pub section: Section,
}

/// The measurement of a figure. The same call gives the same samples.
#[derive(Clone, Copy, Debug)]
pub enum Measure {
    /// A number of operations for each point.
    Operations {
        /// The number of the documents.
        documented: u64,
        /// Measures with the given number.
        measure: fn(&mut Runs, u64) -> Result<Vec<Sample>, FigureError>,
    },
    /// A fixed virtual time.
    Time(fn(&mut Runs) -> Result<Vec<Sample>, FigureError>),
}

/// The picture of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Picture {
    /// No picture.
    None,
    /// A line for each series.
    Lines,
    /// A picture of its own, as an SVG document.
    Own(fn(&Points) -> String),
}

/// The part of a page that shows a figure.
#[derive(Clone, Copy, Debug)]
pub enum Section {
    /// Another figure's section shows this one.
    None,
    /// A heading with the figure's name, its title, a row for each series, and the picture.
    Standard,
    /// A section of its own, from the points of all figures of the paper, with an empty line at its
    /// start.
    Own(fn(&Points) -> String),
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The series, one of [`Axes::series`].
    pub series: &'static str,
    /// The place of the x axis.
    pub x: String,
    /// The value.
    pub y: f64,
}

impl Figure {
    /// Measures the figure. `operations` of each point stand in place of the number of the documents.
    pub fn points(
        &self,
        runs: &mut Runs,
        operations: Option<u64>,
    ) -> Result<Vec<Point>, FigureError> {
        let samples = match (self.measure, operations) {
            (
                Measure::Operations {
                    documented,
                    measure,
                },
                _,
            ) => measure(runs, operations.unwrap_or(documented))?,
            (Measure::Time(measure), None) => measure(runs)?,
            (Measure::Time(_), Some(_)) => {
                let figure = self.axes.name;
                return Err(FigureError::FixedTime { figure });
            }
        };
        Ok(samples
            .into_iter()
            .map(|sample| self.axes.point(sample))
            .collect())
    }
}

impl Axes {
    /// A point of this figure.
    pub fn point(&self, sample: Sample) -> Point {
        let Sample { series, x, y } = sample;
        assert!(
            self.series.contains(&series),
            "{} has no series {series}",
            self.name
        );
        Point {
            figure: self.name.to_owned(),
            series: series.to_owned(),
            x,
            y,
            unit: self.unit.to_owned(),
        }
    }
}
