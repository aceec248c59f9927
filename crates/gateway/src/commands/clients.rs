//! `CLIENT LIST` and `CLIENT KILL`: which connections are meant, and the replies.

use std::net::SocketAddr;

use super::error::CommandError;
use super::operation::Arguments;
use super::options::{integer, is};
use crate::clients::Card;

/// The connections that a command selects: the connections that match all of its filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The numbers, if any are named.
    pub ids: Option<Vec<u64>>,
    /// The client's address; `Some(None)`: one that no client has.
    peer: Option<Option<SocketAddr>>,
    /// The gateway's address.
    local: Option<Option<SocketAddr>>,
    /// Whether the filter matches no connection, such as a filter for another type.
    is_nobody: bool,
    /// The name of the user.
    pub user: Option<Vec<u8>>,
    /// The least age in seconds.
    age_min: u64,
    /// Whether the connection of the command itself is meant, too.
    includes_own: bool,
}

impl Chosen {
    /// Of `CLIENT LIST [TYPE type | ID id...]`.
    pub fn of_list(arguments: Arguments<'_>) -> Result<Self, CommandError> {
        let all = Self {
            includes_own: true,
            ..Self::default()
        };
        match arguments.get(0) {
            None => Ok(all),
            Some(option) if is(option, "TYPE") && arguments.len() == 2 => Ok(Self {
                is_nobody: !is_normal(arguments.at(1))?,
                ..all
            }),
            Some(option) if is(option, "ID") && arguments.len() > 1 => {
                let ids = arguments.from(1);
                let ids = ids.iter().map(any_number);
                Ok(Self {
                    ids: Some(ids.collect::<Result<_, _>>()?),
                    ..all
                })
            }
            Some(_) => Err(CommandError::Syntax),
        }
    }

    /// Of `CLIENT KILL option value...`.
    pub fn of_kill(arguments: Arguments<'_>) -> Result<Self, CommandError> {
        let mut chosen = Self::default();
        let mut index = 0;
        while let Some(option) = arguments.get(index) {
            let value = arguments.get(index + 1).ok_or(CommandError::Syntax)?;
            index += 2;
            if is(option, "ID") {
                let id = number(value, "client-id should be greater than 0")?;
                chosen.ids = Some(vec![id]);
            } else if is(option, "TYPE") {
                chosen.is_nobody |= !is_normal(value)?;
            } else if is(option, "ADDR") {
                chosen.peer = Some(address(value));
            } else if is(option, "LADDR") {
                chosen.local = Some(address(value));
            } else if is(option, "USER") {
                chosen.user = Some(value.to_vec());
            } else if is(option, "SKIPME") && (is(value, "yes") || is(value, "no")) {
                chosen.includes_own = is(value, "no");
            } else if is(option, "MAXAGE") {
                chosen.age_min = number(value, "maxage is not an integer or out of range")?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(chosen)
    }

    /// Of `CLIENT KILL address`.
    pub fn of_address(text: &[u8]) -> Self {
        Self {
            peer: Some(address(text)),
            includes_own: true,
            ..Self::default()
        }
    }

    /// Whether the connection of `card` is meant, by the connection number `own` at a time since the start of the
    /// gateway.
    pub fn fits(&self, card: &Card, own: u64, now: std::time::Duration) -> bool {
        let has_number = self.ids.as_ref().is_none_or(|ids| ids.contains(&card.id));
        let is_at = |wanted: Option<Option<SocketAddr>>, at| wanted.is_none_or(|it| it == Some(at));
        let age = now.saturating_sub(card.began_at).as_secs();
        has_number
            && !self.is_nobody
            && self.user.as_ref().is_none_or(|name| card.is_of(name))
            && is_at(self.peer, card.peer)
            && is_at(self.local, card.local)
            && age >= self.age_min
            && (self.includes_own || card.id != own)
    }
}

/// An address as `CLIENT LIST` prints it; `None` if no client has such an address.
fn address(text: &[u8]) -> Option<SocketAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number that a connection may have or not; 0 has none.
fn any_number(text: &[u8]) -> Result<u64, CommandError> {
    let id = integer(text).map_err(|_| CommandError::Refused("Invalid client ID"))?;
    Ok(u64::try_from(id).unwrap_or(0))
}

fn number(text: &[u8], refusal: &'static str) -> Result<u64, CommandError> {
    let number = integer(text).ok().and_then(|it| u64::try_from(it).ok());
    number
        .filter(|&it| it > 0)
        .ok_or(CommandError::Refused(refusal))
}

/// Whether connections are of this type. All are normal.
fn is_normal(kind: &[u8]) -> Result<bool, CommandError> {
    match kind {
        _ if is(kind, "normal") => Ok(true),
        _ if ["master", "replica", "slave", "pubsub"]
            .iter()
            .any(|known| is(kind, known)) =>
        {
            Ok(false)
        }
        _ => Err(CommandError::ClientType(kind.escape_ascii().to_string())),
    }
}
