//! Addresses of stores.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a configuration lives.
///
/// ```
/// # use stonecast_config_store::Address;
/// let address: Address = "etcd://ops:secret@10.0.0.1:2379,10.0.0.2:2379/stonecast/blue".parse()?;
/// assert_eq!(address.to_string(), "etcd://10.0.0.1:2379,10.0.0.2:2379/stonecast/blue");
/// assert!("etcd://10.0.0.1/blue".parse::<Address>().is_err());
/// # Ok::<(), stonecast_config_store::InvalidAddress>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// `file:PATH`: a directory on this host.
    File(PathBuf),
    /// `etcd://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME`.
    Etcd(EtcdAddress),
}

/// One key of an etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// `HOST:PORT` of some members, at least one.
    pub endpoints: Vec<String>,
    /// The key.
    pub key: String,
    /// User and password, where etcd asks for them.
    pub credentials: Option<(String, String)>,
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} names no store of configurations: {reason}; use file:PATH or etcd://HOST:PORT,HOST:PORT/NAME"
)]
pub struct InvalidAddress {
    /// The text, without its password.
    pub found: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let parsed = match text.split_once(':') {
            Some(("file", "")) => Err("the path is empty"),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("etcd", rest)) => parse_etcd(rest).map(Self::Etcd),
            _ => Err("it begins with neither file: nor etcd://"),
        };
        parsed.map_err(|reason| InvalidAddress {
            found: without_password(text),
            reason,
        })
    }
}

fn parse_etcd(rest: &str) -> Result<EtcdAddress, &'static str> {
    let rest = rest.strip_prefix("//").ok_or("two slashes are missing")?;
    let (authority, key) = rest.split_once('/').ok_or("the name is missing")?;
    if key.is_empty() {
        return Err("the name is missing");
    }
    let (credentials, endpoints) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((credentials, endpoints)) => {
            let credentials = credentials
                .split_once(':')
                .ok_or("the password is missing")?;
            (
                Some((credentials.0.into(), credentials.1.into())),
                endpoints,
            )
        }
    };
    let endpoints = endpoints.split(',').map(|endpoint| {
        let (host, port) = endpoint.rsplit_once(':').ok_or("a port is missing")?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        match (host.bytes().all(is_host) && !host.is_empty(), port.parse()) {
            (false, _) => Err("a host is missing, or is none"),
            (_, Err(_) | Ok(0u16)) => Err("a port is no number from 1 to 65535"),
            _ => Ok(endpoint.to_owned()),
        }
    });
    Ok(EtcdAddress {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        key: key.to_owned(),
        credentials,
    })
}

fn without_password(text: &str) -> String {
    match (text.find("//"), text.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}…{}", &text[..start + 2], &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// Without user and password: the address stands in messages.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "file:{}", path.display()),
            Self::Etcd(EtcdAddress { endpoints, key, .. }) => {
                write!(formatter, "etcd://{}/{key}", endpoints.join(","))
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_names_no_store_says_what_is_missing_and_shows_no_password() {
        for (text, complaint) in [
            ("", "neither"),
            ("./cluster", "neither"),
            ("file:", "path is empty"),
            ("etcd:host:1/x", "slashes"),
            ("etcd://host:1", "name is missing"),
            ("etcd://host:1/", "name is missing"),
            ("etcd://host/x", "port is missing"),
            ("etcd://host:1,/x", "port is missing"),
            ("etcd://:1/x", "host is missing"),
            ("etcd://ho st:1/x", "host is missing"),
            ("etcd://host:0/x", "no number"),
            ("etcd://host:99999/x", "no number"),
            ("etcd://ops@host:1/x", "password is missing"),
            ("etcd://ops:secret@host/x", "port is missing"),
        ] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(refused.contains(complaint), "{text}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn an_address_of_etcd_may_name_hosts_of_all_kinds() {
        let address = "etcd://[::1]:2379,db-1.example:2379/a/b".parse().unwrap();
        let Address::Etcd(etcd) = &address else {
            panic!("{address} names an etcd");
        };
        assert_eq!(etcd.endpoints, ["[::1]:2379", "db-1.example:2379"]);
        assert_eq!((&*etcd.key, &etcd.credentials), ("a/b", &None));
    }
}
