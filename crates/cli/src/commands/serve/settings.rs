//! The settings of a server, from flags, environment and file together.

use std::path::PathBuf;

use stonecast::Address;
use stonecast::server::Places;
use stonecast_gateway::GatewayOptions;

use super::arguments::{ClientsArgument, PlatformArgument, Serve};
use super::sharing::SharingFlags;
use crate::failure::Failure;
use crate::flags::{DATA, DurabilityArgument, VerbsFlags};
use crate::values::Size;

/// The settings of a server.
#[derive(Debug)]
pub struct Serving {
    /// Folder of the pool.
    pub data: PathBuf,
    /// The addresses to listen at; at least one.
    pub listen: Vec<Address>,
    /// `None` if not set: the pool's own, or `power` for a new pool.
    pub durability: Option<DurabilityArgument>,
    /// `None` if not set: the pool's own, or `page-file` for a new pool.
    pub platform: Option<PlatformArgument>,
    /// `None` if not set: the pool's own, or the library's default for a new pool.
    pub capacity: Option<Size>,
    /// `None` if not set: the pool's own, or the library's default for a new pool.
    pub segment_size: Option<Size>,
    /// `None` if not set: the pool's own, or one for a new pool.
    pub shards: Option<u32>,
    /// The store of the configuration of the cluster whose node the server is, and the name of the node; both or none
    /// are set.
    pub cluster: Option<String>,
    pub node: Option<String>,
    /// The power zone of the node.
    pub zone: Option<String>,
    /// The rights of clients to write into the log.
    pub clients: ClientsArgument,
    /// The limits on the number of clients.
    pub places: Places,
    /// The users who may connect over shared memory.
    pub sharing: SharingFlags,
    /// The settings for addresses of the form verbs:HOST:PORT.
    pub verbs: VerbsFlags,
    /// Options for Redis clients, metrics and health; `None` without a gateway.
    pub gateway: Option<GatewayOptions>,
}

impl Serving {
    /// Combines `flags`. A contradiction is wrong usage.
    pub fn of(flags: &Serve) -> Result<Self, Failure> {
        let mut gateway = flags.gateway.options()?;
        let data = flags.data.clone().unwrap_or_else(|| PathBuf::from(DATA));
        let listen = if flags.listen.is_empty() {
            vec![Address::of_pool(&data)]
        } else {
            flags.listen.clone()
        };
        if let Some(cluster) = listen.iter().find(|address| address.is_cluster()) {
            return Err(Failure::usage(format!(
                "a server listens at shm: or verbs: addresses, and {cluster} is that of a cluster"
            )));
        }
        let is_here = |address: &Address| address.socket().is_some();
        if listen
            .iter()
            .any(|address| is_here(address) != is_here(&listen[0]))
        {
            return Err(Failure::usage(
                "a server listens either at shm: addresses or at verbs: addresses; processes of this machine can also connect \
                 to a verbs: address",
            ));
        }
        if let Some(gateway) = &mut gateway {
            if !is_here(&listen[0]) {
                return Err(Failure::usage(
                    "--resp and --admin reach the store over shared memory; listen at shm:PATH",
                ));
            }
            gateway.store = Some(listen[0].to_string());
            let structures = flags.structures.as_deref();
            gateway.structures = structures.map(|data| Address::of_pool(data).to_string());
            let cluster = flags.cluster.as_deref();
            let store = cluster.map(|store| store.strip_prefix("cluster:").unwrap_or(store));
            gateway.cluster = store.map(|store| format!("cluster:{store}"));
        }
        flags.verbs.check(Some(&listen[0]))?;
        Ok(Self {
            data,
            listen,
            durability: flags.durability,
            platform: flags.platform,
            capacity: flags.capacity,
            segment_size: flags.segment_size,
            shards: flags.shards,
            cluster: flags.cluster.clone(),
            node: flags.node.clone(),
            zone: flags.zone.clone(),
            clients: flags.clients,
            places: flags.sharing.places()?,
            sharing: flags.sharing.clone(),
            verbs: flags.verbs.clone(),
            gateway,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;
    use std::time::Duration;

    use clap::{CommandFactory as _, FromArgMatches as _, Parser};
    use stonecast_gateway::GatewayLimits;

    use super::*;
    use crate::configuration::File;

    /// `serve` as a program of its own.
    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        serve: Serve,
    }

    /// The settings that this file and these flags make.
    fn serving(text: &str, flags: &[&str]) -> Result<Serving, Failure> {
        Serving::of(&typed(text, flags)?)
    }

    fn typed(text: &str, flags: &[&str]) -> Result<Serve, Failure> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("room for it");
        let file = File::load(file.path(), &Alone::command())?;
        let typed = ["serve"].iter().chain(flags);
        let matches = file.complete(Alone::command()).get_matches_from(typed);
        Ok(Alone::from_arg_matches(&matches).expect("good flags").serve)
    }

    #[test]
    fn settings_of_verbs_come_from_flags_then_from_the_file() {
        let text = "keys = '/k'\nrdma-device = 'rxe0'\ngid-index = 3\n";
        let verbs = typed(text, &["--rdma-device", "mlx5_0"]).unwrap().verbs;
        assert_eq!(verbs.keys.as_deref(), Some(Path::new("/k")));
        assert_eq!(
            (verbs.rdma_device.as_deref(), verbs.gid_index),
            (Some("mlx5_0"), Some(3))
        );
    }

    /// Needs the difference between settings that were typed and settings in the file, which is also for clients.
    #[test]
    fn flags_of_verbs_are_wrong_usage_for_shared_memory() {
        for (flag, value) in [
            ("--keys", "/k"),
            ("--rdma-device", "rxe0"),
            ("--gid-index", "3"),
        ] {
            let refused = serving("", &[flag, value]).unwrap_err();
            assert!(
                refused.status() == 2 && refused.to_string().starts_with(flag),
                "{refused}"
            );
        }
        assert!(serving("keys = '/k'\nrdma-device = 'rxe0'\ngid-index = 3\n", &[]).is_ok());
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn a_server_listens_at_addresses_of_one_kind_and_the_gateway_needs_shared_memory() {
        let both = ["--listen", "shm:/a", "--listen", "verbs:127.0.0.1:1"];
        assert!(serving("", &both).is_err_and(|failure| failure.status() == 2));
        let gateway = ["--listen", "verbs:127.0.0.1:1", "--resp", "127.0.0.1:2"];
        assert!(serving("", &gateway).is_err_and(|failure| failure.status() == 2));
    }

    #[test]
    fn without_any_setting_the_defaults_hold() {
        let settled = serving("", &[]).unwrap();
        assert!(settled.gateway.is_none(), "off by default");
        assert_eq!(settled.data, Path::new("./stonecast-data"));
        assert_eq!(
            settled.listen,
            ["shm:./stonecast-data/socket".parse().unwrap()]
        );
        assert_eq!((settled.durability, settled.platform), (None, None));
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let text = "data = '/a'\ncapacity = '2GiB'\nsegment-size = 1048576\nclients = 'copying'\ndurability = 'process'\n";
        let settled = serving(text, &["--capacity", "3GiB", "--durability", "power"]).unwrap();
        assert_eq!(settled.data, Path::new("/a"));
        assert_eq!(settled.listen, ["shm:/a/socket".parse().unwrap()]);
        assert_eq!(
            (settled.capacity, settled.segment_size),
            (Some(Size(3 << 30)), Some(Size(1 << 20)))
        );
        assert_eq!(settled.clients, ClientsArgument::Copying);
        assert_eq!(settled.durability, Some(DurabilityArgument::Power));
    }

    #[test]
    fn settings_of_the_gateway_come_from_flags_then_from_the_file() {
        let text = "resp = '127.0.0.1:1'\nadmin = '127.0.0.1:2'\nlisten = ['shm:/l']\nconnections = 7\npipeline-depth = 8\n\
            request-size = '4MiB'\noutput-size = 9\nbuffer-size = '1GiB'\nhandshake-timeout = '4s'\nrequest-timeout = '5s'\noutput-timeout = '6s'\n\
            gateway-threads = 2\n";
        let flags = [
            "--resp",
            "127.0.0.1:3",
            "--connections",
            "70",
            "--output-timeout",
            "100ms",
        ];
        let gateway = serving(text, &flags)
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
            (gateway.store.as_deref(), gateway.threads.get()),
            (Some("shm:/l"), 2)
        );
        let expected = GatewayLimits {
            connections: 70,
            request_size: 4 << 20,
            pipeline_depth: 8,
            output_size: 9,
            memory_size: 1 << 30,
            handshake_timeout: Duration::from_secs(4),
            request_timeout: Duration::from_secs(5),
            output_timeout: Duration::from_millis(100),
        };
        assert_eq!(gateway.limits, expected);
        let admin = serving("", &["--admin", "127.0.0.1:2"])
            .unwrap()
            .gateway
            .expect("it was asked for");
        assert_eq!((admin.resp, admin.limits), (None, GatewayLimits::default()));
    }

    #[test]
    fn an_unsafe_gateway_is_wrong_usage() {
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
        ] {
            let failure = serving("", flags).expect_err(words);
            assert!(
                failure.to_string().contains(words) && failure.status() == 2,
                "{failure}"
            );
        }
    }

    /// The example in `packaging`: settings that are commented out must be valid, and show the defaults.
    #[test]
    fn the_example_configuration_names_every_key_and_shows_the_defaults() {
        let example = include_str!("../../../../../packaging/stonecast.toml");
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
        let missing = serving("no-such-key = 1", &[]).unwrap_err().to_string();
        let known: Vec<&str> = missing
            .split_once("the keys are ")
            .unwrap()
            .1
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert!(known.len() > 20, "{missing}");
        for key in known {
            assert!(keys.contains_key(key), "{key} is not in the example");
        }
        let without_files: String = uncommented
            .lines()
            .filter(|line| !line.contains("/etc/stonecast/"))
            .map(|line| format!("{line}\n"))
            .collect();
        let all = serving(&without_files, &[]).unwrap();
        let as_it_is = serving(example, &[]).unwrap();
        let gateway = |settled: &Serving| settled.gateway.clone().expect("it is in the example");
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
}
