//! Flags that several commands share.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use stonecast::{Address, Connector};

use crate::failure::Failure;
use crate::values;

/// Default folder of the pool.
pub const DATA: &str = "./stonecast-data";

/// The choice of a command that prints one JSON object for a program, or words for a person.
#[derive(Debug, Args)]
pub struct OutputFlags {
    /// Prints one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The choice of a command that does many operations at a time.
#[derive(Debug, Args)]
pub struct FlightFlags {
    /// Operations in flight at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub in_flight: u32,
}

/// The server's address, and the settings to reach it.
#[derive(Debug)]
pub struct Connection {
    /// The address at which the server listens.
    pub address: Address,
    /// The settings for addresses of the form verbs:HOST:PORT.
    pub verbs: VerbsFlags,
}

/// The arguments that make a [`Connection`].
#[derive(Args)]
struct ConnectionFlags {
    /// Server to connect to, shm:PATH or verbs://HOST:PORT, or cluster:URL with the store of the cluster's
    /// configuration [default: the address of `serve` with the same settings].
    #[arg(long, value_name = "URL", env = "STONECAST_CONNECT", value_parser = values::address)]
    connect: Option<Address>,
    /// Folder or device of the server's pool, which determines the socket.
    #[arg(long, value_name = "DIR", env = "STONECAST_DATA", default_value = DATA)]
    data: PathBuf,
    /// The addresses of `serve`, from the environment or the file.
    #[arg(long, value_name = "URL", env = "STONECAST_LISTEN", hide = true, value_parser = values::address)]
    server_listens: Vec<Address>,
    #[command(flatten)]
    verbs: VerbsFlags,
}

impl ConnectionFlags {
    /// Chooses the address of the nearest source: a typed folder beats an address from the environment.
    fn settle(self, source: impl Fn(&str) -> Option<ValueSource>) -> Connection {
        let named = [
            (source("connect"), self.connect),
            (
                source("server_listens"),
                self.server_listens.into_iter().next(),
            ),
        ];
        let of_pool = (source("data"), Some(Address::of_pool(&self.data)));
        // The first of equally near sources counts.
        let nearest = named.into_iter().chain([of_pool]).rev();
        let address = nearest
            .filter_map(|(source, address)| Some((source, address?)))
            .max_by_key(|(source, _)| *source)
            .map(|(_, address)| address)
            .expect("the folder has a default");
        Connection {
            address,
            verbs: self.verbs,
        }
    }
}

impl Args for Connection {
    fn augment_args(command: clap::Command) -> clap::Command {
        ConnectionFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ConnectionFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Connection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = ConnectionFlags::from_arg_matches(matches)?;
        Ok(flags.settle(|name| matches.value_source(name)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The settings for addresses of the form verbs:HOST:PORT.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    not(feature = "verbs"),
    allow(
        dead_code,
        reason = "one configuration serves builds with and without verbs"
    )
)]
pub struct VerbsFlags {
    /// The file of keys that prove the identity of clients.
    pub keys: Option<PathBuf>,
    /// RDMA device; `None` for the first one.
    pub rdma_device: Option<String>,
    /// Entry of the device's table of addresses.
    pub gid_index: Option<u8>,
    /// The first typed flag. Settings in the environment or the file are for all commands, and have no meaning for
    /// commands that use another fabric.
    typed: Option<&'static str>,
}

impl VerbsFlags {
    /// The flags of a command that gives them other names.
    pub fn new(keys: Option<PathBuf>, rdma_device: Option<String>, gid_index: Option<u8>) -> Self {
        Self {
            keys,
            rdma_device,
            gid_index,
            typed: None,
        }
    }

    /// Notes which of the flags in `names`, arguments of `matches`, were typed.
    pub fn typed_in(self, matches: &ArgMatches, names: &[(&str, &'static str)]) -> Self {
        let is_typed =
            |argument: &str| matches.value_source(argument) == Some(ValueSource::CommandLine);
        let first = names.iter().find(|(argument, _)| is_typed(argument));
        Self {
            typed: first.map(|(_, flag)| *flag),
            ..self
        }
    }

    /// `connector` with these settings.
    pub fn applied_to(&self, mut connector: Connector) -> Connector {
        if let Some(keys) = &self.keys {
            connector = connector.keys(keys);
        }
        if let Some(device) = &self.rdma_device {
            connector = connector.rdma_device(device);
        }
        match self.gid_index {
            Some(index) => connector.gid_index(index),
            None => connector,
        }
    }

    /// Refuses flags that have no meaning for a server at `address`; `None` stands for the command's own server.
    pub fn check(&self, address: Option<&Address>) -> Result<(), Failure> {
        let is_here = address.is_none_or(|address| address.socket().is_some());
        match self.typed.filter(|_| is_here) {
            None => Ok(()),
            Some(flag) => Err(Failure::usage(format!(
                "{flag} is for servers at verbs:HOST:PORT, and {} is reached over shared memory",
                address.map_or("the server of this command".to_owned(), ToString::to_string)
            ))),
        }
    }
}

impl Args for VerbsFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        VerbsArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        VerbsArguments::augment_args_for_update(command)
    }
}

impl FromArgMatches for VerbsFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let VerbsArguments {
            keys,
            rdma_device,
            gid_index,
        } = VerbsArguments::from_arg_matches(matches)?;
        let flags = Self::new(keys, rdma_device, gid_index);
        let names = [
            ("keys", "--keys"),
            ("rdma_device", "--rdma-device"),
            ("gid_index", "--gid-index"),
        ];
        Ok(flags.typed_in(matches, &names))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The arguments that make [`VerbsFlags`].
#[derive(Args)]
#[command(next_help_heading = "RDMA")]
struct VerbsArguments {
    /// File of keys that prove the identity of clients, a name and 64 hexadecimal digits a line; the first line is the
    /// client's own key.
    #[arg(long, value_name = "FILE", env = "STONECAST_KEYS")]
    keys: Option<PathBuf>,
    /// RDMA device, by its name in `rdma link` [default: the first one].
    #[arg(long, value_name = "NAME", env = "STONECAST_RDMA_DEVICE")]
    rdma_device: Option<String>,
    /// Entry of the device's table of addresses [default: RoCE v2, IPv4 if there is one].
    #[arg(long, value_name = "INDEX", env = "STONECAST_GID_INDEX")]
    gid_index: Option<u8>,
}

/// The failures that acknowledged writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurabilityArgument {
    /// Power loss.
    Power,
    /// The death of every process, but not power loss.
    Process,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(settings: [Option<ValueSource>; 3]) -> String {
        let [connect, listen, data] = settings;
        let address = |source: Option<_>, text: &str| source.map(|_| text.parse().unwrap());
        let flags = ConnectionFlags {
            connect: address(connect, "shm:/connect"),
            data: "/data".into(),
            server_listens: address(listen, "shm:/listen").into_iter().collect(),
            verbs: VerbsFlags::default(),
        };
        let source = |name: &str| match name {
            "connect" => connect,
            "data" => data,
            _ => listen,
        };
        flags.settle(source).address.to_string()
    }

    #[test]
    fn clients_use_the_address_of_the_server_with_the_same_settings_and_the_nearest_source_decides()
    {
        use ValueSource::{CommandLine, DefaultValue, EnvVariable};
        let (typed, variable, file) = (Some(CommandLine), Some(EnvVariable), Some(DefaultValue));
        for (settings, address) in [
            ([None, None, file], "shm:/data/socket"),
            ([None, file, file], "shm:/listen"),
            ([file, file, file], "shm:/connect"),
            ([file, file, variable], "shm:/data/socket"),
            ([file, variable, variable], "shm:/listen"),
            ([variable, None, typed], "shm:/data/socket"),
            ([typed, None, typed], "shm:/connect"),
        ] {
            assert_eq!(nearest(settings), address, "{settings:?}");
        }
    }
}
