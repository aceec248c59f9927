//! The two text formats of `/metrics`, and the choice between them.
//!
//! Both formats carry the same samples. The formats differ in the name of a counter's family (`x` in OpenMetrics,
//! `x_total` in the classic format; its samples are `x_total` in both), in the lines `# UNIT`, and in the line
//! `# EOF` that ends OpenMetrics.

use std::fmt::Write as _;

/// A text format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`: the answer to every client that does not ask for OpenMetrics.
    Classic,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

/// A weight, in thousandths.
type Quality = u16;

/// The closeness with which a range of media types names a format. The closest range decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    Anything,
    Type,
    Subtype,
    Version,
}

impl Format {
    /// Returns the format of the answer, from the values of the request's `Accept` headers. A client has to ask for
    /// OpenMetrics: by name and with no less weight than the classic format, or by ranges that exclude the classic
    /// format. If neither format is acceptable, the answer is classic: a text helps the client more than a refusal.
    pub fn asked_for(accept: &[&str]) -> Self {
        let (classic, _) = Self::Classic.weight(accept);
        let (open, closeness) = Self::OpenMetrics.weight(accept);
        let is_named = closeness >= Some(Closeness::Subtype);
        if open > classic || is_named && open == classic && open > 0 {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// The media type in the answer's head.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts a text in the OpenMetrics format to this format.
    pub fn of(self, text: String) -> String {
        match self {
            Self::Classic => classic(&text),
            Self::OpenMetrics => text,
        }
    }

    /// Type, subtype and version.
    fn name(self) -> [&'static str; 3] {
        match self {
            Self::Classic => ["text", "plain", "0.0.4"],
            Self::OpenMetrics => ["application", "openmetrics-text", "1.0.0"],
        }
    }

    /// The weight that the closest range gives this format, and the closeness of that range.
    fn weight(self, accept: &[&str]) -> (Quality, Option<Closeness>) {
        let ranges = accept.iter().flat_map(|value| value.split(','));
        let matching = ranges.filter_map(|range| self.matched(range));
        // Among ranges that are equally close, the heaviest counts.
        let closest = matching.max();
        closest.map_or((0, None), |(closeness, quality)| (quality, Some(closeness)))
    }

    /// The closeness with which a range names this format, and its weight; `None` if the range does not name the format
    /// or is malformed.
    fn matched(self, range: &str) -> Option<(Closeness, Quality)> {
        let [kind, subtype, version] = self.name();
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next()?.split_once('/')?;
        let mut closeness = match (range_kind, range_subtype) {
            ("*", "*") => Closeness::Anything,
            (range, "*") if range.eq_ignore_ascii_case(kind) => Closeness::Type,
            (range, sub)
                if range.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) =>
            {
                Closeness::Subtype
            }
            _ => return None,
        };
        let mut weight = 1000;
        for parameter in parts {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => weight = quality(value)?,
                "version" if value == version => closeness = Closeness::Version,
                "version" => return None,
                // The character set and the escaping of names do not matter: both formats are ASCII.
                _ => {}
            }
        }
        Some((closeness, weight))
    }
}

/// Parses a weight: 0 to 1, with at most three digits.
fn quality(text: &str) -> Option<Quality> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal = digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths: Quality = format!("{digits:0<3}")
        .parse()
        .ok()
        .filter(|_| is_decimal)?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

/// Converts an OpenMetrics text, as this program writes it, to the classic format: each family is HELP, TYPE, perhaps
/// UNIT, and then its samples.
fn classic(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The name depends on the type, which follows.
            help = rest.split_once(' ').map(|(_, words)| words);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let words = help.take().unwrap_or_default();
            // Writing into a string does not fail.
            let _ = writeln!(
                output,
                "# HELP {name}{suffix} {words}\n# TYPE {name}{suffix} {kind}"
            );
        } else if !line.starts_with("# ") {
            output.push_str(line);
            output.push('\n');
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_ask_for_openmetrics_gets_the_classic_format() {
        for accept in [
            &[][..],
            &[""],
            &["*/*"],
            &["text/plain"],
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            &["application/json"],
            &["application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=0.000, */*"],
            &["application/openmetrics-text;q=0.2,text/plain;q=0.3"],
            &[
                "application/openmetrics-text;q=0.5",
                "text/plain;version=0.0.4;q=0.6",
            ],
            &["text/plain;q=0.3,text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5"],
            &["application/openmetrics-text; version=9.9.9, text/plain;q=0.1"],
            &["application/openmetrics-text;q=2, text/plain;q=0.1"],
            &["application/openmetrics-text;q=0.1234, text/plain;q=0.1"],
            &["application/openmetrics-text;q=nan, text/plain;q=0.1"],
            &["nonsense", ";;;,,,=/", "application/openmetrics-text;q"],
        ] {
            assert_eq!(Format::asked_for(accept), Format::Classic, "{accept:?}");
        }
    }

    #[test]
    fn a_client_that_asks_for_openmetrics_gets_it() {
        for accept in [
            &["application/openmetrics-text"][..],
            &["application/openmetrics-text; version=1.0.0; charset=utf-8"],
            &["Application/OpenMetrics-Text;Version=\"1.0.0\" ; Q=0.5 , text/plain;q=0.5"],
            &["text/plain;q=0.5", "application/openmetrics-text;q=0.501"],
            &["application/openmetrics-text, */*"],
            &["application/*"],
            &["text/plain;q=0, */*"],
            // Prometheus 2.49 and 3.5.
            &[
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ],
            &[
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
               application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ],
        ] {
            assert_eq!(Format::asked_for(accept), Format::OpenMetrics, "{accept:?}");
        }
    }

    #[test]
    fn the_classic_format_names_counters_whole_and_has_neither_units_nor_an_end() {
        let text = "# HELP a_b Some things.\n# TYPE a_b counter\na_b_total{x=\"# EOF\"} 1\n# HELP c_bytes Size.\n\
            # TYPE c_bytes gauge\n# UNIT c_bytes bytes\nc_bytes 2\n# EOF\n";
        let expected = "# HELP a_b_total Some things.\n# TYPE a_b_total counter\na_b_total{x=\"# EOF\"} 1\n\
            # HELP c_bytes Size.\n# TYPE c_bytes gauge\nc_bytes 2\n";
        assert_eq!(Format::Classic.of(text.to_owned()), expected);
        assert_eq!(Format::OpenMetrics.of(text.to_owned()), text);
    }
}
