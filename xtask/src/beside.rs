//! A step in a process of its own beside other steps. Its output goes to a file, and is shown at the end.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::tally::{NOT_RUN_VARIABLE, NotRunFile, Outcome, counts_of_closing_line};
use crate::tools::run;

/// A step that runs.
pub struct Beside {
    /// The process group of the step and of everything that it starts.
    group: u32,
    waiting: JoinHandle<Result<(Duration, bool)>>,
    output: PathBuf,
    not_run: NotRunFile,
}

impl Beside {
    /// Starts this program once more, for one step, with a lower priority the higher the `niceness`.
    pub fn start(step: &str, niceness: u8, metadata: &Metadata) -> Result<Self> {
        let folder = metadata.target_directory.join("xtask/beside").join(step);
        let not_run = NotRunFile::new(folder.clone())?;
        let output = folder.join("output");
        let file = File::create(&output)
            .with_context(|| format!("creating {} for a step", output.display()))?;
        let program = env::current_exe().context("finding this program")?;
        let child = nice(niceness, &program)
            .args(["ci", "--step", step])
            .env(NOT_RUN_VARIABLE, not_run.path())
            .stdin(Stdio::null())
            .stderr(file.try_clone().context("sharing the file of a step")?)
            .stdout(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting the step {step}"))?;
        let start = Instant::now();
        Ok(Self {
            group: child.id(),
            waiting: thread::spawn(move || wait(child, start)),
            output,
            not_run,
        })
    }

    /// Waits for the end of the step, shows its output, and returns the time that it took with its outcome. A step that
    /// runs at `until` is ended there, and has not run, for `reason`.
    pub fn end(
        self,
        step: &str,
        until: Option<Instant>,
        reason: &str,
    ) -> Result<(Duration, Outcome)> {
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        while !self.waiting.is_finished() && !is_over() {
            thread::sleep(Duration::from_millis(100));
        }
        let is_ended_here = !self.waiting.is_finished();
        if is_ended_here {
            end_group(self.group)?;
        }
        let waited = self.waiting.join().expect("waiting does not panic");
        let (time, success) = waited?;
        let output = fs::read(&self.output).context("reading the output of a step")?;
        let output = String::from_utf8_lossy(&output);
        print!("{output}");
        if is_ended_here {
            return Ok((time, Outcome::not_run(step, reason)));
        }
        // A process that broke before its closing line counts as one failure.
        let counts = output.lines().last().and_then(counts_of_closing_line);
        let outcome = Outcome {
            not_run: self.not_run.take()?,
            ..Outcome::of_tests(
                success && counts.is_some(),
                counts.unwrap_or((0, 0)),
                vec![],
            )
        };
        Ok((time, outcome))
    }
}

/// A command that starts `program`, whose priority is lower the higher the `niceness`.
pub fn nice(niceness: u8, program: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", &niceness.to_string()]).arg(program);
    command
}

/// Ends the processes of a group.
fn end_group(group: u32) -> Result<()> {
    let group = format!("-{group}");
    run(Command::new("kill").args(["-TERM", "--", &group]))
}

/// The time until the end of `child`, and whether it succeeded.
fn wait(mut child: Child, start: Instant) -> Result<(Duration, bool)> {
    let status = child.wait().context("waiting for a step")?;
    Ok((start.elapsed(), status.success()))
}
