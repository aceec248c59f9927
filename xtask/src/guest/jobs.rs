//! The jobs: a machine, a script, a limit.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::guest::Bench;
use crate::guest::cuts::{Cuts, Expected};
use crate::guest::machine::{KernelPanic, Machine, Persistence, create_medium};
use crate::guest::programs::Set;
use crate::guest::report::outcome_of;
use crate::tally::Outcome;

/// A job.
pub struct Job {
    pub name: &'static str,
    pub what: &'static str,
    /// The programs of the job.
    pub programs: &'static [Set],
    pub run: fn(&Bench) -> Result<Outcome>,
}

/// Every job, in the order in which they run.
pub const JOBS: &[Job] = &[
    Job {
        name: "boot",
        what: "the machine itself: its kernel, its modules, and the folders that it shares",
        programs: &[],
        run: |bench| bench.script("boot", include_str!("../../guest/boot.sh"), &UNSAID),
    },
    Job {
        name: "memory-controller",
        what: "pools on persistent memory whose platform saves the content of the memory controller",
        programs: &[Set::Binary, Set::Tests],
        run: |bench| {
            bench.script(
                "memory-controller",
                include_str!("../../guest/memory-controller.sh"),
                &MEMORY_CONTROLLER,
            )
        },
    },
    Job {
        name: "cpu-cache",
        what: "pools on persistent memory whose platform saves its caches too",
        programs: &[Set::Binary, Set::Tests],
        run: |bench| {
            bench.script(
                "cpu-cache",
                include_str!("../../guest/cpu-cache.sh"),
                &CPU_CACHE,
            )
        },
    },
    Job {
        name: "unsaid",
        what: "pools on persistent memory whose firmware does not say what survives",
        programs: &[Set::Binary],
        run: |bench| bench.script("unsaid", include_str!("../../guest/unsaid.sh"), &UNSAID),
    },
    Job {
        name: "verbs",
        what: "the contract of the fabric over two soft-RoCE devices, with and without lost packets",
        programs: &[Set::Verbs],
        run: |bench| bench.script("verbs", include_str!("../../guest/verbs.sh"), &VERBS),
    },
    Job {
        name: "verbs-store",
        what: "plans, the log of REMOTELOG and the store over two soft-RoCE devices, with and without lost packets",
        programs: &[Set::Verbs],
        run: |bench| {
            bench.script(
                "verbs-store",
                include_str!("../../guest/verbs-store.sh"),
                &VERBS_STORE,
            )
        },
    },
    Job {
        name: "verbs-cluster",
        what: "three nodes over soft-RoCE devices at a switch: links are cut, and nodes are killed",
        programs: &[Set::Verbs],
        run: |bench| {
            bench.script(
                "verbs-cluster",
                include_str!("../../guest/verbs-cluster.sh"),
                &VERBS_CLUSTER,
            )
        },
    },
    Job {
        name: "power-cuts",
        what: "machines killed under load and booted again",
        programs: &[Set::Binary],
        run: |bench| CUTS.run(bench, bench.cuts),
    },
    Job {
        name: "power-cuts-control",
        what: "the same with a pool that syncs nothing: acknowledged writes must be lost, and the loss be seen",
        programs: &[Set::Binary],
        run: |bench| CONTROL.run(bench, 1),
    },
    Job {
        name: "cluster-power-cuts",
        what: "the power of three nodes over soft-RoCE is cut at once, under load",
        programs: &[Set::Verbs],
        run: |bench| CLUSTER_CUTS.run(bench, bench.cuts.div_ceil(CUTS_PER_RDMA_CUT)),
    },
    Job {
        name: "structures-power-cuts",
        what: "the power of back-ends of data structures is cut, which are reached over soft-RoCE, under load",
        programs: &[Set::Verbs],
        run: |bench| STRUCTURES_CUTS.run(bench, bench.cuts.div_ceil(CUTS_PER_RDMA_CUT)),
    },
];

const CUTS: Cuts = Cuts {
    name: "power-cuts",
    sites: &["devdax", "dax-file-system", "disk"],
    modules_mib: &[128, 160],
    disk_mib: 160,
    load_max_ms: 1500,
    expected: Expected::EverythingAcknowledged,
};

/// Servers over soft-RoCE take longer than three pools over shared memory until they are under load.
const CUTS_PER_RDMA_CUT: u32 = 10;

const CLUSTER_CUTS: Cuts = Cuts {
    name: "cluster-power-cuts",
    sites: &["cluster"],
    modules_mib: &[128, 128, 128],
    disk_mib: 64,
    // Each write goes to three nodes.
    load_max_ms: 6000,
    expected: Expected::EverythingAcknowledged,
};

const STRUCTURES_CUTS: Cuts = Cuts {
    name: "structures-power-cuts",
    sites: &["structures-one-sided", "structures-messages"],
    modules_mib: &[64, 64],
    disk_mib: 16,
    load_max_ms: 1500,
    expected: Expected::EverythingAcknowledged,
};

/// The control, which shows that losses can be seen: a pool that syncs nothing must lose acknowledged writes.
const CONTROL: Cuts = Cuts {
    name: "power-cuts-control",
    sites: &["unsynced"],
    modules_mib: &[],
    disk_mib: 160,
    load_max_ms: 1500,
    expected: Expected::Loss,
};

/// The hardware of a script's machine.
struct Hardware {
    persistence: Persistence,
    /// Sizes of its persistent memory modules.
    modules_mib: &'static [u64],
    /// Size of its disk, if it has one.
    disk_mib: Option<u64>,
    limit: Duration,
}

/// The longest run of a script: several times the usual duration.
const LIMIT: Duration = Duration::from_secs(300);

const MEMORY_CONTROLLER: Hardware = Hardware {
    persistence: Persistence::MemoryController,
    modules_mib: &[128, 256],
    disk_mib: None,
    limit: LIMIT,
};

const CPU_CACHE: Hardware = Hardware {
    persistence: Persistence::CpuCache,
    // xfs needs at least 300 MiB.
    modules_mib: &[128, 400],
    ..MEMORY_CONTROLLER
};

const UNSAID: Hardware = Hardware {
    persistence: Persistence::Unsaid,
    modules_mib: &[64],
    ..MEMORY_CONTROLLER
};

const VERBS: Hardware = Hardware {
    modules_mib: &[128],
    ..MEMORY_CONTROLLER
};

// The stories wait for one another on two processors, so a busy host slows them more than others: beside builds, tests
// and simulations they have taken 17 minutes.
const VERBS_STORE: Hardware = Hardware {
    disk_mib: Some(512),
    limit: Duration::from_secs(1800),
    ..VERBS
};

// Each story starts and loses nodes, whose leases take seconds.
const VERBS_CLUSTER: Hardware = Hardware {
    modules_mib: &[128, 128, 128],
    disk_mib: Some(128),
    limit: Duration::from_secs(1200),
    ..MEMORY_CONTROLLER
};

/// Number of times that a script is started if the guest's kernel panics.
const ATTEMPTS: u32 = 3;

/// Variables of this process that scripts see, too: the lengths of runs.
const HANDED_ON: &[&str] = &["STONECAST_QUIESCE_TRIES", "STONECAST_CLUSTER_LEASE_S"];

/// Functions of the scripts for pools.
const POOLS: &str = include_str!("../../guest/pools.sh");
/// Functions of the scripts for clusters.
pub const CLUSTER_PARTS: &str = include_str!("../../guest/cluster-parts.sh");

impl Bench {
    /// Runs a script on a fresh machine, and again from the start if the machine's kernel panics.
    fn script(&self, name: &str, script: &str, hardware: &Hardware) -> Result<Outcome> {
        for _ in 1..ATTEMPTS {
            match self.attempt(name, script, hardware) {
                Err(error) if error.is::<KernelPanic>() => println!("{name} starts again: {error}"),
                outcome => return outcome,
            }
        }
        self.attempt(name, script, hardware)
    }

    fn attempt(&self, name: &str, script: &str, hardware: &Hardware) -> Result<Outcome> {
        let job = self.job_folder(name)?;
        fs::write(
            job.join("script"),
            format!(
                ". /functions.sh\n{}{POOLS}{CLUSTER_PARTS}{script}",
                handed_on()?
            ),
        )
        .context("writing the script")?;
        let mut modules = Vec::new();
        for (index, mib) in hardware.modules_mib.iter().enumerate() {
            let path = job.join(format!("module-{index}"));
            create_medium(&path, *mib)?;
            modules.push(path);
        }
        let disk = hardware.disk_mib.map(|_| job.join("disk-image"));
        if let Some((path, mib)) = disk.as_ref().zip(hardware.disk_mib) {
            create_medium(path, mib)?;
        }
        let machine = Machine {
            image: self.image()?,
            memory_mib: 1024,
            persistence: hardware.persistence,
            modules: modules.clone(),
            disk: disk.clone(),
            job: job.clone(),
            programs: self.programs.folder.clone(),
        };
        let status = machine.start()?.finish(hardware.limit)?;
        for medium in modules.into_iter().chain(disk) {
            // A leftover medium only takes space.
            let _best_effort = fs::remove_file(medium);
        }
        let text = |name: &str| {
            String::from_utf8_lossy(&fs::read(job.join(name)).unwrap_or_default()).into_owned()
        };
        Ok(outcome_of(&text("output"), &text("not-run"), status))
    }
}

/// Lines that set the variables of [`HANDED_ON`] that this process has. Each value is a number.
fn handed_on() -> Result<String> {
    let mut lines = String::new();
    for name in HANDED_ON {
        if let Ok(value) = std::env::var(name) {
            let number: u64 = value
                .parse()
                .with_context(|| format!("{name} must be a number, and is {value}"))?;
            lines += &format!("export {name}={number}\n");
        }
    }
    Ok(lines)
}
