//! Forbidden words of source text.
//!
//! There are four rules. `unsafe` stands only in four crates, and the root of every other crate
//! forbids it. Clocks, threads and random sources stand only at the edges, because everything
//! between them must run the same way twice in the simulated world. Only plans make regions durable:
//! no store goes around the proof of its plan. Every file belongs to a crate: a file that no `mod`
//! names is not compiled, and its tests do not run. All rules look only at code, not at comments or
//! strings; the second and the third ignore tests. The rule for comments is that of [`comments`], and that for
//! the size of types is that of [`types`], their names that of [`type_names`], and the imports between files that of
//! [`circles`].

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::circles;
use crate::comments;
use crate::layers::role;
use crate::lexer::{code_only, product_code, without_tests};
use crate::metadata::{Metadata, Package};
use crate::{type_names, types};

/// Crates that cannot do their work in safe code: mappings and cache lines, shared memory, a C
/// library, and functions that C calls.
const MAY_BE_UNSAFE: &[&str] = &["media", "fabric-shm", "fabric-verbs", "c"];
/// Crates at the edge to the outside world.
const MAY_BE_UNREPEATABLE: &[&str] = &[
    "cli",
    "bench",
    "lab",
    "gateway",
    "stonecast",
    "config-store",
    "fabric-shm",
    "fabric-verbs",
];
/// Files of other crates at that edge: the pool in a directory has threads that prepare space and
/// keep a processor awake; the clock of real providers stands once, beside their executor.
const FILES_THAT_MAY_BE_UNREPEATABLE: &[&str] = &[
    "crates/fabric/src/boot_time.rs",
    "crates/media/src/directory",
];
/// Words that make two runs differ.
const UNREPEATABLE: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "boot_time()",
    "clock_gettime",
    "thread::spawn",
    "thread::Builder",
    "thread::sleep",
    "rand::rng",
];

/// Crates that call media and regions themselves: the crates that implement them, and the crate that runs plans.
const MAY_PERSIST: &[&str] = &[
    "media",
    "persist",
    "fabric-sim",
    "fabric-shm",
    "fabric-verbs",
];
/// Ways to make a region durable without a plan.
const AROUND_PLANS: &[&str] = &["persist_spans", "poll_persist", "make_durable"];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Returns every breach, as `file:line: sentence`.
pub fn findings(metadata: &Metadata) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let sources_of_all = metadata
        .packages
        .iter()
        .map(|package| Ok((package, sources_in(&package.folder())?)))
        .collect::<Result<Vec<_>>>()?;
    let shared: Vec<PathBuf> = sources_of_all
        .iter()
        .flat_map(|(_, sources)| sources)
        .flat_map(|(file, source)| files_named_by_path(file, source))
        .collect();
    for (package, sources) in &sources_of_all {
        findings.extend(unforbidden_roots(package, &metadata.workspace_root)?);
        let compiled = sources.iter().filter(|(file, _)| !is_test(file));
        let code_of = |(file, source): &(PathBuf, String)| (file.clone(), product_code(source));
        let compiled: Vec<_> = compiled.map(code_of).collect();
        let role_of_package = role(&package.name).unwrap_or(&package.name);
        findings.extend(types::findings(role_of_package, &compiled));
        findings.extend(type_names::findings(role_of_package, &compiled));
        findings.extend(circles::findings(role_of_package, &compiled));
        let code: String = sources
            .iter()
            .map(|(_, source)| code_only(source))
            .collect();
        for (file, source) in sources {
            let name = file.strip_prefix(&metadata.workspace_root).unwrap_or(file);
            let role = role(&package.name).unwrap_or(&package.name);
            findings.extend(breaches(role, name, source));
            findings.extend(comments::findings(name, source));
            let is_root = package
                .targets
                .iter()
                .any(|target| target.src_path == *file);
            if !is_root && !is_named(name, &code) && !shared.contains(file) {
                findings.push(format!(
                    "{}:1: no `mod` names this file, so it is not compiled",
                    name.display()
                ));
            }
        }
    }
    Ok(findings)
}

/// Every source file under `folder`, with its text.
pub fn sources_in(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let files = rust_files(folder)?.into_iter();
    files
        .map(|file| {
            let source =
                fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            Ok((file, source))
        })
        .collect()
}

/// The files that `file` includes as modules by `#[path = "..."]`: test support that crates share.
fn files_named_by_path(file: &Path, source: &str) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(file);
    let attributes = source.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("#[path = \"")?;
        path.strip_suffix("\"]")
    });
    attributes
        .map(|path| {
            let mut resolved = folder.to_path_buf();
            for part in Path::new(path).components() {
                match part {
                    Component::ParentDir => {
                        resolved.pop();
                    }
                    part => resolved.push(part),
                }
            }
            resolved
        })
        .collect()
}

/// Libraries and binaries that do not forbid unsafe code.
fn unforbidden_roots(package: &Package, workspace: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    if role(&package.name).is_some_and(|role| MAY_BE_UNSAFE.contains(&role)) {
        return Ok(findings);
    }
    for target in package.targets.iter().filter(|target| {
        target
            .kind
            .iter()
            .any(|kind| kind == "lib" || kind == "bin")
    }) {
        let source = fs::read_to_string(&target.src_path)
            .with_context(|| format!("reading {}", target.src_path.display()))?;
        if !code_only(&source).contains(FORBID) {
            let name = target
                .src_path
                .strip_prefix(workspace)
                .unwrap_or(&target.src_path);
            findings.push(format!(
                "{}:1: the root of a safe crate says {FORBID}",
                name.display()
            ));
        }
    }
    Ok(findings)
}

fn breaches(role: &str, file: &Path, source: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let code = code_only(source);
    if !MAY_BE_UNSAFE.contains(&role) {
        let message = format!("`unsafe` may stand only in {}", MAY_BE_UNSAFE.join(", "));
        findings.extend(
            lines_with_word(&code, "unsafe")
                .map(|line| format!("{}:{line}: {message}", file.display())),
        );
    }
    let persists = MAY_PERSIST.contains(&role) || role == "xtask" || is_test(file);
    if !persists {
        let code = without_tests(&code);
        for word in AROUND_PLANS {
            let message = format!(
                "`{word}` makes bytes durable without a plan; call `Commit::persist`, which gives out a `Persisted`"
            );
            findings.extend(
                lines_with_word(&code, word)
                    .map(|line| format!("{}:{line}: {message}", file.display())),
            );
        }
    }
    let edge = MAY_BE_UNREPEATABLE.contains(&role)
        || role == "xtask"
        || is_test(file)
        || FILES_THAT_MAY_BE_UNREPEATABLE
            .iter()
            .any(|prefix| file.to_string_lossy().starts_with(prefix));
    if !edge {
        let code = without_tests(&code);
        for word in UNREPEATABLE {
            let message =
                format!("`{word}` makes two runs differ; take it from the runtime or the caller");
            findings.extend(
                lines_with_word(&code, word)
                    .map(|line| format!("{}:{line}: {message}", file.display())),
            );
        }
    }
    findings
}

/// Returns whether the `code` of the package declares a module with the name of `file`.
fn is_named(file: &Path, code: &str) -> bool {
    let stem = if file.ends_with("mod.rs") {
        file.parent().and_then(Path::file_name)
    } else {
        file.file_stem()
    };
    let declaration = format!("mod {};", stem.unwrap_or_default().to_string_lossy());
    lines_with_word(code, &declaration).next().is_some()
}

/// Returns whether a file is compiled only for tests.
fn is_test(file: &Path) -> bool {
    let in_folder = file
        .components()
        .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches");
    in_folder || file.file_name().is_some_and(|name| name == "tests.rs")
}

/// The numbers of the lines of `code` in which `word` stands by itself.
fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let stands_alone = move |line: &str, at: usize| {
        let bytes = line.as_bytes();
        !in_word(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !in_word(bytes.get(at + word.len()))
    };
    let lines = code.lines().enumerate();
    lines
        .filter(move |(_, line)| {
            line.match_indices(word)
                .any(|(at, _)| stands_alone(line, at))
        })
        .map(|(index, _)| index + 1)
}

/// Every `.rs` file under `folder`.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(role: &str, file: &str, source: &str) -> usize {
        breaches(role, Path::new(file), source).len()
    }

    #[test]
    fn unsafe_code_is_found_outside_its_four_crates() {
        let source = "fn f() { unsafe { g() } }";
        assert_eq!(found("log", "crates/log/src/scan.rs", source), 1);
        assert_eq!(
            found("log", "crates/log/tests/it/main.rs", source),
            1,
            "in tests, too"
        );
        assert_eq!(found("media", "crates/media/src/mapping.rs", source), 0);
        assert_eq!(
            found(
                "log",
                "crates/log/src/scan.rs",
                "// unsafe\nfn f() {} #[forbid(unsafe_code)]"
            ),
            0
        );
    }

    #[test]
    fn a_file_that_no_module_names_is_found() {
        let code = "mod order;\npub mod world;\n#[cfg(test)]\nmod tests;\nsubmod not;";
        for named in [
            "tests/it/order.rs",
            "tests/it/world/mod.rs",
            "src/ring/tests.rs",
        ] {
            assert!(is_named(Path::new(named), code), "{named}");
        }
        for orphan in ["tests/it/reserve.rs", "src/reserve/mod.rs", "src/not.rs"] {
            assert!(!is_named(Path::new(orphan), code), "{orphan}");
        }
    }

    #[test]
    fn a_file_that_another_crate_includes_by_its_path_is_named() {
        let main = Path::new("/w/crates/kv/tests/it/main.rs");
        let source = "mod order;\n#[path = \"../../../fabric/tests/it/pause.rs\"]\nmod pause;";
        assert_eq!(
            files_named_by_path(main, source),
            [Path::new("/w/crates/fabric/tests/it/pause.rs")]
        );
        assert!(files_named_by_path(main, "// path = pause.rs").is_empty());
    }

    #[test]
    fn bytes_that_become_durable_without_a_plan_are_found_in_stores() {
        let source =
            "async fn f() { persist_spans(&*log, &spans).await; log.poll_persist(a, b, c); }";
        assert_eq!(found("kv", "crates/kv/src/recovery.rs", source), 2);
        assert_eq!(found("published", "crates/published/src/hub.rs", source), 2);
        assert_eq!(found("kv", "crates/kv/tests/it/trouble.rs", source), 0);
        assert_eq!(
            found("persist", "crates/persist/src/execute/local.rs", source),
            0
        );
        let through_a_plan = "async fn f() { commit.persist(&*log, &spans).await; }";
        assert_eq!(found("kv", "crates/kv/src/recovery.rs", through_a_plan), 0);
    }

    #[test]
    fn the_clock_of_real_providers_is_read_by_them_alone() {
        let source = "fn f() -> u64 { stonecast_fabric::boot_time() }";
        assert_eq!(found("cluster", "crates/cluster/src/lease.rs", source), 1);
        assert_eq!(
            found("fabric-shm", "crates/fabric-shm/src/park.rs", source),
            0
        );
        let source = "fn f() { clock_gettime(ClockId::Boottime) }";
        assert_eq!(found("fabric", "crates/fabric/src/port.rs", source), 1);
        assert_eq!(found("fabric", "crates/fabric/src/boot_time.rs", source), 0);
    }

    #[test]
    fn clocks_and_threads_are_found_below_the_edges() {
        let source =
            "fn f() { let x = std::time::Instant::now(); std::thread::spawn(g); rand::rng(); }";
        assert_eq!(found("fabric", "crates/fabric/src/port.rs", source), 3);
        assert_eq!(found("cli", "crates/cli/src/main.rs", source), 0);
        assert_eq!(found("media", "crates/media/src/pool.rs", source), 3);
        assert_eq!(
            found("media", "crates/media/src/directory/prepare.rs", source),
            0
        );
        assert_eq!(found("fabric", "crates/fabric/tests/it/main.rs", source), 0);
        assert_eq!(
            found(
                "fabric",
                "crates/fabric/src/port.rs",
                &format!("#[cfg(test)]\nmod tests {{ {source} }}")
            ),
            0
        );
        assert_eq!(
            found(
                "fabric",
                "crates/fabric/src/port.rs",
                "fn f() { my_rand::rng_of() }"
            ),
            0
        );
    }
}
