//! The layers: the crates that each crate may name.
//!
//! ```text
//!   lab  cli      bench     gateway     xtask      lab: also check, fabric-sim, published; cli: none of these
//!     \    \      |          /
//!      check      v         v
//!          kv                   structures        never import each other; know no provider
//!            \          |          /
//!             v         v         v
//!            node ---------.
//!              |             |
//!        backup -------------|-----.
//!          |                 v     |
//!          v               member  v
//!          log               | replication     workload   published
//!                       .----'     |
//!                    cluster  <----'             also config-store, replication-sim
//!                       |
//!                    persist
//!                    /     \
//!              session      |                  of stores, persist, published: connections and leases
//!                 |         v
//!              fabric  -->  media
//!             ^   ^   ^
//!   fabric-sim  fabric-shm  fabric-verbs
//!        lineage      base  <- every crate       lineage: below log, cluster and replication; structures: also below published
//! ```
//!
//! Cargo refuses an import that is not in `[dependencies]`, so checking those tables checks the
//! imports. Tests (`[dev-dependencies]`) may name anything that does not close a circle in the
//! layers: a store's tests run on a provider, and each provider runs the contract suite of the
//! fabric.

use crate::metadata::{Metadata, Package};

const PREFIX: &str = "stonecast-";
/// The package of the public library, which has no prefix.
const LIBRARY: &str = "stonecast";

/// The roles that each role may name beside `base`. A missing role is a finding, too: a new crate
/// needs a row here.
const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("lineage", &[]),
    ("media", &[]),
    ("fabric", &["media"]),
    ("fabric-sim", &["fabric", "media"]),
    ("fabric-shm", &["fabric", "media"]),
    ("fabric-verbs", &["fabric", "media"]),
    ("session", &["fabric"]),
    ("persist", &["session", "fabric", "media"]),
    ("log", &["lineage", "media"]),
    (
        "cluster",
        &["lineage", "persist", "session", "fabric", "media"],
    ),
    ("member", &["cluster", "session", "fabric", "media"]),
    ("replication", &["lineage", "cluster", "fabric", "media"]),
    (
        "backup",
        &[
            "log",
            "replication",
            "lineage",
            "cluster",
            "persist",
            "session",
            "fabric",
            "media",
        ],
    ),
    (
        "node",
        &[
            "backup",
            "log",
            "replication",
            "persist",
            "member",
            "cluster",
            "session",
            "fabric",
            "media",
        ],
    ),
    (
        "replication-sim",
        &["replication", "lineage", "cluster", "fabric", "media"],
    ),
    ("config-store", &["cluster", "fabric"]),
    (
        "config-sim",
        &["cluster", "fabric-sim", "session", "fabric", "media"],
    ),
    (
        "kv",
        &[
            "node",
            "backup",
            "log",
            "replication",
            "persist",
            "member",
            "cluster",
            "lineage",
            "session",
            "fabric",
            "media",
        ],
    ),
    (
        "structures",
        &[
            "node",
            "backup",
            "log",
            "replication",
            "persist",
            "member",
            "cluster",
            "lineage",
            "session",
            "fabric",
            "media",
        ],
    ),
    (
        "published",
        &["persist", "session", "fabric", "media", "structures"],
    ),
    ("workload", &[]),
];

/// The top roles, from the bottom up: each may name every role of the table and every earlier role of this list.
const ON_TOP: &[&str] = &[
    "check",
    "stonecast",
    "python",
    "c",
    "gateway",
    "console",
    "bench",
    "cli",
    "lab",
];

/// The package of the product's binary: users build it, and wait for all its dependencies.
const PRODUCT: &str = "stonecast-cli";
/// Parts of the laboratory: our packages that measure and judge, and libraries of peers and of
/// pictures.
const NOT_OF_THE_PRODUCT: &[&str] = &[
    "stonecast-fabric-sim",
    "stonecast-config-sim",
    "stonecast-replication-sim",
    "stonecast-check",
    "stonecast-published",
    "stonecast-lab",
    "stonecast-python",
    "stonecast-c",
    "lmdb-rkv",
    "redb",
    "redis",
    "plotters",
];

/// The role of a package: its name without prefix.
pub fn role(package: &str) -> Option<&str> {
    if package == LIBRARY {
        Some(package)
    } else {
        package.strip_prefix(PREFIX)
    }
}

/// Every forbidden arrow, as a sentence.
pub fn findings(metadata: &Metadata) -> Vec<String> {
    let mut findings: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| package.name != "xtask")
        .flat_map(findings_of)
        .collect();
    let named = |package: &str| {
        let packages = metadata.packages.iter().filter(|one| one.name == package);
        let dependencies = packages.flat_map(|one| &one.dependencies);
        dependencies
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| &*dependency.name)
            .collect()
    };
    findings.extend(laboratory_in_the_product(named));
    findings
}

/// Forbidden packages that a build of the product compiles; `named` returns the packages that a
/// package names. Optional dependencies count.
fn laboratory_in_the_product<'a>(named: impl Fn(&str) -> Vec<&'a str>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen = vec![PRODUCT];
    let mut next = 0;
    while let Some(package) = seen.get(next).copied() {
        next += 1;
        for dependency in named(package) {
            if NOT_OF_THE_PRODUCT.contains(&dependency) {
                findings.push(format!(
                    "{package} may not depend on {dependency}: a build of {PRODUCT} compiles {dependency}, which belongs to \
                     stonecast-lab"
                ));
            } else if !seen.contains(&dependency) {
                seen.push(dependency);
            }
        }
    }
    findings
}

fn findings_of(package: &Package) -> Vec<String> {
    let arrows = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some());
    let named: Vec<&str> = arrows
        .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
        .map(|dependency| &*dependency.name)
        .collect();
    let manifest = package.manifest_path.display();
    judge(&package.name, &named)
        .into_iter()
        .map(|finding| format!("{manifest}: {finding}"))
        .collect()
}

/// The findings if `package` names the packages `named`.
fn judge(package: &str, named: &[&str]) -> Vec<String> {
    let Some(allowed) = role(package).and_then(allowed_for) else {
        return vec![format!(
            "{package} has no place in the layers; add a row in xtask/src/layers.rs"
        )];
    };
    let outside =
        |name: &&&str| role(name).is_none_or(|role| role != "base" && !allowed.contains(&role));
    named
        .iter()
        .filter(outside)
        .map(|name| format!("{package} may not depend on {name}: {}", reason(&allowed)))
        .collect()
}

fn allowed_for(role: &str) -> Option<Vec<&'static str>> {
    if let Some(height) = ON_TOP.iter().position(|name| *name == role) {
        return Some(
            ALLOWED
                .iter()
                .map(|(name, _)| *name)
                .chain(ON_TOP[..height].iter().copied())
                .collect(),
        );
    }
    ALLOWED
        .iter()
        .find(|(name, _)| *name == role)
        .map(|(_, allowed)| allowed.to_vec())
}

fn reason(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        "the crate may name only base".into()
    } else {
        format!("the crate may name base, {}", allowed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrows_that_the_design_forbids_are_found() {
        for (package, named) in [
            ("stonecast-kv", "stonecast-fabric-shm"),
            ("stonecast-kv", "stonecast-structures"),
            ("stonecast-media", "stonecast-fabric"),
            ("stonecast-log", "stonecast-fabric"),
            ("stonecast-base", "stonecast-media"),
            ("stonecast-fabric", "stonecast-fabric-sim"),
            ("stonecast-workload", "stonecast-kv"),
            ("stonecast-bench", "stonecast-cli"),
            ("stonecast-kv", "xtask"),
        ] {
            assert_eq!(judge(package, &[named]).len(), 1, "{package} -> {named}");
        }
    }

    #[test]
    fn the_arrows_of_the_design_pass() {
        for (package, named) in [
            (
                "stonecast-kv",
                ["stonecast-base", "stonecast-fabric", "stonecast-log"],
            ),
            (
                "stonecast-fabric-shm",
                ["stonecast-base", "stonecast-fabric", "stonecast-media"],
            ),
            (
                "stonecast-cli",
                ["stonecast-fabric-shm", "stonecast-kv", "stonecast-bench"],
            ),
        ] {
            assert_eq!(judge(package, &named), Vec::<String>::new());
        }
    }

    #[test]
    fn a_dependency_of_the_product_on_the_laboratory_is_found_however_deep_it_is() {
        let product = |bench: &'static [&'static str]| {
            move |package: &str| match package {
                "stonecast-cli" => vec!["stonecast-bench", "clap"],
                "stonecast-bench" => bench.to_vec(),
                "stonecast-lab" => vec!["stonecast-check", "lmdb-rkv"],
                _ => Vec::new(),
            }
        };
        assert_eq!(
            laboratory_in_the_product(product(&["stonecast-kv", "stonecast-bench"])),
            Vec::<String>::new()
        );
        for named in [&["stonecast-fabric-sim"], &["lmdb-rkv"], &["stonecast-lab"]] {
            let findings = laboratory_in_the_product(product(named));
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].starts_with("stonecast-bench may not depend on"));
        }
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(judge("stonecast-gadgets", &[]).len(), 1);
        assert_eq!(judge("gadgets", &[]).len(), 1);
    }

    #[test]
    fn no_layer_of_the_table_reaches_itself() {
        fn reaches(from: &str, to: &str) -> bool {
            allowed_for(from)
                .into_iter()
                .flatten()
                .any(|next| next == to || reaches(next, to))
        }
        for role in ALLOWED.iter().map(|(role, _)| role).chain(ON_TOP) {
            assert!(!reaches(role, role), "{role}");
        }
    }
}
