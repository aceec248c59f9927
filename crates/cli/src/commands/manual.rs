//! `completions` and `man`: what shells and the manual are told, from the definition of the command line.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output;

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "stonecast", &mut text);
    output::bytes(&text)
}

/// Writes a page for each command into `folder`, or prints the page of the program.
pub fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
        return output::bytes(&page);
    };
    let refuse = |error| {
        Failure::operation(format!(
            "cannot write the manual into {}: {error}",
            folder.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(refuse)
}
