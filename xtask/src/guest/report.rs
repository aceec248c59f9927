//! The results of a guest's script, read from its output.
//!
//! ```text
//!   case passed: NAME
//!   case failed: NAME ...
//!   case not run: NAME<tab>REASON
//!   test result: ...                  the closing line of a test binary
//! ```

use crate::tally::{Outcome, counts_of};

/// The outcome of a script, from its output. `not_run` lists the tests that its test binaries did
/// not run; a `status` other than zero counts as a failure.
pub fn outcome_of(output: &str, not_run: &str, status: i32) -> Outcome {
    let (mut passed, mut failed) = (0, 0);
    let mut listed: Vec<_> = not_run.lines().map(split).collect();
    for line in output.lines() {
        if let Some((more_passed, more_failed)) = counts_of(line) {
            passed += more_passed;
            failed += more_failed;
        } else if line.starts_with("case passed: ") {
            passed += 1;
        } else if line.starts_with("case failed: ") {
            failed += 1;
        }
    }
    passed = u64::saturating_sub(passed, listed.len() as u64);
    listed.extend(
        output
            .lines()
            .filter_map(|line| line.strip_prefix("case not run: "))
            .map(split),
    );
    if status != 0 || passed + failed == 0 {
        failed += 1;
    }
    Outcome {
        passed,
        failed,
        not_run: listed,
    }
}

fn split(line: &str) -> (String, String) {
    let (name, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
    (name.to_owned(), reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_test_binaries_are_counted() {
        let output = "case passed: a\ntest result: ok. 12 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
                      case failed: b (status 1)\nsomething else\ncase not run: c\tno device\n";
        let outcome = outcome_of(output, "d\tno root\n", 0);
        assert_eq!((outcome.passed, outcome.failed), (12, 2));
        assert_eq!(
            outcome.not_run,
            [
                ("d".to_owned(), "no root".to_owned()),
                ("c".to_owned(), "no device".to_owned())
            ]
        );
    }

    #[test]
    fn a_script_that_breaks_or_says_nothing_has_failed() {
        assert_eq!(outcome_of("case passed: a\n", "", 1).failed, 1);
        assert_eq!(outcome_of("", "", 0).failed, 1);
    }
}
