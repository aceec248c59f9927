//! The source of a machine's facts: the files that the kernel shows, below `/` or below a folder that stands for `/`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// The most bytes that are read of a file. The kernel's files have a page; a longer file is not the kernel's.
const SIZE_MAX: u64 = 1 << 20;

/// The folder below which the kernel shows its files: `/`, or a folder that stands for `/`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

/// The content of a file of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The file has this content, without the line feed.
    Said(String),
    /// There is no such file.
    Absent,
    /// The file exists but cannot be read, for this reason.
    Unreadable(String),
}

impl Fact {
    /// The content of the file, if it has any.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Said(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The content of the file, or the reason why there is none, for human readers.
    pub fn or_why(&self) -> String {
        match self {
            Self::Said(text) if text.is_empty() => "the kernel's file is empty".to_owned(),
            Self::Said(text) => text.clone(),
            Self::Absent => "the kernel has no such file".to_owned(),
            Self::Unreadable(why) => format!("cannot be read: {why}"),
        }
    }
}

impl Serialize for Fact {
    /// The content of the file, or null: readers of JSON ask for known facts.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.said().serialize(serializer)
    }
}

impl Root {
    /// The files below `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns whether this is `/`, so that the running system can also be asked.
    pub fn is_this_machine(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The text of a file.
    pub fn fact(&self, file: &str) -> Fact {
        match self.bytes(file) {
            Ok(bytes) => Fact::Said(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Fact::Absent,
            Err(error) => Fact::Unreadable(error.to_string()),
        }
    }

    /// The bytes of a file.
    pub fn bytes(&self, file: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(file))?
            .take(SIZE_MAX)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Names in a folder that begin with `prefix`, in order; none if the folder does not exist.
    pub fn names(&self, folder: &str, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(prefix))
            .collect();
        // Names are in numeric order: region2 before region10.
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// The last part of a symbolic link's target: a device's driver, a device's place on its bus.
    pub fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.0.join(path)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }
}
