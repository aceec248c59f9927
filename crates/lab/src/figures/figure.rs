//! A line of the table of figures: a measurement, its yardstick, and whether the target is met.

use serde::Serialize;

use stonecast_bench::median;

/// The good side of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better.
    AtLeast,
    /// Less is better.
    AtMost,
}

/// The value that is compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Ours divided by the yardstick.
    Ratio,
    /// Ours less the yardstick, not below 0.
    Excess,
    /// Ours alone.
    Ours,
}

/// The definition of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name, short and unique, for scripts and `--only`.
    pub name: &'static str,
    /// The description for people.
    pub what: &'static str,
    /// The unit of both measurements.
    pub unit: &'static str,
    /// The value to compare.
    pub judged: Judged,
    /// The target; `None`: for information.
    pub target: Option<f64>,
    /// The good side of the target.
    pub direction: Direction,
}

/// A figure with its measurements. Serialises as one JSON line.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The name, short and unique.
    pub name: &'static str,
    /// The description for people.
    pub what: &'static str,
    /// Median of our measurements.
    pub ours: f64,
    /// Median of the measurements of the yardstick; `null` if ours is judged alone.
    pub yardstick: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// The judged value: the median over the repetitions of ratio or excess, or ours.
    pub ratio: f64,
    /// The target; `null`: for information.
    pub target: Option<f64>,
    /// The good side of the target.
    pub direction: Direction,
    /// Whether the target is met.
    pub reached: bool,
    /// Number of measurements of both.
    pub repetitions: usize,
    /// Smallest and largest judged value.
    pub range: (f64, f64),
}

impl Definition {
    /// The figure of these measurements: pairs of ours and the yardstick, one per repetition.
    pub fn figure(&self, pairs: &[(f64, f64)]) -> Figure {
        let judged: Vec<f64> = pairs
            .iter()
            .map(|&(ours, yardstick)| match self.judged {
                Judged::Ratio => ours / yardstick,
                Judged::Excess => (ours - yardstick).max(0.0),
                Judged::Ours => ours,
            })
            .collect();
        let (ours, yardsticks): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratio = median(&judged);
        let reached = self.target.is_none_or(|target| match self.direction {
            Direction::AtLeast => ratio >= target,
            Direction::AtMost => ratio <= target,
        });
        Figure {
            name: self.name,
            what: self.what,
            ours: median(&ours),
            yardstick: (self.judged != Judged::Ours).then(|| median(&yardsticks)),
            unit: self.unit,
            ratio,
            target: self.target,
            direction: self.direction,
            reached,
            repetitions: pairs.len(),
            range: (
                judged.iter().copied().fold(f64::NAN, f64::min),
                judged.iter().copied().fold(f64::NAN, f64::max),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_LEAST: Definition = Definition {
        name: "n",
        what: "w",
        unit: "op/s",
        judged: Judged::Ratio,
        target: Some(2.0),
        direction: Direction::AtLeast,
    };

    /// The ratio of the medians would be 30 / 10 = 3, as if a slow moment of the machine had hit only one side.
    #[test]
    fn a_ratio_is_the_median_of_the_ratios_of_the_repetitions() {
        let figure = AT_LEAST.figure(&[(10.0, 10.0), (30.0, 30.0), (40.0, 8.0)]);
        assert_eq!(
            (figure.ratio, figure.ours, figure.yardstick),
            (1.0, 30.0, Some(10.0))
        );
        assert_eq!(figure.range, (1.0, 5.0));
        assert!(!figure.reached);
    }

    #[test]
    fn a_target_is_reached_from_its_good_side_and_never_by_a_value_that_is_not_a_number() {
        assert!(AT_LEAST.figure(&[(4.0, 2.0)]).reached);
        assert!(!AT_LEAST.figure(&[(3.9, 2.0)]).reached);
        assert!(!AT_LEAST.figure(&[(0.0, 0.0)]).reached);
        assert!(!AT_LEAST.figure(&[]).reached);
        let at_most = Definition {
            direction: Direction::AtMost,
            judged: Judged::Excess,
            ..AT_LEAST
        };
        assert!(at_most.figure(&[(4.0, 2.0)]).reached);
        assert!(at_most.figure(&[(1.0, 2.0)]).reached);
        assert!(!at_most.figure(&[(5.0, 2.0)]).reached);
        let alone = Definition {
            judged: Judged::Ours,
            ..at_most
        }
        .figure(&[(1.0, 9.0)]);
        assert_eq!((alone.ratio, alone.yardstick), (1.0, None));
    }
}
