//! The figures as a table for people and as JSON lines for scripts.

use std::fmt::Write as _;

use serde::Serialize;

use super::figure::{Direction, Figure};
use super::plan::DEFINITIONS;

/// A figure that this machine could not measure.
#[derive(Clone, Debug, Serialize)]
pub struct NotRun {
    /// The figure.
    pub name: &'static str,
    /// The reason.
    pub not_run: String,
}

/// The result of a run of the figures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Measured figures, in the order of the table.
    pub figures: Vec<Figure>,
    /// The figures that were not measured.
    pub not_run: Vec<NotRun>,
}

impl Report {
    /// Returns whether every measured figure reached its target.
    pub fn reached(&self) -> bool {
        self.figures.iter().all(|figure| figure.reached)
    }

    /// The figures as lines, one JSON object each.
    pub fn json_lines(&self) -> String {
        let figures = self.figures.iter().map(serde_json::to_string);
        let not_run = self.not_run.iter().map(serde_json::to_string);
        figures.chain(not_run).fold(String::new(), |lines, line| {
            lines + &line.expect("numbers and strings serialise") + "\n"
        })
    }

    /// The figures as a table.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let width = DEFINITIONS
            .iter()
            .map(|definition| definition.what.len())
            .max()
            .unwrap_or(0);
        let _ = writeln!(
            text,
            "{:width$}  {:>14} {:>14} {:6}  {:>8} {:>8}  {:<17}",
            "what", "ours", "yardstick", "unit", "ratio", "target", "lowest..highest"
        );
        for figure in &self.figures {
            let sign = match figure.direction {
                Direction::AtLeast => ">=",
                Direction::AtMost => "<=",
            };
            let verdict = if figure.reached { "" } else { "  MISSED" };
            let _ = writeln!(
                text,
                "{:width$}  {:>14} {:>14} {:6}  {:>8} {:>8}  {:<17}{verdict}",
                figure.what,
                grouped(figure.ours),
                figure.yardstick.map_or_else(|| "-".to_owned(), grouped),
                figure.unit,
                number(figure.ratio),
                figure.target.map_or_else(
                    || "-".to_owned(),
                    |target| format!("{sign}{}", number(target))
                ),
                format!("{}..{}", number(figure.range.0), number(figure.range.1)),
            );
        }
        for not_run in &self.not_run {
            let _ = writeln!(text, "not run: {} ({})", not_run.name, not_run.not_run);
        }
        text
    }
}

/// A number with three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats large numbers as whole numbers in groups of three digits, and small numbers with decimals.
fn grouped(value: f64) -> String {
    if !value.is_finite() || value.abs() < 100.0 {
        return number(value);
    }
    let digits = format!("{value:.0}");
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits.as_str()), |digits| ("-", digits));
    let groups: Vec<&str> = {
        let first = digits.len() % 3;
        let (head, tail) = digits.split_at(first);
        let rest = tail
            .as_bytes()
            .chunks(3)
            .map(|group| std::str::from_utf8(group).expect("digits are ASCII"));
        (!head.is_empty())
            .then_some(head)
            .into_iter()
            .chain(rest)
            .collect()
    };
    format!("{sign}{}", groups.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped_and_small_ones_keep_three_digits() {
        let expected = [
            (0.5, "0.50"),
            (12.34, "12.3"),
            (999.6, "1 000"),
            (1234567.0, "1 234 567"),
            (-1234.0, "-1 234"),
        ];
        for (value, expected) in expected {
            assert_eq!(grouped(value), expected);
        }
        assert_eq!(grouped(f64::NAN), "NaN");
    }

    #[test]
    fn a_missed_figure_shows_in_the_table_and_in_the_verdict_and_a_figure_not_run_does_not_fail() {
        let measured = |pair| DEFINITIONS[0].figure(&[pair]);
        let mut report = Report {
            figures: vec![measured((9.0, 10.0))],
            not_run: Vec::new(),
        };
        report.not_run.push(NotRun {
            name: DEFINITIONS[1].name,
            not_run: "no reason".to_owned(),
        });
        assert!(report.reached());
        assert!(report.table().contains("not run: ") && !report.table().contains("MISSED"));
        report.figures.push(measured((1.0, 10.0)));
        assert!(!report.reached());
        assert_eq!(report.table().matches("MISSED").count(), 1);
        let lines = report.json_lines();
        let values: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (
                values[0]["reached"].as_bool(),
                values[1]["reached"].as_bool()
            ),
            (Some(true), Some(false))
        );
        assert_eq!(values[2]["not_run"], "no reason");
    }
}
