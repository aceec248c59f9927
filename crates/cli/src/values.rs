//! Values that are typed on the command line or written in the configuration file.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use stonecast::{Address, AddressError};
pub use stonecast_console::Size;

/// The message to a user of a build without verbs.
#[cfg(not(feature = "verbs"))]
const NO_VERBS: &str = "this build uses shared memory only (shm:PATH); a build for RDMA between machines is made with `cargo \
    build --release --features verbs`, which needs cmake and libclang (apt install cmake libclang-dev)";

/// Parses the address of a server, or of a cluster. The error explains what is wrong; the caller names the text.
pub fn address(text: &str) -> Result<Address, String> {
    #[cfg(not(feature = "verbs"))]
    if text.starts_with("verbs:") {
        return Err(NO_VERBS.to_owned());
    }
    text.parse().map_err(|error: AddressError| error.reason)
}

/// A time: `30s`, `500ms`, `1min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = humantime::parse_duration(text)
            .map_err(|_| "a time is a number with ms, s, min or h after it")?;
        if time.is_zero() {
            return Err("a time must be longer than 0".into());
        }
        Ok(Self(time))
    }
}

/// An address of the network: HOST:PORT, the host a number or `localhost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host as typed.
    pub host: String,
    /// The address that the host stands for.
    pub address: SocketAddr,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let local = text
            .strip_prefix("localhost:")
            .map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
        let address: SocketAddr = local
            .as_deref()
            .unwrap_or(text)
            .parse()
            .map_err(|_| "an address is HOST:PORT, such as 127.0.0.1:6380, [::1]:6380 or localhost:6380; localhost is the only \
                name allowed")?;
        let host = match local {
            Some(_) => "localhost".to_owned(),
            None => address.ip().to_string(),
        };
        Ok(Self { host, address })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(formatter)
    }
}

/// The fabric between server and clients of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Shared memory.
    SharedMemory,
    /// RDMA devices of this machine.
    #[cfg(feature = "verbs")]
    Verbs,
}

impl FromStr for Fabric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shm" => Ok(Self::SharedMemory),
            #[cfg(feature = "verbs")]
            "verbs" => Ok(Self::Verbs),
            #[cfg(not(feature = "verbs"))]
            "verbs" => Err(NO_VERBS.to_owned()),
            _ if text.starts_with("sim:") => Err(format!(
                "the laboratory measures simulated machines: `stonecast-lab ycsb --fabric {text}`"
            )),
            _ => Err("a fabric is shm or verbs".to_owned()),
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SharedMemory => "shm",
            #[cfg(feature = "verbs")]
            Self::Verbs => "verbs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_numbers_or_localhost() {
        for (text, host, address) in [
            ("127.0.0.1:1", "127.0.0.1", "127.0.0.1:1"),
            ("[::1]:2", "::1", "[::1]:2"),
            ("localhost:3", "localhost", "127.0.0.1:3"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((&*endpoint.host, &*endpoint.to_string()), (host, address));
        }
        for text in [
            "localhost",
            "localhost:",
            "localhost:x",
            "example.org:80",
            ":80",
            "80",
        ] {
            assert!(text.parse::<Endpoint>().unwrap_err().contains("HOST:PORT"));
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!("30s".parse(), Ok(Period(Duration::from_secs(30))));
        assert_eq!(
            "1min 500ms".parse(),
            Ok(Period(Duration::from_millis(60_500)))
        );
        for text in ["", "30", "x", "-1s", "0", "0s"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_the_fault_of_an_address() {
        assert_eq!(address("shm:./a/b").unwrap().to_string(), "shm:./a/b");
        for (text, reason) in [("shm:", "needs a path"), ("/tmp/socket", "shm:PATH")] {
            let refused = address(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
            assert!(
                !refused.contains("is not an address"),
                "clap says that: {refused}"
            );
        }
    }

    #[cfg(not(feature = "verbs"))]
    #[test]
    fn a_build_without_verbs_says_how_to_build_with_verbs() {
        let refused = address("verbs:host:1").unwrap_err();
        assert!(
            refused.contains("shm:PATH")
                && refused.contains("--features verbs")
                && refused.contains("libclang"),
            "{refused}"
        );
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn addresses_of_other_machines_are_a_host_and_a_port() {
        for text in ["verbs:host:1", "verbs://host:1"] {
            assert_eq!(address(text).unwrap().to_string(), "verbs:host:1");
        }
        assert!(
            address("verbs:host")
                .unwrap_err()
                .contains("verbs:HOST:PORT")
        );
    }
}
