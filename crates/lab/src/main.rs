//! The `stonecast-lab` binary: simulated worlds, figures of papers, comparisons with other stores.
#![forbid(unsafe_code)]

mod commands;
mod fabric;

use std::process::ExitCode;

use clap::Parser;
use stonecast_console::{failure, output, progress};

use commands::Command;

/// Measures and judges Stonecast: in simulated worlds, beside published designs, beside other stores.
#[derive(Debug, Parser)]
#[command(name = "stonecast-lab", version, max_term_width = 120)]
#[command(
    after_help = "Exit status: 0 done, 1 the operation failed, or a promise was broken, or a figure missed its target, 2 wrong usage."
)]
struct Arguments {
    /// The command.
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    stonecast_console::run("stonecast-lab", || Arguments::parse().command.run())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_has_no_contradictions_and_every_command_an_example() {
        let command = Arguments::command();
        command.clone().debug_assert();
        for command in command.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(
                help.starts_with("Example:") && help.contains("  stonecast-lab "),
                "{}",
                command.get_name()
            );
            let undocumented = command
                .get_arguments()
                .find(|flag| flag.get_help().is_none());
            assert!(undocumented.is_none(), "{undocumented:?}");
        }
    }

    #[test]
    fn the_help_names_every_simulated_machine() {
        let mut command = Arguments::command();
        let ycsb = command.find_subcommand_mut("ycsb").expect("it is there");
        let help = ycsb.render_long_help().to_string();
        let words: Vec<&str> = help.split([' ', '\n', ',', ';', '.']).collect();
        for profile in stonecast_fabric_sim::MachineProfile::ALL {
            assert!(words.contains(&profile.name), "{help}");
        }
    }
}
