//! A guest machine: started, watched, and ended by its script, by its time limit, or by a power cut.
//!
//! The machine is emulated, so it runs wherever QEMU runs. The machine's persistent memory is a file, mapped shared: a
//! store of the guest is in the host's memory at that moment, and stays when the process is killed. The folder of the
//! boot is shared through a file protocol without a cache in the guest: a write of the guest returns when the host's
//! kernel has the bytes.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::guest::image::Image;

const QEMU: &str = "qemu-system-x86_64";
/// Interval at which a running machine is checked.
const LOOK: Duration = Duration::from_millis(20);
/// Longest time until the script runs.
const START_MAX: Duration = Duration::from_secs(120);
/// Number of attempts to start a machine until its script runs.
const ATTEMPTS: u32 = 3;
/// The area at the end of a module that describes its namespaces.
const LABEL_SIZE: u64 = 2 << 20;

/// The firmware's statement about what survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The memory controller and the modules.
    MemoryController,
    /// The processor's caches too.
    CpuCache,
    /// No statement.
    Unsaid,
}

/// The description of a machine.
pub struct Machine {
    /// The guest to boot.
    pub image: Image,
    /// Ordinary memory.
    pub memory_mib: u32,
    /// The firmware's statement about persistent memory.
    pub persistence: Persistence,
    /// Persistent memory modules; each is as large as its file.
    pub modules: Vec<PathBuf>,
    /// A disk without a cache of its own: acknowledged writes are in the host's memory.
    pub disk: Option<PathBuf>,
    /// The folder of this boot, with the `script` to run. The machine leaves `output`, `status` and `console` in the
    /// folder.
    pub job: PathBuf,
    /// Files for the script, read only.
    pub programs: PathBuf,
}

/// A machine that runs. Killed when dropped.
pub struct Running {
    child: Child,
    job: PathBuf,
    start: Instant,
    shown: u64,
    /// A lock that is held while the machine runs: emulation takes all processors of a small host.
    _lock: File,
}

/// The guest's kernel panicked. Emulation of two processors sometimes breaks a kernel that patches its own
/// instructions, at its start and whenever it switches a feature on. The programs under test cannot cause such a panic,
/// so a panic says nothing about them: the script runs again, and under power cuts the panic counts as one more cut.
#[derive(Debug)]
pub struct KernelPanic {
    words: String,
}

impl std::fmt::Display for KernelPanic {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the guest's kernel panicked:\n{}", self.words)
    }
}

impl std::error::Error for KernelPanic {}

/// The console's message of a panic.
const PANIC: &str = "Kernel panic - not syncing";

/// A file of `mib` MiB of zeros for a module, including its labels, or for a disk.
pub fn create_medium(path: &Path, mib: u64) -> Result<()> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.set_len((mib << 20) + LABEL_SIZE)
        .with_context(|| format!("making room in {}", path.display()))
}

impl Machine {
    /// Switches the machine on, and waits until its script runs. Emulation of two processors sometimes breaks a kernel
    /// that patches its own instructions at its start; the media are then untouched, and the machine is switched on
    /// again.
    pub fn start(&self) -> Result<Running> {
        let mut attempt = 1;
        loop {
            let mut running = self.power_on()?;
            match running.wait_for("output", START_MAX) {
                Ok(()) => return Ok(running),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(error) => println!(
                    "the guest's kernel ended before its script, another attempt: {error:#}"
                ),
            }
            attempt += 1;
        }
    }

    fn power_on(&self) -> Result<Running> {
        let lock = lock()?;
        for name in ["output", "status", "console", "not-run"] {
            let _may_not_exist = fs::remove_file(self.job.join(name));
        }
        let words = File::create(self.job.join("qemu"))
            .context("creating a file for the messages of QEMU")?;
        let mut command = Command::new(QEMU);
        command
            .args(self.arguments()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words);
        let child = command
            .spawn()
            .with_context(|| format!("starting {QEMU}"))?;
        Ok(Running {
            child,
            job: self.job.clone(),
            start: Instant::now(),
            shown: 0,
            _lock: lock,
        })
    }

    fn arguments(&self) -> Result<Vec<String>> {
        let said = match self.persistence {
            Persistence::MemoryController => ",nvdimm-persistence=mem-ctrl",
            Persistence::CpuCache => ",nvdimm-persistence=cpu",
            Persistence::Unsaid => "",
        };
        let folder = |path: &Path| path.display().to_string();
        let mut arguments = vec![
            "-machine".to_owned(),
            format!("pc,nvdimm=on{said}"),
            "-accel".to_owned(),
            "tcg".to_owned(),
            "-cpu".to_owned(),
            "max".to_owned(),
            "-smp".to_owned(),
            "2".to_owned(),
            "-m".to_owned(),
            format!("{}M,slots=4,maxmem=8G", self.memory_mib),
            "-display".to_owned(),
            "none".to_owned(),
            "-monitor".to_owned(),
            "none".to_owned(),
            "-nic".to_owned(),
            "none".to_owned(),
            "-no-reboot".to_owned(),
            "-serial".to_owned(),
            format!("file:{}", folder(&self.job.join("console"))),
            "-kernel".to_owned(),
            folder(&self.image.kernel),
            "-initrd".to_owned(),
            folder(&self.image.initrd),
            "-append".to_owned(),
            // On a busy host, an interrupt of the timer may come late, which the kernel would take for a broken timer.
            "console=ttyS0 panic=-1 quiet mitigations=off nokaslr no_timer_check nowatchdog random.trust_cpu=on".to_owned(),
            "-virtfs".to_owned(),
            format!("local,path={},mount_tag=job,security_model=none", folder(&self.job)),
            "-virtfs".to_owned(),
            format!("local,path={},mount_tag=programs,security_model=none,readonly=on", folder(&self.programs)),
        ];
        for (index, path) in self.modules.iter().enumerate() {
            let size = fs::metadata(path)
                .with_context(|| format!("looking at {}", path.display()))?
                .len();
            arguments.extend([
                "-object".to_owned(),
                format!(
                    "memory-backend-file,id=memory{index},share=on,mem-path={},size={size}",
                    folder(path)
                ),
                "-device".to_owned(),
                format!("nvdimm,id=nvdimm{index},memdev=memory{index},label-size={LABEL_SIZE}"),
            ]);
        }
        if let Some(path) = &self.disk {
            // A kill of the machine leaves the host's page cache, so the disk need not wait for the host's own disk:
            // bytes that the guest wrote to its disk are kept, and bytes in the guest's page cache are lost.
            arguments.push("-drive".to_owned());
            arguments.push(format!(
                "file={},format=raw,if=virtio,cache=unsafe",
                folder(path)
            ));
        }
        Ok(arguments)
    }
}

impl Running {
    /// Waits until the machine is off, showing the output of its script. Returns the script's exit
    /// status; an error if the machine was not off within `limit`, or ended without a status.
    pub fn finish(mut self, limit: Duration) -> Result<i32> {
        while self
            .child
            .try_wait()
            .context("waiting for the guest")?
            .is_none()
        {
            self.show()?;
            if self.start.elapsed() > limit {
                self.cut_power()?;
                self.show()?;
                bail!(
                    "the guest did not end within {} s; its console said:\n{}",
                    limit.as_secs(),
                    self.last_words()
                );
            }
            sleep(LOOK);
        }
        self.show()?;
        let status = fs::read_to_string(self.job.join("status")).unwrap_or_default();
        match status.trim().parse() {
            Ok(status) => Ok(status),
            Err(_) => Err(self.end_of_its_own("without a status".to_owned())),
        }
    }

    /// Waits until the script has created the file `name` in the folder of the boot.
    pub fn wait_for(&mut self, name: &str, limit: Duration) -> Result<()> {
        let path = self.job.join(name);
        while !path.exists() {
            if let Some(status) = self.child.try_wait().context("waiting for the guest")? {
                return Err(self.end_of_its_own(format!("({status}) before it made {name}")));
            }
            if self.start.elapsed() > limit {
                self.cut_power()?;
                bail!(
                    "the guest did not make {name} within {} s; it said:\n{}",
                    limit.as_secs(),
                    self.last_words()
                );
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Time since the machine was switched on.
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// Cuts the power: the machine ends at any instruction.
    pub fn cut_power(&mut self) -> Result<()> {
        self.child.kill().context("killing the guest")?;
        self.child.wait().context("waiting for the killed guest")?;
        Ok(())
    }

    /// Prints the script's output since the last call.
    fn show(&mut self) -> Result<()> {
        use std::io::{Seek as _, SeekFrom};
        let Ok(mut file) = File::open(self.job.join("output")) else {
            return Ok(());
        };
        file.seek(SeekFrom::Start(self.shown))
            .context("reading the guest's output")?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .context("reading the guest's output")?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.shown += whole as u64;
        String::from_utf8_lossy(&bytes[..whole])
            .lines()
            .for_each(|line| println!("guest| {line}"));
        Ok(())
    }

    /// The error of a machine that is off.
    fn end_of_its_own(&self, how: String) -> anyhow::Error {
        let words = self.last_words();
        let console = fs::read(self.job.join("console")).unwrap_or_default();
        match String::from_utf8_lossy(&console).contains(PANIC) {
            true => KernelPanic { words }.into(),
            false => anyhow!("the guest ended {how}; it said:\n{words}"),
        }
    }

    /// The last lines of the guest and of QEMU.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for name in ["qemu", "console", "output"] {
            let text = fs::read(self.job.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(40)..] {
                words += &format!("{name}: {line}\n");
            }
        }
        words
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _may_have_ended = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The environment variable that names the file that is locked while a guest runs, for shared machines.
const LOCK_VARIABLE: &str = "STONECAST_GUEST_LOCK";

fn lock() -> Result<File> {
    let path = std::env::var_os(LOCK_VARIABLE).map_or_else(
        || std::env::temp_dir().join("stonecast-guest.lock"),
        PathBuf::from,
    );
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("opening {}", path.display()))?;
    file.lock()
        .with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}
