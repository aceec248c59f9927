//! Addresses of stores.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

mod options;

use self::options::Options;

/// The place of a configuration.
///
/// ```
/// # use stonecast_config_store::Address;
/// let address: Address = "etcd://ops:secret@10.0.0.1:2379,10.0.0.2:2379/stonecast/blue".parse()?;
/// assert_eq!(address.to_string(), "etcd://10.0.0.1:2379,10.0.0.2:2379/stonecast/blue");
/// let encrypted: Address = "etcds://db-1:2379/blue?cacert=/etc/etcd/ca.pem".parse()?;
/// assert_eq!(encrypted.to_string(), "etcds://db-1:2379/blue");
///
/// let refused = "etcds://db-1:2379/blue".parse::<Address>().unwrap_err();
/// assert_eq!(refused.reason, "cacert is missing, the file of the authority that signed etcd's certificates");
/// assert!(refused.to_string().contains("etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE&cert=FILE&key=FILE"));
/// # Ok::<(), stonecast_config_store::InvalidAddress>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// `file:PATH`: a directory on this host.
    File(PathBuf),
    /// `etcd://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME`, or `etcds://` with the same parts, followed by
    /// `?cacert=FILE[&cert=FILE&key=FILE]`. Instead of `USER:PASSWORD@`, both may have `USER@` and the option
    /// `password_file=FILE`.
    Etcd(EtcdAddress),
}

/// One key of an etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// `HOST:PORT` of some members, at least one.
    pub endpoints: Vec<String>,
    /// The key.
    pub key: String,
    /// User and password, if etcd requires them.
    pub credentials: Option<Credentials>,
    /// The files for connections over TLS; `None` if connections are not encrypted.
    pub tls: Option<TlsFiles>,
}

/// A user of an etcd. In the text of an address, `%2F` stands for a slash, as in every URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password, or the place that has it.
    pub password: Password,
}

/// The password of a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself. The list of processes shows an address that a command line has.
    Text(String),
    /// A file whose content is the password, and which not every user may read. One end of a line is not part of the
    /// password.
    File(PathBuf),
}

/// Files in PEM that connections over TLS need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that signed the certificates of etcd.
    pub cacert: PathBuf,
    /// The certificate that this program presents to an etcd that requires one.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by the certificates that lead to its authority.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} names no store of configurations: {reason}; use file:PATH, or etcd://HOST:PORT,HOST:PORT/NAME, or over TLS \
     etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE&cert=FILE&key=FILE"
)]
pub struct InvalidAddress {
    /// The text, without its password.
    pub found: String,
    /// The mistake.
    pub reason: &'static str,
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let parsed = match text.split_once(':') {
            Some(("file", "")) => Err("the path is empty"),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("etcd", rest)) => parse_etcd(rest, Scheme::Plain).map(Self::Etcd),
            Some(("etcds", rest)) => parse_etcd(rest, Scheme::Encrypted).map(Self::Etcd),
            _ => Err("it begins with neither file: nor etcd:// nor etcds://"),
        };
        parsed.map_err(|reason| InvalidAddress {
            found: without_password(text),
            reason,
        })
    }
}

#[derive(Clone, Copy)]
enum Scheme {
    Plain,
    Encrypted,
}

fn parse_etcd(rest: &str, scheme: Scheme) -> Result<EtcdAddress, &'static str> {
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let options = Options::parse(options)?;
    let tls = match scheme {
        Scheme::Plain => options.without_tls().map(|()| None)?,
        Scheme::Encrypted => Some(options.tls()?),
    };
    let rest = rest.strip_prefix("//").ok_or("two slashes are missing")?;
    let (authority, key) = rest.split_once('/').ok_or("the name is missing")?;
    if key.is_empty() {
        return Err("the name is missing");
    }
    // If the rest of a password were taken for a name, messages would show it.
    if key.contains('@') {
        return Err("the name has an @; write %2F for a slash in a password");
    }
    let (user, endpoints) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((user, endpoints)) => (Some(user), endpoints),
    };
    let endpoints = endpoints.split(',').map(parse_endpoint);
    Ok(EtcdAddress {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        key: key.to_owned(),
        credentials: parse_credentials(user, options.password_file)?,
        tls,
    })
}

/// Parses the part before the `@`: `USER:PASSWORD`, or `USER` beside a file with the password.
fn parse_credentials(
    text: Option<&str>,
    file: Option<PathBuf>,
) -> Result<Option<Credentials>, &'static str> {
    let (user, password) = match (text.map(|text| (text, text.split_once(':'))), file) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err("a password_file needs a user, USER@ before the hosts"),
        (Some((_, None)), None) => {
            return Err("the password is missing: write USER:PASSWORD@, or name a password_file");
        }
        (Some((_, Some(_))), Some(_)) => {
            return Err("the password is in the address and in a password_file");
        }
        (Some((user, None)), Some(file)) => (user, Password::File(file)),
        (Some((_, Some((user, password)))), None) => (user, Password::Text(decode(password)?)),
    };
    let user = decode(user)?;
    Ok(Some(Credentials { user, password }))
}

fn parse_endpoint(endpoint: &str) -> Result<String, &'static str> {
    let (host, port) = endpoint.rsplit_once(':').ok_or("a port is missing")?;
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_host = match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_part_of_name),
    };
    match (is_host, port.parse()) {
        (false, _) if host.parse::<Ipv6Addr>().is_ok() => {
            Err("an IPv6 address needs brackets, followed by a port")
        }
        (false, _) => Err("a host is missing or invalid"),
        (_, Err(_) | Ok(0u16)) => Err("a port is not a number from 1 to 65535"),
        _ => Ok(endpoint.to_owned()),
    }
}

fn decode(text: &str) -> Result<String, &'static str> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err("the bytes encoded with % are not UTF-8"),
    }
}

/// Hides everything before the last `@`, in a text that may have any mistake.
fn without_password(text: &str) -> String {
    let Some(end) = text.rfind('@') else {
        return text.to_owned();
    };
    let scheme = text[..end].find(':').map_or(0, |colon| colon + 1);
    let slashes = text[scheme..end].bytes().take_while(|&byte| byte == b'/');
    let start = scheme + slashes.count();
    format!("{}…{}", &text[..start], &text[end..])
}

/// Omits user, password and files: messages show the address.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "file:{}", path.display()),
            Self::Etcd(EtcdAddress {
                endpoints,
                key,
                tls,
                ..
            }) => {
                let scheme = if tls.is_some() { "etcds" } else { "etcd" };
                write!(formatter, "{scheme}://{}/{key}", endpoints.join(","))
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
    fn an_address_that_names_no_store_is_refused_with_the_mistake_and_without_the_password() {
        for (text, complaint) in [
            ("", "neither"),
            ("./cluster", "neither"),
            ("https://ops:secret@host:1/x", "neither"),
            ("file:", "path is empty"),
            ("etcd:host:1/x", "slashes"),
            ("etcd:ops:secret@host:1/x", "slashes"),
            ("etcd://host:1", "name is missing"),
            ("etcd://host:1/", "name is missing"),
            ("etcd://host/x", "port is missing"),
            ("etcd://host:1,/x", "port is missing"),
            ("etcd://:1/x", "host is missing"),
            ("etcd://ho st:1/x", "host is missing"),
            ("etcd://[host]:1/x", "host is missing"),
            ("etcd://2001:db8::1:2379/x", "needs brackets"),
            ("etcd://host:0/x", "not a number"),
            ("etcd://host:99999/x", "not a number"),
            ("etcd://ops@host:1/x", "password is missing"),
            ("etcd://ops:secret@host/x", "port is missing"),
            ("etcd://ops:1/secret@host:1/x", "write %2F"),
            ("etcd://ops:%ffsecret@host:1/x", "not UTF-8"),
            ("etcd://host:1/x?cacert=a", "etcds:// asks for"),
            ("etcds://host:1/x", "cacert is missing"),
            ("etcds://host:1/x?cert=b&key=c", "cacert is missing"),
            ("etcds://host:1/x?cacert=a&cert=b", "belong together"),
            ("etcds://host:1/x?cacert=a&key=c", "belong together"),
            ("etcds://host:1/x?cacert=a&cacert=b", "named twice"),
            ("etcds://host:1/x?cacert", "no name"),
            ("etcds://host:1/x?cacert=", "is empty"),
            (
                "etcds://host:1/x?ca=a",
                "cacert, cert, key and password_file may follow",
            ),
            ("etcd://host:1/x?password_file=a", "needs a user"),
            (
                "etcd://ops:secret@host:1/x?password_file=a",
                "in the address and in",
            ),
            ("etcd://ops@host:1/x?password_file=", "is empty"),
            (
                "etcd://ops@host:1/x?password_file=a&key=b",
                "etcds:// asks for",
            ),
        ] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(refused.contains(complaint), "{text}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    fn etcd(text: &str) -> EtcdAddress {
        match text.parse().unwrap() {
            Address::Etcd(etcd) => etcd,
            Address::File(path) => panic!("{text} is not a path: {}", path.display()),
        }
    }

    #[test]
    fn an_address_of_etcd_may_name_hosts_of_all_kinds() {
        let etcd = etcd("etcd://[::1]:2379,db-1.example:2379/a/b");
        assert_eq!(etcd.endpoints, ["[::1]:2379", "db-1.example:2379"]);
        assert_eq!(&*etcd.key, "a/b");
        assert!(etcd.credentials.is_none());
    }

    #[test]
    fn a_password_and_the_path_of_a_file_may_have_any_character() {
        let etcd = etcd("etcds://o%3Aps:s%2F%40%25@h:1/x?cacert=/a%26b&cert=/c=d&key=e/f.pem");
        let credentials = Credentials {
            user: "o:ps".to_owned(),
            password: Password::Text("s/@%".to_owned()),
        };
        assert!(etcd.credentials == Some(credentials));
        let files = TlsFiles {
            cacert: "/a&b".into(),
            identity: Some(Identity {
                cert: "/c=d".into(),
                key: "e/f.pem".into(),
            }),
        };
        assert_eq!(etcd.tls, Some(files));
    }
    #[test]
    fn a_password_may_be_in_a_file_with_and_without_tls() {
        for text in [
            "etcd://o%40ps@h:1/x?password_file=/run/a%26b",
            "etcds://o%40ps@h:1/x?password_file=/run/a%26b&cacert=ca.pem",
        ] {
            let credentials = Credentials {
                user: "o@ps".to_owned(),
                password: Password::File("/run/a&b".into()),
            };
            assert!(etcd(text).credentials == Some(credentials), "{text}");
            let shown = text.parse::<Address>().unwrap().to_string();
            assert!(shown.ends_with("://h:1/x"), "{shown}");
        }
    }
}
