//! The program apt, on machines that have apt and for users who may install packages.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Fetches the lists of packages, once in the life of this process. Returns `false` if apt failed.
pub fn update() -> bool {
    static UPDATED: OnceLock<bool> = OnceLock::new();
    *UPDATED.get_or_init(|| apt_get(&["update"]))
}

/// Installs `packages`, all or none. Returns `false` if apt failed.
pub fn install(packages: &[&str]) -> bool {
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments)
}

/// Returns whether this machine runs Debian: other distributions have other packages and other keys.
pub fn is_debian() -> bool {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    text.lines().any(|line| line == "ID=debian")
}

/// The mirror from which this machine fetches Debian packages.
pub fn mirror() -> String {
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(ORIGIN)"])
        .stdin(Stdio::null())
        .output();
    let targets = targets.map_or_else(|_| Vec::new(), |output| output.stdout);
    mirror_of(&String::from_utf8_lossy(&targets))
        .unwrap_or("http://deb.debian.org/debian")
        .to_owned()
}

/// The first of the lines `URI ORIGIN` that is a mirror of Debian itself.
fn mirror_of(targets: &str) -> Option<&str> {
    let mut mirrors = targets
        .lines()
        .filter_map(|line| line.strip_suffix(" Debian"));
    mirrors.find(|uri| uri.starts_with("http") && !uri.contains("security"))
}

/// Another step may install something at the same time.
const WAIT_FOR_THE_LOCK: &str = "DPkg::Lock::Timeout=300";

fn apt_get(arguments: &[&str]) -> bool {
    println!("$ apt-get {}", arguments.join(" "));
    let output = Command::new("apt-get")
        .args(["--option", WAIT_FOR_THE_LOCK])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output();
    let words = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    println!("apt-get {} failed: {}", arguments.join(" "), words.trim());
    false
}

#[cfg(test)]
mod tests {
    use super::mirror_of;

    #[test]
    fn a_mirror_is_one_of_debian_itself() {
        let targets = "https://packages.example/apt Example\n\
                       http://mirror.example/debian-security Debian\n\
                       http://mirror.example/debian Debian\n";
        assert_eq!(mirror_of(targets), Some("http://mirror.example/debian"));
        assert_eq!(mirror_of(""), None);
    }
}
