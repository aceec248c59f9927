//! Where a setting comes from: the flag, else the environment (clap looks there itself), else the configuration file,
//! else the default.

use std::fs;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stonecast_gateway::{GatewayLimits, GatewayOptions, Password, TlsOptions};

use crate::arguments::{
    ClientsArgument, Connection, DurabilityArgument, GatewayFlags, PlatformArgument, Serve,
    VerbsFlags,
};
use crate::failure::Failure;
use crate::values::{Address, Period, Size};

/// Folder of the pool where nothing else is said.
const DATA: &str = "./stonecast-data";
/// Enough to try things out; sparse until it is used.
pub const CAPACITY: Size = Size(1 << 30);

/// The configuration file. Its keys are the names of the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    data: Option<PathBuf>,
    listen: Option<Vec<Address>>,
    connect: Option<Address>,
    durability: Option<DurabilityArgument>,
    platform: Option<PlatformArgument>,
    capacity: Option<Size>,
    segment_size: Option<Size>,
    clients: Option<ClientsArgument>,
    keys: Option<PathBuf>,
    rdma_device: Option<String>,
    gid_index: Option<u8>,
    resp: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    password_file: Option<PathBuf>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_client_authority: Option<PathBuf>,
    gateway_threads: Option<NonZeroU16>,
    connections: Option<NonZeroUsize>,
    request_size: Option<Size>,
    pipeline_depth: Option<NonZeroUsize>,
    output_size: Option<Size>,
    buffer_size: Option<Size>,
    request_timeout: Option<Period>,
    output_timeout: Option<Period>,
}

/// How to serve.
#[derive(Debug)]
pub struct Serving {
    /// Folder of the pool.
    pub data: PathBuf,
    /// Where to listen; at least one.
    pub listen: Vec<Address>,
    /// `None`: nobody said; what the pool has, or `power` for a new one.
    pub durability: Option<DurabilityArgument>,
    /// `None`: nobody said; what the pool has, or `page-file` for a new one.
    pub platform: Option<PlatformArgument>,
    /// `None`: nobody said; what the pool has, or [`CAPACITY`] for a new one.
    pub capacity: Option<Size>,
    /// `None`: nobody said; what the pool has, or the default of pools for a new one.
    pub segment_size: Option<Size>,
    /// Who may write into the log.
    pub clients: ClientsArgument,
    /// What addresses of the form verbs:HOST:PORT need.
    pub verbs: VerbsFlags,
    /// For Redis clients, metrics and health; `None`: nobody asked for them.
    pub gateway: Option<GatewayOptions>,
}

/// Where a server is, and what is needed to get there.
#[derive(Debug)]
pub struct Destination {
    /// Where it listens.
    pub address: Address,
    /// What addresses of the form verbs:HOST:PORT need.
    pub verbs: VerbsFlags,
}

impl File {
    /// Reads the file that was named; an empty one if none was.
    pub fn load(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!(
                "cannot read the configuration file {}: {error}",
                path.display()
            ))
        })?;
        toml::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "the configuration file {}: {}",
                path.display(),
                error.to_string().trim_end()
            ))
        })
    }

    /// Where metrics and health are.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// How to serve.
    pub fn serving(self, flags: &Serve) -> Result<Serving, Failure> {
        let mut gateway = self.gateway(&flags.gateway)?;
        let verbs = self.verbs(&flags.verbs);
        let data = flags
            .data
            .clone()
            .or(self.data)
            .unwrap_or_else(|| DATA.into());
        let said = if flags.listen.is_empty() {
            self.listen.unwrap_or_default()
        } else {
            flags.listen.clone()
        };
        let listen = if said.is_empty() {
            vec![Address::of_pool(&data)]
        } else {
            said
        };
        let kind = |address: &Address| matches!(address, Address::SharedMemory(_));
        if listen
            .iter()
            .any(|address| kind(address) != kind(&listen[0]))
        {
            return Err(Failure::usage(
                "a server listens at shm: addresses or at verbs: addresses; processes of this machine reach one at verbs: as well",
            ));
        }
        if let Some(gateway) = &mut gateway {
            if !kind(&listen[0]) {
                return Err(Failure::usage(
                    "--resp and --admin reach the store over shared memory; listen at shm:PATH",
                ));
            }
            let own = listen
                .iter()
                .find(|address| matches!(address, Address::SharedMemory(_)));
            let own = own.ok_or_else(|| {
                Failure::usage("the gateway needs an address shm:PATH in --listen, too, for itself")
            })?;
            gateway.store = own.to_string();
        }
        Ok(Serving {
            listen,
            verbs,
            durability: flags.durability.or(self.durability),
            platform: flags.platform.or(self.platform),
            capacity: flags.capacity.or(self.capacity),
            segment_size: flags.segment_size.or(self.segment_size),
            clients: flags
                .clients
                .or(self.clients)
                .unwrap_or(ClientsArgument::Trusted),
            data,
            gateway,
        })
    }

    /// What the gateway is told; the address of the store comes later.
    fn gateway(&self, flags: &GatewayFlags) -> Result<Option<GatewayOptions>, Failure> {
        let (resp, admin) = (flags.resp.or(self.resp), flags.admin.or(self.admin));
        let Some(first) = resp.or(admin) else {
            return Ok(None);
        };
        let either =
            |flag: &Option<PathBuf>, file: &Option<PathBuf>| flag.clone().or_else(|| file.clone());
        let tls = match (
            either(&flags.tls_certificate, &self.tls_certificate),
            either(&flags.tls_key, &self.tls_key),
            either(&flags.tls_client_authority, &self.tls_client_authority),
        ) {
            (Some(certificate), Some(key), client_authority) => Some(TlsOptions {
                certificate,
                key,
                client_authority,
            }),
            (None, None, None) => None,
            _ => {
                return Err(Failure::usage(
                    "TLS needs both --tls-certificate and --tls-key",
                ));
            }
        };
        let password =
            either(&flags.password_file, &self.password_file).map(|path| Password::read(&path));
        let whole = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let most = GatewayLimits::default();
        let limits = GatewayLimits {
            connections: flags
                .connections
                .or(self.connections)
                .map_or(most.connections, NonZeroUsize::get),
            request_size: flags
                .request_size
                .or(self.request_size)
                .map_or(most.request_size, |size| size.0),
            pipeline_depth: flags
                .pipeline_depth
                .or(self.pipeline_depth)
                .map_or(most.pipeline_depth, NonZeroUsize::get),
            output_size: flags
                .output_size
                .or(self.output_size)
                .map_or(most.output_size, whole),
            memory_size: flags
                .buffer_size
                .or(self.buffer_size)
                .map_or(most.memory_size, whole),
            request_timeout: flags
                .request_timeout
                .or(self.request_timeout)
                .map_or(most.request_timeout, |time| time.0),
            output_timeout: flags
                .output_timeout
                .or(self.output_timeout)
                .map_or(most.output_timeout, |time| time.0),
        };
        let options = GatewayOptions {
            resp,
            admin,
            password: password
                .transpose()
                .map_err(|error| Failure::usage(error.to_string()))?,
            tls,
            threads: flags
                .gateway_threads
                .or(self.gateway_threads)
                .map_or(NonZeroUsize::MIN, Into::into),
            limits,
            ..GatewayOptions::new(first, String::new())
        };
        // Before a pool is opened, and created, for nothing.
        options
            .check()
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Some(options))
    }

    fn verbs(&self, flags: &VerbsFlags) -> VerbsFlags {
        VerbsFlags {
            keys: flags.keys.clone().or_else(|| self.keys.clone()),
            rdma_device: flags
                .rdma_device
                .clone()
                .or_else(|| self.rdma_device.clone()),
            gid_index: flags.gid_index.or(self.gid_index),
        }
    }

    /// Where the server is. Without an address it is looked for where `serve` with the same settings listens.
    pub fn connecting(self, flags: &Connection, data_variable: Option<PathBuf>) -> Destination {
        let verbs = self.verbs(&flags.verbs);
        let data = data_variable.or(self.data).unwrap_or_else(|| DATA.into());
        let listens = || self.listen.and_then(|listen| listen.into_iter().next());
        let address = flags
            .connect
            .clone()
            .or(self.connect)
            .or_else(listens)
            .unwrap_or_else(|| Address::of_pool(&data));
        Destination { address, verbs }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn serve(arguments: &[&str]) -> Serve {
        match Arguments::try_parse_from(["stonecast", "serve"].iter().chain(arguments))
            .expect("good arguments")
            .command
        {
            Command::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    fn file(text: &str) -> Result<File, Failure> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("room for it");
        File::load(Some(file.path()))
    }

    fn nowhere() -> Connection {
        Connection {
            connect: None,
            verbs: VerbsFlags::default(),
        }
    }

    #[test]
    fn what_verbs_need_comes_from_flags_then_from_the_file() {
        let text = "keys = '/k'\nrdma-device = 'rxe0'\ngid-index = 3\n";
        let serving = file(text)
            .unwrap()
            .serving(&serve(&["--rdma-device", "mlx5_0"]))
            .unwrap();
        assert_eq!(serving.verbs.keys.as_deref(), Some(Path::new("/k")));
        assert_eq!(
            (
                serving.verbs.rdma_device.as_deref(),
                serving.verbs.gid_index
            ),
            (Some("mlx5_0"), Some(3))
        );
        assert_eq!(
            file(text)
                .unwrap()
                .connecting(&nowhere(), None)
                .verbs
                .gid_index,
            Some(3)
        );
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn a_server_listens_at_addresses_of_one_kind_and_the_gateway_needs_shared_memory() {
        let both = ["--listen", "shm:/a", "--listen", "verbs:127.0.0.1:1"];
        assert!(
            File::default()
                .serving(&serve(&both))
                .is_err_and(|failure| failure.status() == 2)
        );
        let gateway = ["--listen", "verbs:127.0.0.1:1", "--resp", "127.0.0.1:2"];
        assert!(
            File::default()
                .serving(&serve(&gateway))
                .is_err_and(|failure| failure.status() == 2)
        );
    }

    #[test]
    fn without_any_setting_the_defaults_hold() {
        let serving = File::default().serving(&serve(&[])).unwrap();
        assert!(serving.gateway.is_none(), "off unless asked for");
        assert_eq!(serving.data, Path::new("./stonecast-data"));
        assert_eq!(
            serving.listen,
            ["shm:./stonecast-data/socket".parse().unwrap()]
        );
        assert_eq!((serving.durability, serving.platform), (None, None));
        let destination = File::default().connecting(&nowhere(), None);
        assert_eq!(destination.address, serving.listen[0]);
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let text = "data = '/a'\ncapacity = '2GiB'\nsegment-size = 1048576\nclients = 'copying'\ndurability = 'process'\n";
        let serving = file(text)
            .unwrap()
            .serving(&serve(&["--capacity", "3GiB", "--durability", "power"]))
            .unwrap();
        assert_eq!(serving.data, Path::new("/a"));
        assert_eq!(serving.listen, ["shm:/a/socket".parse().unwrap()]);
        assert_eq!(
            (serving.capacity, serving.segment_size),
            (Some(Size(3 << 30)), Some(Size(1 << 20)))
        );
        assert_eq!(serving.clients, ClientsArgument::Copying);
        assert_eq!(serving.durability, Some(DurabilityArgument::Power));
    }

    #[test]
    fn clients_look_where_the_server_of_the_same_settings_listens() {
        let none = nowhere();
        assert_eq!(
            file("data = '/a'")
                .unwrap()
                .connecting(&none, None)
                .address
                .to_string(),
            "shm:/a/socket"
        );
        assert_eq!(
            file("data = '/a'")
                .unwrap()
                .connecting(&none, Some("/b".into()))
                .address
                .to_string(),
            "shm:/b/socket"
        );
        assert_eq!(
            file("listen = ['shm:/l']")
                .unwrap()
                .connecting(&none, None)
                .address
                .to_string(),
            "shm:/l"
        );
        assert_eq!(
            file("listen = ['shm:/l']\nconnect = 'shm:/c'")
                .unwrap()
                .connecting(&none, None)
                .address
                .to_string(),
            "shm:/c"
        );
        let flag = Connection {
            connect: Some("shm:/f".parse().unwrap()),
            ..nowhere()
        };
        assert_eq!(
            file("connect = 'shm:/c'")
                .unwrap()
                .connecting(&flag, None)
                .address
                .to_string(),
            "shm:/f"
        );
    }

    #[test]
    fn what_the_gateway_is_told_comes_from_flags_then_from_the_file() {
        let text = "resp = '127.0.0.1:1'\nadmin = '127.0.0.1:2'\nlisten = ['shm:/l']\nconnections = 7\npipeline-depth = 8\n\
            request-size = '4MiB'\noutput-size = 9\nbuffer-size = '1GiB'\nrequest-timeout = '5s'\noutput-timeout = '6s'\n\
            gateway-threads = 2\n";
        let flags = [
            "--resp",
            "127.0.0.1:3",
            "--connections",
            "70",
            "--output-timeout",
            "100ms",
        ];
        let gateway = file(text)
            .unwrap()
            .serving(&serve(&flags))
            .unwrap()
            .gateway
            .expect("it was asked for");
        assert_eq!(
            (gateway.resp, gateway.admin),
            (
                Some("127.0.0.1:3".parse().unwrap()),
                Some("127.0.0.1:2".parse().unwrap())
            )
        );
        assert_eq!(
            (gateway.store.as_str(), gateway.threads.get()),
            ("shm:/l", 2)
        );
        let expected = GatewayLimits {
            connections: 70,
            request_size: 4 << 20,
            pipeline_depth: 8,
            output_size: 9,
            memory_size: 1 << 30,
            request_timeout: std::time::Duration::from_secs(5),
            output_timeout: std::time::Duration::from_millis(100),
        };
        assert_eq!(gateway.limits, expected);
        let admin = File::default()
            .serving(&serve(&["--admin", "127.0.0.1:2"]))
            .unwrap()
            .gateway
            .expect("it was asked for");
        assert_eq!((admin.resp, admin.limits), (None, GatewayLimits::default()));
    }

    #[test]
    fn a_gateway_that_would_not_be_safe_is_wrong_usage() {
        for (flags, words) in [
            (
                &["--resp", "0.0.0.0:6380"][..],
                "0.0.0.0:6380 can be reached from other machines",
            ),
            (
                &["--admin", "10.0.0.1:1"],
                "10.0.0.1:1 can be reached from other machines",
            ),
            (
                &["--resp", "127.0.0.1:1", "--tls-key", "/k"],
                "--tls-certificate and --tls-key",
            ),
            (
                &["--resp", "127.0.0.1:1", "--tls-client-authority", "/k"],
                "--tls-certificate and --tls-key",
            ),
            (
                &["--resp", "127.0.0.1:1", "--password-file", "/no/such/file"],
                "/no/such/file",
            ),
            (
                &["--resp", "127.0.0.1:1", "--request-size", "1KiB"],
                "a request may have between",
            ),
            (
                &["--resp", "127.0.0.1:1", "--output-timeout", "0s"],
                "a time limit of 0",
            ),
        ] {
            let failure = File::default().serving(&serve(flags)).expect_err(words);
            assert!(
                failure.to_string().contains(words) && failure.status() == 2,
                "{failure}"
            );
        }
    }

    /// The example in `packaging`: what is commented out is there to be used, and shows the defaults.
    #[test]
    fn the_example_configuration_names_every_key_and_shows_the_defaults() {
        let example = include_str!("../../../packaging/stonecast.toml");
        let uncommented: String = example
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest)
                    if rest
                        .split_once(" = ")
                        .is_some_and(|(key, _)| !key.contains(' ')) =>
                {
                    format!("{rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let keys: toml::Table = uncommented.parse().unwrap();
        let missing = file("no-such-key = 1").unwrap_err().to_string();
        let known: Vec<&str> = missing
            .split_once("expected one of ")
            .unwrap()
            .1
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert!(known.len() > 20, "{missing}");
        // `connect` is for clients; files of certificates and of the password are not there.
        for key in known.into_iter().filter(|key| *key != "connect") {
            assert!(keys.contains_key(key), "{key} is not in the example");
        }
        let without_files: String = uncommented
            .lines()
            .filter(|line| !line.contains("/etc/stonecast/"))
            .map(|line| format!("{line}\n"))
            .collect();
        let all = file(&without_files).unwrap().serving(&serve(&[])).unwrap();
        let as_it_is = file(example).unwrap().serving(&serve(&[])).unwrap();
        let gateway = |serving: &Serving| serving.gateway.clone().expect("it is in the example");
        assert_eq!(gateway(&all).limits, GatewayLimits::default());
        assert_eq!(gateway(&all).threads, gateway(&as_it_is).threads);
        assert_eq!(
            (all.clients, all.platform),
            (as_it_is.clients, Some(PlatformArgument::PageFile))
        );
        assert_eq!(
            all.segment_size.map(|size| size.0),
            Some(stonecast_media::SEGMENT_SIZE_DEFAULT)
        );
    }

    #[test]
    fn errors_name_file_line_and_what_is_allowed() {
        for (text, parts) in [
            (
                "data = '/a'\ndurabilty = 'power'\n",
                [
                    "line 2",
                    "unknown field `durabilty`, expected one of `data`, `listen`",
                ],
            ),
            (
                "durability = 'maybe'\n",
                [
                    "line 1",
                    "unknown variant `maybe`, expected `power` or `process`",
                ],
            ),
            (
                "\n\ncapacity = 'much'\n",
                ["line 3", "a size is a number of bytes"],
            ),
            ("listen = 'shm:/x'\n", ["line 1", "expected a sequence"]),
            (
                "connect = 'tcp:/x'\n",
                ["line 1", "an address is shm:PATH or verbs:HOST:PORT"],
            ),
            ("data = \n", ["line 1", ""]),
        ] {
            let message = file(text).expect_err(text).to_string();
            parts.iter().for_each(|part| {
                assert!(
                    message.contains(part),
                    "{text}\n gave {message}\n not  {part}"
                )
            });
        }
        assert!(
            File::load(Some(Path::new("/no/such/file")))
                .unwrap_err()
                .to_string()
                .contains("/no/such/file")
        );
    }
}
