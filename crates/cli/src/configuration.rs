//! The source of a setting: the flag, or else the environment, the configuration file, or the default.
//!
//! A setting is a flag that has an environment variable. Its key in the file is the name of that variable in the style
//! of flags: STONECAST_SEGMENT_SIZE is `segment-size`. Each command declares its settings as flags; the value of the
//! file becomes the default of the flag, so one parser reads all three sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

/// The least Jaro similarity at which an unknown key counts as a misspelling; clap uses the same measure for flags.
const LIKENESS_MIN: f64 = 0.7;
/// The setting that names the file itself.
const FILE: &str = "config";

/// The configuration file: its value for each setting.
#[derive(Debug)]
pub struct File {
    values: BTreeMap<String, Vec<String>>,
}

impl File {
    /// Reads a file for the commands of `program`.
    ///
    /// A file that cannot be read, a key that no command knows and a value that its flag refuses are wrong usage.
    pub fn load(path: &Path, program: &Command) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!(
                "cannot read the configuration file {}: {error}",
                path.display()
            ))
        })?;
        Self::parse(&text, program).map_err(|reason| {
            Failure::usage(format!(
                "the configuration file {}: {reason}",
                path.display()
            ))
        })
    }

    fn parse(text: &str, program: &Command) -> Result<Self, String> {
        let table =
            DeTable::parse(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let known = settings(program);
        let mut values = BTreeMap::new();
        for (key, value) in table.get_ref() {
            let at = |offset, reason| format!("line {}: {reason}", line_of(text, offset));
            let name = key.get_ref().as_ref();
            let setting = known
                .get(name)
                .ok_or_else(|| at(key.span().start, unknown(name, &known)))?;
            let words = words_of(value)
                .and_then(|words| check(name, setting, words))
                .map_err(|reason| at(value.span().start, format!("`{name}`: {reason}")))?;
            values.insert(name.to_owned(), words);
        }
        Ok(Self { values })
    }

    /// `program`, with the values of the file as the defaults of its flags.
    pub fn complete(&self, program: Command) -> Command {
        program
            .mut_args(|setting| {
                let values = key_of(&setting).and_then(|key| self.values.get(&key));
                match values {
                    Some(values) => setting.default_values(values.clone()),
                    None => setting,
                }
            })
            .mut_subcommands(|command| self.complete(command))
    }
}

/// Every setting of `program` and its commands under its key.
fn settings(program: &Command) -> BTreeMap<String, &Arg> {
    let own = program
        .get_arguments()
        .filter_map(|argument| Some((key_of(argument)?, argument)));
    let below = program.get_subcommands().flat_map(settings);
    own.chain(below).collect()
}

/// The key of a flag in the file, if it is a setting.
fn key_of(argument: &Arg) -> Option<String> {
    let variable = argument.get_env()?.to_str()?;
    let name = variable.strip_prefix("STONECAST_")?;
    let key = name.to_ascii_lowercase().replace('_', "-");
    (key != FILE).then_some(key)
}

/// Returns a value as a person types the value: a string, a number or a Boolean, or a list of them.
fn words_of(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    let word = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        _ => Err("a value is a string, a decimal number or true or false".to_owned()),
    };
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(|value| word(value.get_ref())).collect(),
        value => Ok(vec![word(value)?]),
    }
}

/// Checks that the flag takes these values.
fn check(key: &str, setting: &Arg, values: Vec<String>) -> Result<Vec<String>, String> {
    if values.is_empty() {
        return Err("the list is empty".to_owned());
    }
    let takes_many = matches!(setting.get_action(), clap::ArgAction::Append);
    if values.len() > 1 && !takes_many {
        return Err("one value, not a list".to_owned());
    }
    // The flag is checked alone, so that clap does not ask for other flags that this one requires.
    let alone = Arg::new(setting.get_id().clone())
        .long(key.to_owned())
        .action(clap::ArgAction::Append)
        .value_parser(setting.get_value_parser().clone());
    let typed = values.iter().map(|value| format!("--{key}={value}"));
    let parsed = Command::new(FILE)
        .no_binary_name(true)
        .arg(alone)
        .try_get_matches_from(typed);
    match parsed {
        Ok(_) => Ok(values),
        Err(error) => Err(first_paragraph(&error)),
    }
}

/// Clap's explanation of an error, on one line.
pub fn first_paragraph(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

/// The message about a key that no setting has, with advice.
fn unknown(name: &str, known: &BTreeMap<String, &Arg>) -> String {
    let alike = |key: &&String| strsim::jaro(name, key);
    let nearest = known
        .keys()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))
        .filter(|key| alike(key) > LIKENESS_MIN);
    match nearest {
        Some(key) => format!("unknown key `{name}`; did you mean `{key}`?"),
        None => {
            let names: Vec<String> = known.keys().map(|key| format!("`{key}`")).collect();
            format!("unknown key `{name}`; the keys are {}", names.join(", "))
        }
    }
}

/// The number of the line, from 1, at this offset.
fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let flag = |name: &'static str, variable| Arg::new(name).long(name).env(variable);
        let size = flag("size", "STONECAST_UNIT_SIZE").value_parser(clap::value_parser!(u16));
        let places = flag("place", "STONECAST_PLACES").action(clap::ArgAction::Append);
        let quiet = Arg::new("quiet")
            .long("quiet")
            .action(clap::ArgAction::SetTrue);
        let file = flag("config", "STONECAST_CONFIG").global(true);
        let command = Command::new("work").args([size, places, quiet]);
        Command::new("program").arg(file).subcommand(command)
    }

    fn refused(text: &str) -> String {
        File::parse(text, &program()).expect_err(text)
    }

    #[test]
    fn a_value_of_the_file_is_the_default_of_its_flag() {
        let file = File::parse("unit-size = 7\nplaces = ['a', 'b']\n", &program()).unwrap();
        let matches = |arguments: &[&str]| {
            let typed = ["program", "work"].iter().chain(arguments);
            let mut matches = file.complete(program()).get_matches_from(typed);
            let (_, matches) = matches.remove_subcommand().unwrap();
            let places = matches.get_many("place").into_iter().flatten().cloned();
            (*matches.get_one("size").unwrap(), places.collect())
        };
        let (all, one): (Vec<String>, Vec<String>) =
            (vec!["a".into(), "b".into()], vec!["c".into()]);
        assert_eq!(matches(&[]), (7_u16, all.clone()));
        assert_eq!(matches(&["--size", "8"]), (8, all));
        assert_eq!(matches(&["--place", "c"]), (7, one));
    }

    #[test]
    fn errors_name_the_line_and_what_is_allowed() {
        for (text, words) in [
            (
                "\nunit-siz = 1",
                "line 2: unknown key `unit-siz`; did you mean `unit-size`?",
            ),
            (
                "config = 'x'",
                "unknown key `config`; the keys are `places`, `unit-size`",
            ),
            ("quiet = true", "unknown key `quiet`; the keys are"),
            (
                "unit-size = 65536",
                "line 1: `unit-size`: invalid value '65536'",
            ),
            ("unit-size = [1, 2]", "one value, not a list"),
            ("places = []", "the list is empty"),
            ("places = {}", "a value is a string"),
            ("unit-size = \n", "line 1"),
        ] {
            let reason = refused(text);
            assert!(reason.contains(words), "{text}: {reason}");
        }
    }
}
