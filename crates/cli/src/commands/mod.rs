//! One file for each command.

mod doctor;
mod export;
mod figure;
mod import;
mod key_value;
mod litmus;
mod manual;
mod offline;
mod plan;
mod remotelog;
mod serve;
mod serve_published;
mod sim;
mod sim_ycsb;
mod stat;
mod ycsb;

use std::path::PathBuf;

pub use doctor::Doctor;
pub use litmus::Litmus;
pub use plan::Plan;
pub use remotelog::Remotelog;
pub use sim::Sim;

use crate::arguments::{Arguments, Bench, Command, Connection};
use crate::configuration::File;
use crate::failure::Failure;
use crate::session::Session;

/// Does what was asked.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = File::load(arguments.config.as_deref())?;
    let connect = |file: File, flags: &Connection| {
        Session::open(
            &file.connecting(flags, std::env::var_os("STONECAST_DATA").map(PathBuf::from)),
        )
    };
    match arguments.command {
        Command::Serve(flags) => serve::run(&flags, &file.serving(&flags)?),
        Command::Put(flags) => key_value::put(&flags, connect(file, &flags.connection)?),
        Command::Get(flags) => key_value::get(&flags, connect(file, &flags.connection)?),
        Command::Delete(flags) => key_value::delete(&flags, connect(file, &flags.connection)?),
        Command::Import(flags) => import::run(&flags, || connect(file, &flags.connection)),
        Command::Export(flags) => export::run(&flags, connect(file, &flags.connection)?),
        Command::Stat(flags) => {
            let admin = flags.admin.or(file.admin());
            stat::run(&flags, connect(file, &flags.connection)?, admin)
        }
        Command::Inspect(flags) => offline::inspect(&flags),
        Command::Verify(flags) => offline::verify(&flags),
        Command::Sim(flags) => sim::run(&flags),
        Command::Plan(flags) => plan::run(&flags),
        Command::Litmus(flags) => litmus::run(&flags),
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Completions(flags) => manual::completions(flags.shell),
        Command::Man(flags) => manual::pages(flags.folder.as_deref()),
        Command::Bench(Bench::Ycsb(flags)) => ycsb::run(&flags),
        Command::Bench(Bench::Remotelog(flags)) => remotelog::run(&flags),
        Command::Bench(Bench::Figure(flags)) => figure::run(&flags),
        Command::Bench(Bench::ServePublished(flags)) => serve_published::run(&flags),
    }
}
