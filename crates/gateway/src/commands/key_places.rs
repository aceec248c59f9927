//! `COMMAND GETKEYS`: the arguments of a command that are keys.

use super::error::CommandError;
use super::operation::Arguments;
use super::table::find;

/// Bytes of a reply beside a key.
const KEY_OVERHEAD: usize = 32;

/// The keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandKeys<'a> {
    command: Arguments<'a>,
    /// The first key, the argument after the last one, and the step from key to key.
    places: (usize, usize, usize),
}

impl<'a> CommandKeys<'a> {
    /// Finds the keys of `command`, whose name is its first argument.
    pub fn read(command: Arguments<'a>) -> Result<Self, CommandError> {
        // A command with keys has an argument beside its name.
        if command.len() < 2 {
            let error = CommandError::ArgumentCount("command|getkeys".to_owned());
            return Err(error);
        }
        let spec = find(command.at(0));
        let spec = spec.ok_or(CommandError::Refused("Invalid command specified"))?;
        let (first, last, step) = spec.keys;
        if first == 0 {
            return Err(CommandError::Refused("The command has no key arguments"));
        }
        if !spec.accepts(command.len()) {
            return Err(CommandError::Refused(
                "Invalid number of arguments specified for command",
            ));
        }
        let behind = match usize::try_from(last) {
            Ok(last) => last + 1,
            // -1 is the last argument.
            Err(_) => command.len() + 1 - last.unsigned_abs() as usize,
        };
        let places = (
            first.unsigned_abs() as usize,
            behind,
            step.unsigned_abs() as usize,
        );
        // `OBJECT HELP` has enough arguments for its subcommand, and no key.
        if behind > command.len() {
            return Err(CommandError::Refused("The command has no key arguments"));
        }
        Ok(Self { command, places })
    }

    /// Iterates over the keys.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (first, behind, step) = self.places;
        (first..behind)
            .step_by(step)
            .map(move |at| self.command.at(at))
    }

    /// The most bytes that a reply with the keys takes.
    pub fn size_max(self) -> usize {
        self.iter()
            .map(|key| key.len() + KEY_OVERHEAD)
            .sum::<usize>()
            + KEY_OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the comparison of the last place with the number of arguments: a subcommand without a key ended the
    /// process.
    #[test]
    fn a_subcommand_without_a_key_has_no_keys() {
        for command in [&b"OBJECT HELP"[..], b"object encoding", b"MEMORY DOCTOR"] {
            let blank = command.iter().position(|&byte| byte == b' ').unwrap() as u32;
            let places = [0..blank, blank + 1..command.len() as u32];
            let read = CommandKeys::read(Arguments::new(command, &places));
            assert!(read.is_err(), "{}", command.escape_ascii());
        }
    }
}
