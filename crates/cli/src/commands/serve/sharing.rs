//! The flags of `serve` that admit clients over shared memory and limit their number, and the message about admission
//! at the start.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use nix::unistd::{Gid, Group, Uid, User};
use stonecast_kv::Places;
use stonecast_kv::limits::{CLIENTS, CLIENTS_MAX};

use crate::failure::Failure;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Clients over shared memory")]
pub struct SharingFlags {
    /// Permissions of the socket, octal: 0600 admits only the server's own user, 0660 also the group of the socket,
    /// 0666 every user. Clients of other users read everything, and write through memory that the server copies from.
    /// The folders above the socket have to admit the clients as well.
    #[arg(
        long,
        value_name = "MODE",
        env = "STONECAST_SOCKET_MODE",
        default_value = "0600"
    )]
    pub socket_mode: SocketMode,
    /// Group of the socket, by name or number; the server must be a member [default: the server's own].
    #[arg(long, value_name = "GROUP", env = "STONECAST_SOCKET_GROUP")]
    pub socket_group: Option<String>,
    /// Most clients at a time, up to 1024 [default: 256].
    #[arg(long, value_name = "COUNT", env = "STONECAST_CLIENTS_MAX")]
    pub clients_max: Option<NonZeroUsize>,
    /// Most clients of one user other than the server's own [default: a quarter of all].
    #[arg(long, value_name = "COUNT", env = "STONECAST_CLIENTS_PER_USER")]
    pub clients_per_user: Option<NonZeroUsize>,
    /// Most clients of one process [default: half of all].
    #[arg(long, value_name = "COUNT", env = "STONECAST_CLIENTS_PER_PROCESS")]
    pub clients_per_process: Option<NonZeroUsize>,
}

/// Permissions of a socket: a user who may write to the socket may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let mode = Some(digits)
            .filter(|digits| digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit)))
            .and_then(|digits| u32::from_str_radix(digits, 8).ok())
            .filter(|mode| *mode <= 0o777);
        let mode =
            mode.ok_or("the permissions of a socket are octal, such as 0600, 0660 or 0666")?;
        match mode & 0o600 {
            0o600 => Ok(Self(mode)),
            _ => {
                Err("the server's own user must be able to read and write its socket: 06..".into())
            }
        }
    }
}

impl SharingFlags {
    /// Number of the socket's group, if one was named.
    pub fn group(&self) -> Result<Option<u32>, Failure> {
        let Some(name) = &self.socket_group else {
            return Ok(None);
        };
        if let Ok(number) = name.parse() {
            return Ok(Some(number));
        }
        match Group::from_name(name) {
            Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
            Ok(None) => Err(Failure::usage(format!(
                "--socket-group: this machine has no group `{name}` (`getent group` lists them)"
            ))),
            Err(error) => Err(Failure::usage(format!(
                "--socket-group: `{name}` cannot be looked up: {error}"
            ))),
        }
    }

    /// The limits on the number of clients.
    pub fn places(&self) -> Result<Places, Failure> {
        let clients = self.clients_max.map_or(CLIENTS, NonZeroUsize::get);
        if clients > CLIENTS_MAX {
            return Err(Failure::usage(format!(
                "--clients-max is at most {CLIENTS_MAX}: every round of the server's loop looks at each client"
            )));
        }
        let shares = Places::of(clients);
        let get = |flag: Option<NonZeroUsize>, share| flag.map_or(share, NonZeroUsize::get);
        Ok(Places {
            clients,
            per_user: get(self.clients_per_user, shares.per_user).min(clients),
            per_process: get(self.clients_per_process, shares.per_process).min(clients),
        })
    }

    /// The users who may connect to the socket at `path`, in words. The socket must exist.
    pub fn admitted(&self, path: &Path) -> String {
        let own = Uid::effective();
        let mode = self.socket_mode.0;
        let group =
            std::fs::metadata(path).map_or(Gid::effective().as_raw(), |status| status.gid());
        let (by_group, by_all) = (mode & 0o020 != 0, mode & 0o002 != 0);
        let mut words = match (by_group, by_all) {
            (_, true) => "every user".to_owned(),
            (true, false) => format!("{} and members of {}", user(own), group_name(group)),
            (false, false) => format!("{} alone", user(own)),
        };
        words += &format!(" (socket {mode:04o})");
        let closed = closed_folder(path, by_group.then_some(group), by_all);
        if let Some(folder) = closed.filter(|_| by_group || by_all) {
            words += &format!(
                "; but the folder {} keeps other users out: listen in another folder (--listen shm:PATH), or open the folder \
                 (chmod)",
                folder.display()
            );
        }
        words
    }
}

fn user(number: Uid) -> String {
    match User::from_uid(number) {
        Ok(Some(user)) => format!("user {}", user.name),
        _ => format!("user {number}"),
    }
}

fn group_name(number: u32) -> String {
    match Group::from_gid(Gid::from_raw(number)) {
        Ok(Some(group)) => format!("group {}", group.name),
        _ => format!("group {number}"),
    }
}

/// The folder above `path` that keeps out users who may otherwise connect, if there is one.
fn closed_folder(path: &Path, group: Option<u32>, all: bool) -> Option<PathBuf> {
    let whole = std::fs::canonicalize(path.parent()?).ok()?;
    let is_open = |folder: &&Path| {
        std::fs::metadata(folder).is_ok_and(|status| {
            let (mode, of_group) = (status.mode(), group == Some(status.gid()));
            mode & 0o001 != 0 || (!all && of_group && mode & 0o010 != 0)
        })
    };
    whole
        .ancestors()
        .find(|folder| !is_open(folder))
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal_and_let_the_server_in() {
        for (text, mode) in [
            ("0600", 0o600),
            ("660", 0o660),
            ("0o666", 0o666),
            ("0777", 0o777),
        ] {
            assert_eq!(text.parse(), Ok(SocketMode(mode)), "{text}");
        }
        for wrong in ["", "0o", "rw-", "0800", "1777", "-600", "+600", "0x1b0"] {
            let refused = wrong.parse::<SocketMode>().unwrap_err();
            assert!(
                refused.contains("octal") || wrong.is_empty() || wrong == "0o",
                "{wrong}: {refused}"
            );
        }
        assert!(
            "0066"
                .parse::<SocketMode>()
                .unwrap_err()
                .contains("own user")
        );
    }
}
