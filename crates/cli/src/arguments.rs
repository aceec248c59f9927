//! The command line as a whole.

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::commands::Command;
use crate::configuration::{File, first_paragraph};
use crate::failure::Failure;

/// A durable key-value store that clients read and write directly, in shared memory.
///
/// To start: `stonecast serve` in one terminal, `stonecast put a b` and `stonecast get a` in another.
#[derive(Debug, Parser)]
#[command(name = "stonecast", version, max_term_width = 120)]
#[command(after_help = "\
Settings come from flags, then from environment variables (STONECAST_*, named beside each flag), then from the file that
--config names (TOML; the keys are the names of the flags without dashes in front), then from the defaults.

Exit status: 0 done, 1 failed or refused, 2 wrong usage, 3 the key is absent, 4 no server answers, 5 bytes are corrupt,
6 the condition does not hold, 7 the outcome of a write is unknown. With --json a failure is an object on stdout, too,
with its `error`, `status` and `message`.")]
pub struct Arguments {
    /// Configuration file (TOML).
    #[arg(long, global = true, value_name = "FILE", env = "STONECAST_CONFIG")]
    pub config: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Reads the command line, completed by the environment and the configuration file. A request for help ends the
    /// process.
    pub fn read() -> Result<Self, Failure> {
        let arguments = Self::try_parse().map_err(refuse)?;
        let Some(path) = &arguments.config else {
            return Ok(arguments);
        };
        let program = Self::command();
        let file = File::load(path, &program)?;
        let matches = file.complete(program).try_get_matches().map_err(refuse)?;
        Self::from_arg_matches(&matches).map_err(refuse)
    }
}

/// Prints the fault of the arguments, with the colours of the terminal; a request for help ends the process.
fn refuse(error: clap::Error) -> Failure {
    if !error.use_stderr() {
        error.exit();
    }
    // A closed stderr has no reader.
    let _ = error.print();
    Failure::usage(first_paragraph(&error)).told()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_has_no_contradictions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_help_with_an_example() {
        fn leaves(command: &clap::Command) -> Vec<&clap::Command> {
            let below: Vec<_> = command.get_subcommands().collect();
            if below.is_empty() {
                vec![command]
            } else {
                below.into_iter().flat_map(leaves).collect()
            }
        }
        let command = Arguments::command();
        let leaves = leaves(&command);
        assert!(leaves.len() >= 13, "{}", leaves.len());
        for leaf in leaves {
            let example = leaf
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                example.starts_with("Example:") && example.contains("  stonecast "),
                "{}",
                leaf.get_name()
            );
            assert!(leaf.get_about().is_some(), "{}", leaf.get_name());
            let undocumented: Vec<_> = leaf
                .get_arguments()
                .filter(|argument| argument.get_help().is_none())
                .collect();
            assert!(
                undocumented.is_empty(),
                "{}: {undocumented:?}",
                leaf.get_name()
            );
        }
    }
}
