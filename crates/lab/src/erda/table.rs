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

use super::contestant::Design;
use super::figures::Point;
use super::headlines::{MEAN, RATIO, places, published, title, x_title};

/// The figures of `points`, in their order.
pub fn table(points: &[Point]) -> String {
    let mut figures: Vec<&str> = Vec::new();
    for point in points {
        if !figures.contains(&point.figure.as_str()) {
            figures.push(&point.figure);
        }
    }
    let text = |figure: &&str| {
        let of_figure = points.iter().filter(|point| point.figure == *figure);
        one(figure, &of_figure.collect::<Vec<_>>())
    };
    figures.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// A name, and a cell for each design.
type Row = (String, Vec<Option<f64>>);

fn one(figure: &str, points: &[&Point]) -> String {
    let unit = points.first().map_or("", |point| point.unit);
    let mut text = format!("{figure}: {}, {unit}\n", title(figure));
    let rows = rows(figure, points);
    let wide = rows
        .iter()
        .map(|(name, _)| name.len())
        .chain([x_title(figure).len()])
        .max()
        .unwrap_or(0);
    write!(text, "{:wide$}", x_title(figure)).expect("a String takes everything");
    for design in Design::ALL {
        write!(text, "  {:>14}", design.name()).expect("a String takes everything");
    }
    for (name, cells) in rows {
        write!(text, "\n{name:wide$}").expect("a String takes everything");
        for (cell, design) in cells.into_iter().zip(Design::ALL) {
            let cell = cell.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let column = design.name().len().max(14);
            write!(text, "  {cell:>column$}").expect("a String takes everything");
        }
    }
    text.push('\n');
    text
}

fn rows(figure: &str, points: &[&Point]) -> Vec<Row> {
    let at = |design: Design, x: &str| {
        let found = points
            .iter()
            .find(|point| point.series == design.name() && point.x == x);
        found.map(|point| point.y)
    };
    let mut rows = Vec::new();
    let mut push = |name: String, cell: &dyn Fn(Design) -> Option<f64>| {
        let cells: Vec<Option<f64>> = Design::ALL.into_iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            rows.push((name, cells));
        }
    };
    let places = places(points);
    for x in &places {
        push(x.clone(), &|design| at(design, x));
        push(format!("published, {x}"), &|design| {
            published(figure, design, x)
        });
    }
    for x in &places {
        let ratio = format!("{x}{RATIO}");
        if Design::ALL
            .into_iter()
            .all(|design| published(figure, design, &ratio).is_none())
        {
            continue;
        }
        push(ratio.clone(), &|design| {
            let ratio = at(design, x)? / at(Design::ErdaPublished, x)?;
            ratio.is_finite().then_some(ratio)
        });
        push(format!("published, {ratio}"), &|design| {
            published(figure, design, &ratio)
        });
    }
    if Design::ALL
        .into_iter()
        .any(|design| published(figure, design, MEAN).is_some())
    {
        push(MEAN.to_owned(), &|design| {
            let all: Vec<f64> = places.iter().filter_map(|x| at(design, x)).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        });
        push(format!("published, {MEAN}"), &|design| {
            published(figure, design, MEAN)
        });
    }
    rows
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

    fn lines(points: &[Point]) -> Vec<Vec<String>> {
        let words = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        table(points).lines().map(words).collect()
    }

    #[test]
    fn a_figure_has_a_header_one_row_for_each_place_and_the_published_mean() {
        let points: Vec<Point> = Design::ALL
            .into_iter()
            .flat_map(|design| {
                [("16", 1.0), ("64", 3.0)].map(|(x, y)| point("erda-14", design, x, y))
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
        let bytes = [point(
            "erda-table1",
            Design::ErdaPublished,
            "update 256",
            290.0,
        )];
        assert_eq!(
            lines(&bytes)[2..],
            [
                &["update 256", "290.00", "-", "-", "-"][..],
                &["published, update 256", "288.00", "562.00", "562.00", "-"],
            ]
        );
        let cpu = [
            point("erda-22", Design::ErdaPublished, "a", 100.0),
            point("erda-22", Design::RedoLogging, "a", 300.0),
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
