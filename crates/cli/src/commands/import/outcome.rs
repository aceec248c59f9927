//! The outcome of an import: the lines that are stored, the lines that may be stored, and the line to continue at.

use stonecast::{Effect, Error};

use crate::failure::{Failure, Status};
use stonecast_console::ndjson::LineError;

/// The outcome of the lines that were sent. Lines are counted from 1, and answers come in the order of the lines.
#[derive(Default)]
pub struct Outcome {
    /// Entries that are stored for certain.
    pub entries: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Every entry up to this line is stored.
    through: u64,
    /// Stored lines after the first line that was not stored; no more lines than were in flight.
    stored_after: Vec<u64>,
    /// Lines that may be stored.
    unknown: Vec<u64>,
    cause: Option<Cause>,
}

/// The cause of an early end.
pub enum Cause {
    /// A line is broken.
    Line(LineError),
    /// The store refused an entry, or its outcome is not known.
    Store {
        /// The number of the line.
        line: u64,
        /// The store's error.
        error: Error,
    },
    /// A signal requested the end.
    Interrupted,
}

impl Outcome {
    /// Takes the answer for a line.
    pub fn take(&mut self, line: u64, bytes: u64, result: Result<u64, Error>) {
        match result {
            Ok(_) => {
                self.entries += 1;
                self.bytes += bytes;
                if self.cause.is_none() {
                    self.through = line;
                } else {
                    self.stored_after.push(line);
                }
            }
            Err(error) => {
                if matches!(error.effect(), Effect::Unknown { .. }) {
                    self.unknown.push(line);
                }
                self.end(Cause::Store { line, error });
            }
        }
    }

    /// Notes that no answers came for these lines.
    pub fn give_up(&mut self, lines: impl Iterator<Item = u64>) {
        self.unknown.extend(lines);
    }

    /// Notes why the import ended; the first cause counts.
    pub fn end(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
    }

    /// Returns true if a line was not stored, or a signal requested the end.
    pub fn ended_early(&self) -> bool {
        self.cause.is_some()
    }

    /// The failure that reports the outcome.
    pub fn failure(self) -> Failure {
        let resume = self.through + 1;
        let (entries, through) = (self.entries, self.through);
        let (what, mend) = match &self.cause {
            Some(Cause::Line(error)) => (
                format!(
                    "{error}. Nothing of this line was stored; the {entries} entries before it are stored"
                ),
                "Correct the line, then continue",
            ),
            Some(Cause::Store { line, error }) => (
                format!("line {line}: {error}. {entries} entries of the file are stored"),
                "Go on",
            ),
            Some(Cause::Interrupted) | None => (
                format!("interrupted: {entries} entries of the file are stored"),
                "Go on",
            ),
        };
        let mut words = what;
        if !matches!(self.cause, Some(Cause::Line(_))) {
            words += &match through {
                0 => String::new(),
                _ => format!(": all up to line {through}"),
            };
            if !self.stored_after.is_empty() {
                words += &format!(", and of those after it {}", lines(&self.stored_after));
            }
        }
        words += &match self.unknown.len() {
            0 => ". No other line is stored".to_owned(),
            _ => format!(
                ". It is not known whether {} stored; no other line is",
                lines_are(&self.unknown)
            ),
        };
        words += &format!(
            ". {mend} from line {resume} (tail -n +{resume} FILE | stonecast import); a line that is imported again has its value \
             stored again"
        );
        Failure::new(self.status(), words)
            .with("stored", entries)
            .with("stored_through_line", through)
            .with("stored_lines_after", &self.stored_after)
            .with("unknown_lines", &self.unknown)
            .with("resume_line", resume)
    }

    fn status(&self) -> Status {
        match &self.cause {
            _ if !self.unknown.is_empty() => Status::OutcomeUnknown,
            Some(Cause::Store { error, .. }) if error.is_disconnected() => Status::Unreachable,
            _ => Status::Failed,
        }
    }
}

/// Names lines in words, with consecutive lines as a range.
fn lines(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let words: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    let noun = if numbers.len() == 1 { "line" } else { "lines" };
    format!("{noun} {}", words.join(", "))
}

fn lines_are(numbers: &[u64]) -> String {
    let verb = if numbers.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", lines(numbers))
}

#[cfg(test)]
mod tests {
    use stonecast_kv::StoreError;

    use super::*;

    fn lost(unknown: bool) -> Result<u64, Error> {
        Err(Error::of_write(StoreError::Disconnected { unknown }))
    }

    fn full() -> Result<u64, Error> {
        Err(Error::of_write(StoreError::MediumFull))
    }

    /// Needs the lines after the first refusal, which are stored as well.
    #[test]
    fn the_failure_names_the_lines_that_are_stored_and_the_lines_that_may_be() {
        let mut outcome = Outcome::default();
        let results = [
            Ok(1),
            full(),
            Ok(2),
            Ok(3),
            lost(true),
            lost(true),
            lost(false),
        ];
        for (line, result) in (10..).zip(results) {
            outcome.take(line, 1, result);
        }
        let failure = outcome.failure();
        let words = failure.to_string();
        for part in [
            "line 11: no space left on the file system",
            "3 entries of the file are stored: all up to line 10, and of those after it lines 12 to 13.",
            "It is not known whether lines 14 to 15 are stored; no other line is.",
            "Go on from line 11 (tail -n +11 FILE | stonecast import)",
        ] {
            assert!(words.contains(part), "{words}");
        }
        assert_eq!(failure.status(), 7);
        let facts = serde_json::to_value(failure.reason()).unwrap();
        assert_eq!(
            (
                &facts["stored"],
                &facts["unknown_lines"],
                &facts["resume_line"]
            ),
            (&3.into(), &serde_json::json!([14, 15]), &11.into())
        );
    }

    #[test]
    fn the_status_says_whether_anything_is_unknown() {
        let after = |result| {
            let mut outcome = Outcome::default();
            outcome.take(1, 1, result);
            outcome.failure().status()
        };
        assert_eq!(after(full()), 1);
        assert_eq!(after(lost(false)), 4);
        assert_eq!(after(lost(true)), 7);
        let mut interrupted = Outcome::default();
        interrupted.end(Cause::Interrupted);
        assert_eq!(interrupted.failure().status(), 1);
        let mut hung = Outcome::default();
        hung.give_up([1, 2].into_iter());
        hung.end(Cause::Interrupted);
        let failure = hung.failure();
        assert_eq!(failure.status(), 7);
        assert!(
            failure
                .to_string()
                .contains("whether lines 1 to 2 are stored")
        );
    }
}
