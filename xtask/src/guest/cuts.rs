//! Power cuts: machines that are killed at random moments under load, and then booted again on the same media.
//!
//! ```text
//!   series    media of zeros, then up to SERIES cuts, then one more boot that only verifies
//!   boot      the guest verifies each pool, serves it, exports it, loads it           (test binary of stonecast, inside)
//!   cut       SIGKILL to the machine, mostly under load, now and then while it recovers
//!   judge     notes of all boots against the newest export                            (the same binary, on this machine)
//! ```
//!
//! A guest whose kernel panics under load counts as one more cut, at a moment that no seed chose.
//!
//! A machine has several pools at once (*sites*), each on a different kind of medium, so that one cut hits all of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::guest::Bench;
use crate::guest::jobs::CLUSTER_PARTS;
use crate::guest::machine::{KernelPanic, Machine, Persistence, Running, create_medium};
use crate::tally::Outcome;

/// Cuts before the media are created anew.
const SERIES: u32 = 20;
/// Longest boot until all sites are under load.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// A cut during recovery comes up to this long after its start.
const RECOVERY_MAX_MS: u64 = 2500;
/// One cut of this many comes during recovery.
const RECOVERY_SHARE: u64 = 5;
/// Number of times that a kernel may panic, for each series.
const PANICS_MAX: u32 = 3;
const SCRIPT: &str = include_str!("../../guest/cuts.sh");
const JUDGE: &str = "power_cuts::every_acknowledged_write_is_there_after_power_cuts";

/// A kind of power-cut job: its machine and its sites.
pub struct Cuts {
    /// The name of the job, for folders and messages.
    pub name: &'static str,
    /// Names of the sites, as the script knows them.
    pub sites: &'static [&'static str],
    /// Sizes of the persistent memory modules.
    pub modules_mib: &'static [u64],
    /// Size of the disk.
    pub disk_mib: u64,
    /// Load lasts up to this long before a cut.
    pub load_max_ms: u64,
    /// The state expected after a cut.
    pub expected: Expected,
}

/// The state expected after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Every acknowledged write.
    EverythingAcknowledged,
    /// A loss of acknowledged writes, from the second boot on.
    Loss,
}

impl Cuts {
    /// Cuts the power `count` times.
    pub fn run(&self, bench: &Bench, count: u32) -> Result<Outcome> {
        println!(
            "seed {}: `cargo xtask guest --only {} --cuts {count} --seed {0}` cuts at the same moments",
            bench.seed, self.name
        );
        let mut random = Random(bench.seed);
        let mut outcome = Outcome::default();
        let (mut left, mut panics_left) = (count, PANICS_MAX * count.div_ceil(SERIES));
        while left > 0 {
            match self.series(
                bench,
                left.min(SERIES),
                &mut random,
                &mut panics_left,
                &mut outcome,
            ) {
                Ok(cuts) => left -= cuts,
                Err(error) => {
                    println!("case failed: {}: {error:#}", self.name);
                    outcome.failed += 1;
                    break;
                }
            }
        }
        Ok(outcome)
    }

    /// Cuts the power up to `cuts` times. Returns the number of cuts.
    fn series(
        &self,
        bench: &Bench,
        cuts: u32,
        random: &mut Random,
        panics_left: &mut u32,
        outcome: &mut Outcome,
    ) -> Result<u32> {
        let job = bench.job_folder(self.name)?;
        let mut modules = Vec::new();
        for (index, mib) in self.modules_mib.iter().enumerate() {
            modules.push(job.join(format!("module-{index}")));
            create_medium(&modules[index], *mib)?;
        }
        let disk = job.join("disk-image");
        create_medium(&disk, self.disk_mib)?;
        for site in self.sites {
            fs::create_dir_all(job.join(site))
                .with_context(|| format!("creating the folder of {site}"))?;
        }
        let machine = Machine {
            image: bench.image()?,
            memory_mib: 768,
            persistence: Persistence::MemoryController,
            modules,
            disk: Some(disk),
            job: job.clone(),
            programs: bench.programs.folder.clone(),
        };
        let (mut boot, mut left) = (0, cuts);
        loop {
            let last = left == 0;
            fs::write(job.join("script"), self.script(boot, last)).context("writing the script")?;
            let mut running = machine.start()?;
            let ended = if last {
                self.look(running)
            } else {
                self.cut(&mut running, boot, random)
            };
            let gave_up = ended.as_ref().is_err_and(|error| error.is::<KernelPanic>());
            let moment = match ended {
                Err(error) if gave_up && *panics_left > 0 => {
                    println!("one more cut, by itself: {error:#}");
                    *panics_left -= 1;
                    if boot == 0 {
                        // The pool may be missing, or the file system may be incomplete.
                        return Ok(0);
                    }
                    "its kernel panicked".to_owned()
                }
                ended => ended?,
            };
            for site in self.sites {
                let judged = judge(bench, &job.join(site), boot);
                match if self.expected == Expected::Loss && boot > 0 {
                    a_loss_in(judged)
                } else {
                    judged
                } {
                    Ok(words) => {
                        println!("case passed: {site}: boot {boot}, {moment}: {words}");
                        outcome.passed += 1;
                    }
                    Err(error) => {
                        println!("case failed: {site}: boot {boot}, {moment}: {error:#}");
                        outcome.failed += 1;
                    }
                }
            }
            if outcome.failed > 0 {
                bail!("the media after the cut are kept in {}", job.display());
            }
            if last && !gave_up {
                break;
            }
            boot += 1;
            left -= u32::from(!last && !gave_up);
        }
        // The remains of a series that passed are useless and large.
        let _best_effort = fs::remove_dir_all(&job);
        Ok(cuts)
    }

    /// Lets the machine verify its pools.
    fn look(&self, running: Running) -> Result<String> {
        match running.finish(BOOT_MAX)? {
            0 => Ok("nothing cut".to_owned()),
            status => bail!("the last boot failed with status {status}"),
        }
    }

    /// Waits for the moment and cuts. Returns a description of the moment.
    fn cut(&self, running: &mut Running, boot: u32, random: &mut Random) -> Result<String> {
        // The first boot has nothing to recover, and the second must have something.
        let in_recovery = boot > 0 && random.below(RECOVERY_SHARE) == 0;
        let (sign, wait_ms) = if in_recovery {
            ("opening", random.below(RECOVERY_MAX_MS))
        } else {
            ("loading", random.below(self.load_max_ms))
        };
        for site in self.sites {
            running.wait_for(&format!("{site}/{sign}-{boot}"), BOOT_MAX)?;
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        running.cut_power()?;
        Ok(format!(
            "cut {wait_ms} ms after {sign}, {:.1} s after power-on",
            running.uptime().as_secs_f64()
        ))
    }

    fn script(&self, boot: u32, last: bool) -> String {
        let last = if last {
            "export STONECAST_LAST_BOOT=1\n"
        } else {
            ""
        };
        let sites = self.sites.join(" ");
        format!(
            ". /functions.sh\n{CLUSTER_PARTS}export STONECAST_BOOT={boot}\n{last}sites='{sites}'\n{SCRIPT}"
        )
    }
}

/// Compares the result of a site's newest boot with the earlier notes. Returns the judge's words.
fn judge(bench: &Bench, site: &Path, boot: u32) -> Result<String> {
    let mut command = Command::new(bench.programs.path("cli-it"));
    command
        .args(["--exact", JUDGE, "--ignored", "--nocapture"])
        .stdin(Stdio::null());
    command
        .env("STONECAST_SITE", site)
        .env("STONECAST_BOOT", boot.to_string());
    let output = command.output().context("starting the judge")?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{words}{}", String::from_utf8_lossy(&output.stderr));
    }
    let said = words.lines().find(|line| line.starts_with("boot "));
    Ok(said.context("the judge compared nothing")?.to_owned())
}

/// Accepts only the verdict that an acknowledged write is gone; everything else is a failure.
fn a_loss_in(judged: Result<String>) -> Result<String> {
    match judged {
        Ok(words) => bail!("nothing was lost, so losses cannot be seen here: {words}"),
        Err(error) => match format!("{error:#}")
            .lines()
            .find(|line| line.contains("last acknowledged"))
        {
            Some(words) => Ok(format!("the loss was seen: {words}")),
            None => Err(error.context("the comparison failed for another reason than a loss")),
        },
    }
}

/// Moments that follow from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
