//! Places for pools: a folder on the disk, a folder in volatile memory, and small media that fill up.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder that is removed when its value is dropped.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// A folder on the disk.
    pub fn on_disk() -> Self {
        // /var/tmp: /tmp is volatile memory on many machines.
        Self {
            folder: TempDir::with_prefix_in("stonecast-test-", "/var/tmp")
                .expect("/var/tmp can be written"),
        }
    }

    /// A folder in memory that does not survive power loss.
    pub fn in_volatile_memory() -> Self {
        Self {
            folder: TempDir::with_prefix_in("stonecast-test-", "/dev/shm")
                .expect("/dev/shm can be written"),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder, for a pool that does not exist yet.
    pub fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }
}

/// A mounted file system of its own. Unmounted when dropped.
pub struct Mount {
    point: PathBuf,
    _place: Place,
}

impl Mount {
    /// Volatile memory of `size` bytes.
    pub fn volatile(size: u64) -> Result<Self, String> {
        let place = Place::on_disk();
        let options = format!("size={size}");
        Self::attach(place, &["-t", "tmpfs", "-o", &options, "none"])
    }

    /// A disk of `size` bytes: ext4 in a file.
    pub fn disk(size: u64) -> Result<Self, String> {
        let place = Place::on_disk();
        let image = place.path().join("image");
        let file = std::fs::File::create(&image).expect("the image can be created");
        file.set_len(size).expect("the image can be as long");
        let image = image.to_str().expect("a name in UTF-8").to_owned();
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &image])?;
        Self::attach(place, &["-o", "loop", &image])
    }

    fn attach(place: Place, arguments: &[&str]) -> Result<Self, String> {
        let point = place.path().join("mount");
        std::fs::create_dir(&point).expect("the folder can be created");
        let target = point.to_str().expect("a name in UTF-8");
        run("mount", &[arguments, &[target]].concat())?;
        Ok(Self {
            point,
            _place: place,
        })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The unmount is lazy: files that the test left open are closed when its processes are gone.
        let _ = run("umount", &["--lazy", &self.point.to_string_lossy()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{program} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("{program} cannot be started: {error}")),
    }
}
