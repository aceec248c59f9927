//! The figures for terminals: a row for each place of the x axis, with all series and the numbers of the paper.
//!
//! ```text
//!   erda-14: Mean latency of YCSB C by value size in bytes, us
//!   value size, bytes   erda-published  redo-logging  read-after-write    kv
//!   16                            3.51          2.40              2.43  1.80
//!   mean                          3.98          2.81              2.83  2.21
//!   published, mean              62.84         92.70             92.48     -
//! ```

use std::fmt::Write as _;

use super::{Axes, Points, mean};

/// The row of a figure with the means of the other rows.
pub const MEAN: &str = "mean";
/// The least width of a column.
const COLUMN: usize = 14;

/// The figure `axes` with its points, as text.
pub fn table(axes: &Axes, points: &Points) -> String {
    let mut text = format!("{}: {}, {}\n", axes.name, axes.title, axes.unit);
    let rows = rows(axes, points);
    let wide = rows
        .iter()
        .map(|(name, _)| name.len())
        .chain([axes.x_title.len()])
        .max()
        .unwrap_or(0);
    write!(text, "{:wide$}", axes.x_title).expect("a String takes everything");
    for series in axes.series {
        write!(text, "  {series:>COLUMN$}").expect("a String takes everything");
    }
    for (name, cells) in rows {
        write!(text, "\n{name:wide$}").expect("a String takes everything");
        for (cell, series) in cells.into_iter().zip(axes.series) {
            let cell = cell.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let column = series.len().max(COLUMN);
            write!(text, "  {cell:>column$}").expect("a String takes everything");
        }
    }
    text.push('\n');
    text
}

/// A name, and a cell for each series.
type Row = (String, Vec<Option<f64>>);

/// The row `name`, if it has a value.
fn row(axes: &Axes, name: &str, cell: impl Fn(&str) -> Option<f64>) -> Option<Row> {
    let cells: Vec<Option<f64>> = axes.series.iter().map(|series| cell(series)).collect();
    let is_present = cells.iter().any(Option::is_some);
    is_present.then(|| (name.to_owned(), cells))
}

/// The row of published values of the row `x`, if there are any.
fn published(axes: &Axes, x: &str) -> Option<Row> {
    row(axes, &format!("published, {x}"), |series| {
        (axes.published)(series, x)
    })
}

fn rows(axes: &Axes, points: &Points) -> Vec<Row> {
    let at = |series: &str, x: &str| points.at(axes.name, series, x);
    let places = points.places(axes.name);
    let mut rows = Vec::new();
    for x in &places {
        rows.extend(row(axes, x, |series| at(series, x)));
        rows.extend(published(axes, x));
    }
    for x in &places {
        let first = axes.series[0];
        let name = format!("{x} : {first}");
        if let Some(published) = published(axes, &name) {
            rows.extend(row(axes, &name, |series| {
                let ratio = at(series, x)? / at(first, x)?;
                ratio.is_finite().then_some(ratio)
            }));
            rows.push(published);
        }
    }
    if let Some(published) = published(axes, MEAN) {
        rows.extend(row(axes, MEAN, |series| {
            mean(places.iter().filter_map(|x| at(series, x)))
        }));
        rows.push(published);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{PAPERS, Paper, Point, Sample};
    use super::*;

    const SERIES: [&str; 4] = ["erda-published", "redo-logging", "read-after-write", "kv"];

    fn axes(name: &str) -> Axes {
        let mut figures = PAPERS.into_iter().flat_map(Paper::figures);
        let found = figures.find(|figure| figure.axes.name == name);
        found.expect("a figure").axes
    }

    fn point(figure: &str, series: &'static str, x: &str, y: f64) -> Point {
        let x = x.to_owned();
        axes(figure).point(Sample { series, x, y })
    }

    fn lines(points: &[Point]) -> Vec<Vec<String>> {
        let words = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let axes = axes(&points[0].figure);
        let points = Points::from(points.to_vec());
        table(&axes, &points).lines().map(words).collect()
    }

    #[test]
    fn a_figure_has_a_header_one_row_for_each_place_and_the_published_mean() {
        let points: Vec<Point> = SERIES
            .into_iter()
            .flat_map(|series| {
                [("16", 1.0), ("64", 3.0)].map(|(x, y)| point("erda-14", series, x, y))
            })
            .collect();
        assert_eq!(
            lines(&points),
            [
                &["erda-14: Mean latency of YCSB C by value size in bytes, us"][..],
                &[
                    "value size, bytes",
                    "erda-published",
                    "redo-logging",
                    "read-after-write",
                    "kv"
                ],
                &["16", "1.00", "1.00", "1.00", "1.00"],
                &["64", "3.00", "3.00", "3.00", "3.00"],
                &["mean", "2.00", "2.00", "2.00", "2.00"],
                &["published, mean", "62.84", "92.70", "92.48", "-"],
            ]
        );
    }

    #[test]
    fn counts_of_bytes_are_published_for_each_row_and_cpu_times_as_ratios() {
        let bytes = [point("erda-table1", "erda-published", "update 256", 290.0)];
        assert_eq!(
            lines(&bytes)[2..],
            [
                &["update 256", "290.00", "-", "-", "-"][..],
                &["published, update 256", "288.00", "562.00", "562.00", "-"],
            ]
        );
        let cpu = [
            point("erda-22", "erda-published", "a", 100.0),
            point("erda-22", "redo-logging", "a", 300.0),
        ];
        assert_eq!(
            lines(&cpu)[2..],
            [
                &["a", "100.00", "300.00", "-", "-"][..],
                &["a : erda-published", "1.00", "3.00", "-", "-"],
                &["published, a : erda-published", "-", "1.89", "1.96", "-"],
            ]
        );
    }
}
