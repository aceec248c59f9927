//! Arguments of `sim`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use stonecast_check::{Adjustment, SCENARIOS, fault_names};

/// Runs the stores in a simulated world where anything fails and power goes at any moment, and
/// judges the result.
///
/// A seed decides everything, so a failure can be run again. A failing run is made as small as
/// possible and printed as a timeline. Status 1 if a promise was broken.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: one seed in full, then two thousand seeds, one line of JSON each
  stonecast-lab sim kv --seed 17
  stonecast-lab sim kv --seed 0 --seeds 2000 --json")]
pub struct Sim {
    /// The scenario.
    #[arg(value_parser = scenarios(), required_unless_present = "faults")]
    pub scenario: Option<String>,
    /// Prints the classes of faults, and runs nothing.
    #[arg(long, conflicts_with = "scenario")]
    pub faults: bool,
    /// The first seed [default: a fresh one, which is printed].
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Number of seeds, one after the other.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// Runs at the same time [default: one for each processor].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Prints one JSON object for each seed, or for each class of faults.
    #[arg(long)]
    pub json: bool,
    /// Does not search for the shortest schedule that fails.
    #[arg(long)]
    pub no_shrink: bool,
    /// Maximum number of operations of all clients together.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Smaller runs")]
    pub operations: Option<u64>,
    /// Maximum number of clients.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Smaller runs")]
    pub clients: Option<u32>,
    /// Maximum number of operations that each client has under way.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Smaller runs")]
    pub lanes: Option<u32>,
    /// Maximum number of keys.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Smaller runs")]
    pub keys: Option<u32>,
    /// A fault that does not happen; may be given more than once.
    #[arg(long, value_name = "FAULT", value_parser = PossibleValuesParser::new(fault_names()), hide_possible_values = true,
          help_heading = "Smaller runs")]
    pub without: Vec<String>,
    /// Examines a power cut at every moment.
    #[arg(long, help_heading = "Smaller runs")]
    pub every_moment: bool,
    /// Also demands a promise that no store keeps, that a write survives before it is answered:
    /// shows what a failure looks like.
    #[arg(long, hide_short_help = true, help_heading = "Smaller runs")]
    pub canary: bool,
}

fn scenarios() -> PossibleValuesParser {
    PossibleValuesParser::new(
        SCENARIOS
            .iter()
            .map(|scenario| PossibleValue::new(scenario.name).help(scenario.summary)),
    )
}

impl Sim {
    /// The settings that override the seeds.
    pub fn adjustment(&self) -> Adjustment {
        let without = fault_names()
            .iter()
            .copied()
            .filter(|name| self.without.iter().any(|typed| typed == name));
        Adjustment {
            operations: self.operations,
            clients: self.clients,
            lanes: self.lanes,
            keys: self.keys,
            without: without.collect(),
            every_moment: self.every_moment,
            canary: self.canary,
        }
    }
}

/// The command that runs `scenario` from `seed` again.
pub fn replay(scenario: &str, seed: u64, adjustment: &Adjustment) -> String {
    let Adjustment {
        operations,
        clients,
        lanes,
        keys,
        without,
        every_moment,
        canary,
    } = adjustment;
    let mut command = format!("stonecast-lab sim {scenario} --seed {seed}");
    let numbers = [
        ("operations", *operations),
        ("clients", clients.map(u64::from)),
        ("lanes", lanes.map(u64::from)),
        ("keys", keys.map(u64::from)),
    ];
    for (name, number) in numbers {
        command += &number
            .map(|number| format!(" --{name} {number}"))
            .unwrap_or_default();
    }
    without
        .iter()
        .for_each(|name| command += &format!(" --without {name}"));
    for (name, _) in [("every-moment", every_moment), ("canary", canary)]
        .iter()
        .filter(|(_, is_set)| **is_set)
    {
        command += &format!(" --{name}");
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        sim: Sim,
    }

    #[test]
    fn the_command_that_is_printed_means_the_same_run() {
        let all = Adjustment {
            operations: Some(5),
            clients: Some(2),
            lanes: Some(1),
            keys: Some(3),
            without: fault_names().iter().copied().collect(),
            every_moment: true,
            canary: true,
        };
        for adjustment in [Adjustment::default(), all] {
            let command = replay("kv", 17, &adjustment);
            let parsed = Alone::try_parse_from(command.split(' ').skip(1))
                .expect("printed arguments can be typed")
                .sim;
            assert_eq!(
                (parsed.adjustment(), parsed.seed, parsed.scenario.as_deref()),
                (adjustment, Some(17), Some("kv"))
            );
        }
    }
}
