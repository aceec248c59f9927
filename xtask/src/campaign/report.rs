//! The totals of a campaign in the form of `docs/testing.md`.

use std::time::Duration;

use super::ledger::{Done, Ledger};
use super::orders::{MUTANTS, ORDERS};
use super::stories::STORIES;
use crate::tally::minutes;

/// The subject of a report.
pub struct Campaign<'a> {
    pub commit: &'a str,
    pub percent: f64,
    /// The number of parts.
    pub of: u64,
}

impl Campaign<'_> {
    /// The report of the parts that are done.
    pub fn report(&self, ledger: &Ledger) -> String {
        let Self {
            commit,
            percent,
            of,
        } = *self;
        let parts = |order| ledger.parts(order, percent, of).collect::<Vec<&Done>>();
        let orders = ORDERS
            .iter()
            .map(|order| (order.scenario, parts(order.scenario)));
        let orders: Vec<(&str, Vec<&Done>)> = orders.collect();
        let stories = STORIES.map(|stories| (stories.order, parts(stories.order)));
        let mutants = parts(MUTANTS);
        let stories_done = stories.iter().flat_map(|(_, parts)| parts);
        let whole = stories_done.chain(&mutants);
        let all = orders.iter().flat_map(|(_, parts)| parts).chain(whole);
        let seconds = all.map(|done| done.seconds).sum();
        let mut report = format!(
            "\n### {commit}\n\n{percent} % of the counts, {}\n\n\
             | scenario | seeds | operations | crash states | seeds that broke a promise |\n| --- | --- | --- | --- | --- |\n",
            minutes(Duration::from_secs_f64(seconds)),
        );
        let sum = |parts: &[&Done], of: fn(&Done) -> u64| -> u64 {
            parts.iter().map(|done| of(done)).sum()
        };
        let mut all_states = 0;
        for (order, parts) in &orders {
            let states = sum(parts, |done| done.total.crash_states);
            all_states += states;
            report += &format!(
                "| {order} | {} | {} | {states} | {} |\n",
                sum(parts, |done| done.total.seeds),
                sum(parts, |done| done.total.operations),
                sum(parts, |done| done.total.broken.len() as u64),
            );
        }
        report += &format!("| all | | | {all_states} | |\n\n");
        for (order, parts) in &orders {
            let broken = parts.iter().flat_map(|done| &done.total.broken);
            for seed in broken {
                report += &format!("BROKEN: stonecast-lab sim {order} --seed {seed}\n");
            }
        }
        for (order, parts) in &orders {
            let is_done = |number: &u64| parts.iter().any(|done| done.part == *number);
            let missing = (1..=of).filter(|number| !is_done(number));
            let missing: Vec<String> = missing.map(|number| number.to_string()).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                report += &format!("NOT RUN of {order}, in {of} parts: {missing}.\n");
            }
        }
        for (order, parts) in &stories {
            report += &match parts.first() {
                Some(done) if done.holds => format!("All stories of {order} held.\n"),
                Some(_) => format!("NOT all stories of {order} held.\n"),
                None => format!("NOT RUN: {order}.\n"),
            };
        }
        report
            + match mutants.first() {
                Some(done) if done.holds => {
                    "Every seeded bug was found, and nothing in the unchanged store.\n"
                }
                Some(_) => "NOT every seeded bug was found, or something in the unchanged store.\n",
                None => "Seeded bugs were not planted.\n",
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Total;

    fn done(order: &str, part: u64, broken: &[u64]) -> Done {
        let total = Total {
            seeds: 5,
            operations: 5_200,
            crash_states: 750,
            broken: broken.to_vec(),
        };
        Done {
            order: order.to_owned(),
            part,
            of: 2,
            percent: 0.1,
            seconds: 45.0,
            holds: broken.is_empty(),
            total,
        }
    }

    #[test]
    fn a_report_names_the_commit_sums_the_parts_and_says_what_is_broken_and_what_was_not_done() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path(), "0123456789ab", true).unwrap();
        let parts = [("kv", 1, &[][..]), ("kv", 2, &[]), ("copies", 2, &[7, 9])];
        for (order, part, broken) in parts {
            ledger.note(done(order, part, broken)).unwrap();
        }
        let campaign = Campaign {
            commit: "0123456789ab",
            percent: 0.1,
            of: 2,
        };
        let report = campaign.report(&ledger);
        let begin = "
### 0123456789ab

0.1 % of the counts, 2:15.0

| scenario | seeds | operations | crash states | seeds that broke a promise |
| --- | --- | --- | --- | --- |
| kv | 10 | 10400 | 1500 | 0 |
| copies | 5 | 5200 | 750 | 2 |
";
        assert!(report.starts_with(begin), "{report}");
        assert!(report.contains("| all | | | 2250 | |\n"), "{report}");
        let broken = "BROKEN: stonecast-lab sim copies --seed 7\nBROKEN: stonecast-lab sim copies --seed 9\n";
        assert!(report.contains(broken), "{report}");
        assert!(
            report.contains("NOT RUN of copies, in 2 parts: 1.\n"),
            "{report}"
        );
        assert!(report.contains("NOT RUN of kv-crashes, in 2 parts: 1, 2.\n"));
        assert!(!report.contains("NOT RUN of kv, "), "{report}");
        assert!(
            report.ends_with("Seeded bugs were not planted.\n"),
            "{report}"
        );
    }
}
