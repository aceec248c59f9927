//! An image of a container in the layout of the Open Container Initiative (image-spec 1.1), as an archive that `docker
//! load`, `podman load` and `skopeo` read. It has the binary, the libraries that the binary names, and no other
//! program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::content::Content;
use super::{append_folder, copy, fresh, make, pack, write};
use crate::tools::output_of;

/// The user and group of the server: `nobody` of most systems, so that a volume may belong to either.
const USER: u32 = 65_534;
/// The pool, a volume.
const DATA: &str = "/var/lib/stonecast";
/// The sockets of servers that share a volume.
const SOCKETS: &str = "/run/stonecast";

/// Builds the archive in `folder`, and returns its path.
pub fn build(content: &Content, version: &str, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("image/root");
    fresh(&root)?;
    copy(&content.binary, &root.join("usr/bin/stonecast"))?;
    for library in libraries(&content.binary)? {
        copy(&library, &inside(&root, &library))?;
    }
    write(
        &root.join("etc/passwd"),
        format!("stonecast:x:{USER}:{USER}::{DATA}:/usr/bin/stonecast\n"),
    )?;
    let layout = folder.join("image/layout");
    fresh(&layout)?;
    let layer = folder.join("image/layer.tar");
    for owned in [DATA, SOCKETS] {
        let parent = Path::new(owned).parent().context("it has a parent")?;
        make(&inside(&root, parent))?;
    }
    pack(&root, &layer)?;
    // A container engine gives a new volume the owner of the folder in the image where the volume is mounted.
    for owned in [DATA, SOCKETS] {
        make(&inside(&root, Path::new(owned)))?;
        append_folder(&root, owned, USER, &layer)?;
    }
    let layer = Blob::of_file(&layout, &layer)?;
    let configuration = Blob::of_json(&layout, &configuration(&layer.digest))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration.named("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.named("application/vnd.oci.image.layer.v1.tar")],
    });
    let manifest = Blob::of_json(&layout, &manifest)?;
    let mut named = manifest.named("application/vnd.oci.image.manifest.v1+json");
    named["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        "io.containerd.image.name": format!("stonecast:{version}"),
    });
    let index = json!({"schemaVersion": 2, "manifests": [named]});
    write(&layout.join("index.json"), index.to_string())?;
    write(
        &layout.join("oci-layout"),
        json!({"imageLayoutVersion": "1.0.0"}).to_string(),
    )?;
    let archive = folder.join(format!("stonecast-{version}-oci.tar"));
    pack(&layout, &archive)?;
    Ok(archive)
}

/// The place of the whole `path` of the image in the folder `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn configuration(layer: &str) -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/usr/bin/stonecast"],
            "Cmd": ["serve", "--data", DATA],
            "WorkingDir": DATA,
            "Volumes": {DATA: {}},
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    })
}

/// The libraries that the loader of this system gives to `binary`, the loader included.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let printed = output_of(Command::new("ldd").arg(binary))?;
    let paths = printed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from);
    Ok(paths.collect())
}

/// A file of the layout, whose name is its hash.
struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    fn of_file(layout: &Path, file: &Path) -> Result<Self> {
        let printed = output_of(Command::new("sha256sum").arg(file))?;
        let hash = printed
            .split_whitespace()
            .next()
            .context("sha256sum prints a hash")?;
        copy(file, &layout.join("blobs/sha256").join(hash))?;
        let size = fs::metadata(file)
            .with_context(|| format!("reading {}", file.display()))?
            .len();
        Ok(Self {
            digest: format!("sha256:{hash}"),
            size,
        })
    }

    fn of_json(layout: &Path, value: &Value) -> Result<Self> {
        let file = layout.with_file_name("blob.json");
        write(&file, value.to_string())?;
        Self::of_file(layout, &file)
    }

    /// The descriptor of the blob.
    fn named(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.size})
    }
}
