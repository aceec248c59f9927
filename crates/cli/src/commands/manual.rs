//! `completions` and `man`: text for shells and the manual, made from the definition of the command line.

use std::path::PathBuf;

use clap::{Args, Command};

use crate::failure::Failure;
use crate::output;

/// Prints the completions of commands and flags for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: for bash, and for zsh
  stonecast completions bash > /etc/bash_completion.d/stonecast
  stonecast completions zsh > /usr/share/zsh/vendor-completions/_stonecast")]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Writes the manual, a page for each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: into the system, and one page to look at
  stonecast man /usr/share/man/man1
  stonecast man | man -l -")]
pub struct Man {
    /// Folder for all pages; without FOLDER, the page of the program goes to stdout.
    pub folder: Option<PathBuf>,
}

/// Prints the completions for a shell.
pub fn completions(flags: &Completions, mut definition: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut definition, "stonecast", &mut text);
    output::bytes(&text)
}

/// Writes a page for each command into `folder`, or prints the page of the program.
pub fn pages(flags: &Man, definition: Command) -> Result<(), Failure> {
    let Some(folder) = &flags.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(definition).render(&mut page)?;
        return output::bytes(&page);
    };
    let refuse = |error| {
        Failure::operation(format!(
            "cannot write the manual into {}: {error}",
            folder.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    clap_mangen::generate_to(definition, folder).map_err(refuse)
}
