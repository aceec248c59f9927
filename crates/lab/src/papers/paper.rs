//! A paper as data.

use super::{Figure, Points};

/// A paper whose figures are measured again.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The name: of all its figures together, and of its page.
    pub name: &'static str,
    /// The figures in the order of the page, by the files that have them.
    pub figures: &'static [&'static [Figure]],
    /// The numbers of the paper's text beside those of the points of all its figures.
    pub headlines: fn(&Points) -> Vec<Headline>,
    /// The text of the page.
    pub page: PageText,
}

/// The text of a paper's page.
#[derive(Clone, Copy, Debug)]
pub struct PageText {
    /// The title and the text above the headlines.
    pub introduction: &'static str,
    /// The heading of the headlines.
    pub heading: &'static str,
    /// The columns of the headlines: quantity, published number, measured number, reason.
    pub columns: [&'static str; 4],
    /// The text below the headlines; empty, or with an empty line as its beginning.
    pub notes: &'static str,
    /// The demands on the store of this project, below the text; [`no_bars`] if there are none.
    pub bars: fn(&Points) -> Vec<Demand>,
}

/// The bars of a paper beside which no store of this project is measured.
pub fn no_bars(_: &Points) -> Vec<Demand> {
    Vec::new()
}

/// A demand on the store of this project.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The quantity.
    pub what: String,
    /// The demand, as it is shown.
    pub demanded: &'static str,
    /// The measured number, as it is shown, with the place where it was found.
    pub found: String,
    /// Whether the number is as demanded.
    pub is_met: bool,
}

/// A number of a paper beside the measured one.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// The quantity.
    pub what: String,
    /// The published number, as it is shown; empty for a number of this project, which the paper has not.
    pub published: String,
    /// The measured number, as it is shown.
    pub measured: String,
    /// The reason for a difference; empty if there is none.
    pub why: &'static str,
    /// The published number, if it is one.
    pub number: Option<f64>,
    /// The measurement that isolates the reason.
    pub isolated: Option<Isolated>,
}

/// A point of a figure whose run differs from that of a headline in the headline's reason alone, and which comes out as
/// published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolated {
    /// The figure.
    pub figure: &'static str,
    /// The series.
    pub series: &'static str,
    /// The place.
    pub x: &'static str,
}

/// Relative difference above which a headline is explained.
const TOLERANCE: f64 = 0.15;

impl Paper {
    /// All figures, in the order of the page.
    pub fn figures(&self) -> impl Iterator<Item = &'static Figure> {
        self.figures.iter().copied().flatten()
    }
}

impl Headline {
    /// A number that the paper states exactly. `why` is shown if the numbers differ by more than 15 %.
    pub fn number(
        what: String,
        unit: &str,
        published: f64,
        measured: f64,
        why: &'static str,
    ) -> Self {
        let differs = !is_near(measured, published);
        let shown = |number: f64| format!("{number:.2} {unit}").trim_end().to_owned();
        Self {
            what,
            published: shown(published),
            measured: shown(measured),
            why: if differs { why } else { "" },
            number: Some(published),
            isolated: None,
        }
    }

    /// The number whose difference, if there is one, a measurement isolates.
    pub fn isolated_by(self, figure: &'static str, series: &'static str, x: &'static str) -> Self {
        let isolated = Some(Isolated { figure, series, x });
        Self { isolated, ..self }
    }

    /// A number of this project, which the paper has not. `why` is always shown.
    pub fn ours(what: impl Into<String>, measured: String, why: &'static str) -> Self {
        Self::quoted(what, "", measured, why)
    }

    /// A number in the paper's words. `why` is always shown.
    pub fn quoted(
        what: impl Into<String>,
        published: &str,
        measured: String,
        why: &'static str,
    ) -> Self {
        Self {
            what: what.into(),
            published: published.to_owned(),
            measured,
            why,
            number: None,
            isolated: None,
        }
    }
}

/// Whether a measured number needs no explanation.
pub fn is_near(measured: f64, published: f64) -> bool {
    ((measured - published) / published).abs() <= TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_explained_if_and_only_if_it_differs_by_more_than_15_percent() {
        let headline =
            |measured| Headline::number("rate".to_owned(), "op/s", 100.0, measured, "because");
        for measured in [86.0, 100.0, 114.0] {
            assert_eq!(headline(measured).why, "", "{measured}");
        }
        for measured in [84.0, 116.0] {
            assert_eq!(headline(measured).why, "because", "{measured}");
        }
        assert_eq!(headline(84.0).published, "100.00 op/s");
    }
}
