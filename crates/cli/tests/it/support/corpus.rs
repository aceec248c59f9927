//! Real input: the package descriptions of the distribution, and a small imitation if those are not available.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

/// A full list of the distribution has at least this many packages.
const PACKAGES_MIN: usize = 60_000;

/// Every package description as one NDJSON entry under `package/version/architecture`, in the canonical form. The error
/// is the reason why there are no descriptions.
pub fn debian_packages() -> Result<Vec<(String, String)>, String> {
    let mut seen = BTreeSet::new();
    let descriptions = debian_descriptions()?;
    let entries = descriptions.iter().map(|description| entry(description));
    Ok(entries
        .filter(|(key, _)| seen.insert(key.clone()))
        .collect())
}

/// Every package description of the distribution. The error is the reason why there are none.
pub fn debian_descriptions() -> Result<Vec<String>, String> {
    let output = Command::new("apt-cache")
        .arg("dumpavail")
        .output()
        .map_err(|error| format!("apt-cache cannot be started: {error}"))?;
    let text = String::from_utf8(output.stdout)
        .map_err(|error| format!("apt-cache prints no UTF-8: {error}"))?;
    let descriptions: Vec<String> = text.split_terminator("\n\n").map(str::to_owned).collect();
    if descriptions.len() < PACKAGES_MIN {
        return Err(format!(
            "apt-cache lists {} packages, {PACKAGES_MIN} are wanted; run apt-get update",
            descriptions.len()
        ));
    }
    Ok(descriptions)
}

/// A field of one line of a description.
pub fn field_of<'a>(description: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = description.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// An entry as a line, in the canonical form.
pub fn entry_line(key: &str, value: &str) -> String {
    // serde_json sorts the fields of an object by name: key, then value, as the canonical form has them.
    format!("{}\n", json!({ "key": key, "value": value }))
}

/// `count` entries of the same shape and of very different sizes.
pub fn generated_packages(count: usize) -> Vec<(String, String)> {
    let description = |index: usize| {
        let lines = index * index % 97 * (1 + index % 5);
        let body: String = (0..lines)
            .map(|line| format!(" Line {line} of \"{index}\": \u{fc}ber/\\\t\u{1f600}.\n"))
            .collect();
        format!(
            "Package: generated-{index}\nVersion: 1.{index}\nArchitecture: all\nDescription: generated\n{body}"
        )
    };
    (0..count).map(|index| entry(&description(index))).collect()
}

fn entry(paragraph: &str) -> (String, String) {
    let field = |name: &str| {
        let field = field_of(paragraph, name);
        field.unwrap_or_else(|| panic!("a description without {name}: {paragraph}"))
    };
    let key = format!(
        "{}/{}/{}",
        field("Package"),
        field("Version"),
        field("Architecture")
    );
    let line = entry_line(&key, paragraph);
    (key, line)
}
