//! Where a setting comes from: the flag, else the environment (clap looks there itself), else the configuration file,
//! else the default.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::arguments::{ClientsArgument, Connection, DurabilityArgument, PlatformArgument, Serve};
use crate::failure::Failure;
use crate::values::{Address, Size};

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
}

/// How to serve.
#[derive(Debug, PartialEq, Eq)]
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
}

impl File {
    /// Reads the file that was named; an empty one if none was.
    pub fn load(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read the configuration file {}: {error}", path.display())))?;
        toml::from_str(&text).map_err(|error| {
            Failure::usage(format!("the configuration file {}: {}", path.display(), error.to_string().trim_end()))
        })
    }

    /// How to serve.
    pub fn serving(self, flags: &Serve) -> Serving {
        let data = flags.data.clone().or(self.data).unwrap_or_else(|| DATA.into());
        let said = if flags.listen.is_empty() { self.listen.unwrap_or_default() } else { flags.listen.clone() };
        let listen = if said.is_empty() { vec![Address::of_pool(&data)] } else { said };
        Serving {
            listen,
            durability: flags.durability.or(self.durability),
            platform: flags.platform.or(self.platform),
            capacity: flags.capacity.or(self.capacity),
            segment_size: flags.segment_size.or(self.segment_size),
            clients: flags.clients.or(self.clients).unwrap_or(ClientsArgument::Trusted),
            data,
        }
    }

    /// Where the server is. Without an address it is looked for where `serve` with the same settings listens.
    pub fn connecting(self, flags: &Connection, data_variable: Option<PathBuf>) -> Address {
        let data = data_variable.or(self.data).unwrap_or_else(|| DATA.into());
        let listens = || self.listen.and_then(|listen| listen.into_iter().next());
        flags.connect.clone().or(self.connect).or_else(listens).unwrap_or_else(|| Address::of_pool(&data))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn serve(arguments: &[&str]) -> Serve {
        match Arguments::try_parse_from(["stonecast", "serve"].iter().chain(arguments)).expect("good arguments").command {
            Command::Serve(serve) => serve,
            other => panic!("{other:?}"),
        }
    }

    fn file(text: &str) -> Result<File, Failure> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("room for it");
        File::load(Some(file.path()))
    }

    #[test]
    fn without_any_setting_the_defaults_hold() {
        let serving = File::default().serving(&serve(&[]));
        assert_eq!(serving.data, Path::new("./stonecast-data"));
        assert_eq!(serving.listen, ["shm:./stonecast-data/socket".parse().unwrap()]);
        assert_eq!((serving.durability, serving.platform), (None, None));
        let address = File::default().connecting(&Connection { connect: None }, None);
        assert_eq!(address, serving.listen[0]);
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let text = "data = '/a'\ncapacity = '2GiB'\nsegment-size = 1048576\nclients = 'copying'\ndurability = 'process'\n";
        let serving = file(text).unwrap().serving(&serve(&["--capacity", "3GiB", "--durability", "power"]));
        assert_eq!(serving.data, Path::new("/a"));
        assert_eq!(serving.listen, ["shm:/a/socket".parse().unwrap()]);
        assert_eq!((serving.capacity, serving.segment_size), (Some(Size(3 << 30)), Some(Size(1 << 20))));
        assert_eq!(serving.clients, ClientsArgument::Copying);
        assert_eq!(serving.durability, Some(DurabilityArgument::Power));
    }

    #[test]
    fn clients_look_where_the_server_of_the_same_settings_listens() {
        let none = Connection { connect: None };
        assert_eq!(file("data = '/a'").unwrap().connecting(&none, None).to_string(), "shm:/a/socket");
        assert_eq!(file("data = '/a'").unwrap().connecting(&none, Some("/b".into())).to_string(), "shm:/b/socket");
        assert_eq!(file("listen = ['shm:/l']").unwrap().connecting(&none, None).to_string(), "shm:/l");
        assert_eq!(file("listen = ['shm:/l']\nconnect = 'shm:/c'").unwrap().connecting(&none, None).to_string(), "shm:/c");
        let flag = Connection { connect: Some("shm:/f".parse().unwrap()) };
        assert_eq!(file("connect = 'shm:/c'").unwrap().connecting(&flag, None).to_string(), "shm:/f");
    }

    #[test]
    fn errors_name_file_line_and_what_is_allowed() {
        for (text, parts) in [
            ("data = '/a'\ndurabilty = 'power'\n", ["line 2", "unknown field `durabilty`, expected one of `data`, `listen`"]),
            ("durability = 'maybe'\n", ["line 1", "unknown variant `maybe`, expected `power` or `process`"]),
            ("\n\ncapacity = 'much'\n", ["line 3", "a size is a number of bytes"]),
            ("listen = 'shm:/x'\n", ["line 1", "expected a sequence"]),
            ("connect = 'tcp:/x'\n", ["line 1", "an address is shm:PATH"]),
            ("data = \n", ["line 1", ""]),
        ] {
            let message = file(text).expect_err(text).to_string();
            parts.iter().for_each(|part| assert!(message.contains(part), "{text}\n gave {message}\n not  {part}"));
        }
        assert!(File::load(Some(Path::new("/no/such/file"))).unwrap_err().to_string().contains("/no/such/file"));
    }
}
