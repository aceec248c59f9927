//! A strict reader of the two text formats of metrics. The reader accepts the same texts as Prometheus, and reports the
//! same faults of names, units and help as `promtool check metrics`.

use std::collections::{BTreeMap, BTreeSet};

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Classic,
    OpenMetrics,
}

/// Samples by name and labels, as written.
pub type Samples = BTreeMap<String, f64>;

/// A sample of a histogram: the end of its name, the bound of its bucket, its value.
type Part<'a> = (&'a str, Option<f64>, f64);

#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: String,
    unit: Option<String>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads a text. Panics with the line that breaks a rule.
pub fn read(text: &str, format: Format) -> Samples {
    let body = match format {
        Format::Classic => text,
        Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("the end is marked"),
    };
    assert!(
        body.is_empty() || body.ends_with('\n'),
        "the last line has an end"
    );
    let (mut families, mut samples): (Vec<Family>, _) = (Vec::new(), Samples::new());
    let mut help = None;
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(words.ends_with('.') && !words.ends_with(".."), "{line}");
            help = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                help.take().as_deref(),
                Some(name),
                "help comes first: {line}"
            );
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            families.push(Family {
                name: name.to_owned(),
                kind: kind.to_owned(),
                ..Family::default()
            });
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            assert_eq!(format, Format::OpenMetrics, "{line}");
            let family = families.last_mut().unwrap_or_else(|| panic!("{line}"));
            let unit = rest.strip_prefix(&format!("{} ", family.name));
            family.unit = Some(unit.unwrap_or_else(|| panic!("{line}")).to_owned());
        } else {
            let (name, labels, value) = sample(line);
            let family = families.last_mut().unwrap_or_else(|| panic!("{line}"));
            family.samples.push((name, labels, value));
            let (key, _) = line.rsplit_once(' ').unwrap();
            assert!(
                samples.insert(key.to_owned(), value).is_none(),
                "twice: {line}"
            );
        }
    }
    let names: BTreeSet<&str> = families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names.len(), families.len(), "each family comes once");
    families.iter().for_each(|family| family.check(format));
    samples
}

/// Name, labels and value of a line `name{label="value",..} 1`. The gateway writes no times and no exemplars.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (key, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = match value {
        "+Inf" => f64::INFINITY,
        other => other.parse().unwrap_or_else(|_| panic!("{line}")),
    };
    let Some((name, rest)) = key.split_once('{') else {
        return (key.to_owned(), BTreeMap::new(), value);
    };
    let mut labels = BTreeMap::new();
    let inner = rest.strip_suffix("\"}").unwrap_or_else(|| panic!("{line}"));
    for pair in inner.split("\",") {
        let (label, text) = pair.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        let is_plain = !text.contains(['"', '\\', '\n']);
        assert!(is_name(label) && is_plain, "{line}");
        assert!(
            labels.insert(label.to_owned(), text.to_owned()).is_none(),
            "{line}"
        );
    }
    (name.to_owned(), labels, value)
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

impl Family {
    fn check(&self, format: Format) {
        let name = &self.name;
        assert!(is_name(name) && !self.samples.is_empty(), "{name}");
        let base = match (format, self.kind.as_str()) {
            (Format::Classic, "counter") => {
                let base = name.strip_suffix("_total");
                base.unwrap_or_else(|| panic!("{name}: a counter ends in _total"))
            }
            _ => name,
        };
        for suffix in ["_total", "_count", "_sum", "_bucket", "_info", "_created"] {
            assert!(!base.ends_with(suffix), "{name}");
        }
        for part in base.split('_') {
            let is_kind = ["counter", "gauge", "histogram", "summary"].contains(&part);
            let is_no_base_unit =
                ["ms", "us", "ns", "milliseconds", "kb", "kib", "mb"].contains(&part);
            assert!(!is_kind && !is_no_base_unit, "{name}");
        }
        if let Some(unit) = &self.unit {
            assert!(base.ends_with(&format!("_{unit}")), "{name}: {unit}");
        }
        match self.kind.as_str() {
            "histogram" => self.check_histogram(),
            kind => {
                let wanted = if kind == "counter" {
                    format!("{base}_total")
                } else {
                    base.to_owned()
                };
                for (sample, labels, value) in &self.samples {
                    assert_eq!(*sample, wanted);
                    assert!(
                        !labels.contains_key("le") && *value >= 0.0,
                        "{name}: {labels:?}"
                    );
                }
            }
        }
    }

    fn check_histogram(&self) {
        let name = &self.name;
        let mut series: BTreeMap<BTreeMap<String, String>, Vec<Part<'_>>> = BTreeMap::new();
        for (sample, labels, value) in &self.samples {
            let mut labels = labels.clone();
            let bound = labels.remove("le").map(|bound| match bound.as_str() {
                "+Inf" => f64::INFINITY,
                other => other.parse().unwrap_or_else(|_| panic!("{name}: {other}")),
            });
            let kind = sample
                .strip_prefix(name.as_str())
                .unwrap_or_else(|| panic!("{name}"));
            series
                .entry(labels)
                .or_default()
                .push((kind, bound, *value));
        }
        for (labels, samples) in series {
            let of = |wanted| samples.iter().filter(move |(kind, ..)| *kind == wanted);
            let buckets: Vec<(f64, f64)> = of("_bucket")
                .map(|(_, bound, value)| (bound.unwrap(), *value))
                .collect();
            assert!(
                buckets.is_sorted_by(|before, after| before.0 < after.0 && before.1 <= after.1),
                "{name}{labels:?}: {buckets:?}"
            );
            let counts: Vec<f64> = of("_count").map(|(.., value)| *value).collect();
            assert_eq!(
                buckets.last(),
                Some(&(f64::INFINITY, counts[0])),
                "{name}{labels:?}"
            );
            assert_eq!(
                (counts.len(), of("_sum").count()),
                (1, 1),
                "{name}{labels:?}"
            );
            assert_eq!(samples.len(), buckets.len() + 2, "{name}{labels:?}");
        }
    }
}
