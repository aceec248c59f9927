//! Addresses of the control plane: `verbs:HOST:PORT`, or as a URL `verbs://HOST:PORT`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use stonecast_fabric::DeviceError;

/// The prefix of addresses.
const SCHEME: &str = "verbs:";

/// The place at which a control plane listens: a host (name, IPv4, or IPv6 in brackets) and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControlAddress {
    host: String,
    port: u16,
}

impl ControlAddress {
    /// The addresses of the host's name.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, DeviceError> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found
            .map_err(|error| self.refuse(format!("{}: {error}", self.host)))?
            .collect();
        if found.is_empty() {
            Err(self.refuse(format!("{} has no address", self.host)))
        } else {
            Ok(found)
        }
    }

    /// An error about this address.
    pub(crate) fn refuse(&self, reason: String) -> DeviceError {
        DeviceError::Address {
            address: self.to_string(),
            reason,
        }
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(formatter, "{SCHEME}[{host}]:{port}")
        } else {
            write!(formatter, "{SCHEME}{host}:{port}")
        }
    }
}

impl FromStr for ControlAddress {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let wrong = || {
            DeviceError::Address {
            address: text.into(),
            reason: "it is not of the form verbs:HOST:PORT, such as verbs:192.0.2.7:7171 or verbs:[2001:db8::7]:7171".into(),
        }
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let odd = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'[' | b']' | b'/');
        if host.is_empty() || (bracketed.is_none() && host.contains(':')) || host.bytes().any(odd) {
            return Err(wrong());
        }
        Ok(Self {
            host: host.into(),
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_the_same_place() {
        for (text, shown) in [
            ("verbs:192.0.2.7:7171", "verbs:192.0.2.7:7171"),
            ("verbs://host.example:1", "verbs:host.example:1"),
            ("verbs:[2001:db8::7]:7171", "verbs:[2001:db8::7]:7171"),
        ] {
            assert_eq!(
                text.parse::<ControlAddress>().expect(text).to_string(),
                shown
            );
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_an_example() {
        for text in [
            "",
            "verbs:",
            "verbs:host",
            "verbs::7",
            "verbs:host:70000",
            "verbs:2001:db8::7:1",
            "shm:/a",
            "verbs:a b:1",
        ] {
            let refused = text.parse::<ControlAddress>().expect_err(text).to_string();
            assert!(
                refused.contains("verbs:192.0.2.7:7171"),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn a_name_without_an_address_is_refused() {
        let address: ControlAddress = "verbs:nobody.invalid:1"
            .parse()
            .expect("the address has the right form");
        assert!(matches!(
            address.resolve(),
            Err(DeviceError::Address { .. })
        ));
    }
}
