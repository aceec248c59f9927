//! The public functions of the library that no program shows.
//!
//! A program meets a type through the functions that take or return it, so functions and methods are counted, and types
//! are not. A function is shown if a code block of the library's documentation, an example, or the stranger's program
//! calls it: all of these are compiled by the whole test command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::lexer::{product_code, words};
use crate::source_rules::sources_in;
use crate::types::behind_generics;

/// Returns every public function of the library that no program calls, as `file:line: sentence`.
pub fn findings(root: &Path) -> Result<Vec<String>> {
    let library = root.join("crates/stonecast");
    let sources = sources_in(&library.join("src"))?;
    let mut programs = vec![];
    for folder in [
        library.join("examples"),
        root.join("examples/stranger/tests"),
    ] {
        programs.extend(sources_in(&folder)?.into_iter().map(|(_, source)| source));
    }
    programs.extend(
        sources
            .iter()
            .map(|(_, source)| code_of_documentation(source)),
    );
    Ok(not_shown(&sources, &programs))
}

/// The public functions in `sources` that none of `programs` calls.
fn not_shown(sources: &[(PathBuf, String)], programs: &[String]) -> Vec<String> {
    let called: BTreeSet<&str> = programs.iter().flat_map(|program| calls(program)).collect();
    let code = |(file, source): &(PathBuf, String)| (file.clone(), product_code(source));
    let library: Vec<_> = sources.iter().map(code).collect();
    let exported: Vec<_> = library
        .iter()
        .map(|(file, code)| exported(file, code, &library))
        .collect();
    let mut findings = Vec::new();
    for ((file, code), own) in library.iter().zip(&exported) {
        // A type may have behaviour in another file than its own.
        let is_met = |name: &str| match declared(code).any(|(_, declared)| declared == name) {
            true => own.contains(name),
            false => exported.iter().any(|names| names.contains(name)),
        };
        for (line, name) in functions(code, is_met) {
            if !called.contains(name) {
                findings.push(format!(
                    "{}:{line}: no documentation and no example calls `{name}`; show it in the story of its module",
                    file.display()
                ));
            }
        }
    }
    findings
}

/// The items declared in `code` at the level of the module, with what stands before the kind of each.
fn declared(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let kinds = ["struct ", "enum ", "trait ", "fn "];
    let at_the_level = code.lines().filter(|line| !line.starts_with(' '));
    let split = move |line| kinds.iter().find_map(|kind| str::split_once(line, kind));
    at_the_level
        .filter_map(split)
        .filter_map(|(before, after)| Some((before.trim(), words(after).next()?)))
}

/// The items of a file that programs can name: the public ones of a public module, and those that the module above
/// names in a `pub use`.
fn exported<'s>(file: &Path, code: &'s str, library: &'s [(PathBuf, String)]) -> BTreeSet<&'s str> {
    let is_root = |file: &Path| file.ends_with("lib.rs");
    let public = || {
        let public =
            declared(code).filter(|(before, _)| before.starts_with("pub") && !before.contains('('));
        public.map(|(_, name)| name).collect()
    };
    if is_root(file) {
        return public();
    }
    let folder = file.parent().unwrap_or(file);
    let (module, above) = match file.ends_with("mod.rs") {
        true => (folder.file_name(), folder.parent().unwrap_or(folder)),
        false => (file.file_stem(), folder),
    };
    let module = module.unwrap_or_default().to_string_lossy();
    let is_above =
        |file: &Path| file.parent() == Some(above) && (is_root(file) || file.ends_with("mod.rs"));
    let above = library.iter().find(|(file, _)| is_above(file));
    let above = above.map_or("", |(_, code)| code);
    if above.contains(&format!("pub mod {module};")) {
        return public();
    }
    let uses = above.split("pub use ").skip(1);
    let of_module =
        uses.filter_map(|rest| rest.split(';').next()?.strip_prefix(&format!("{module}::")));
    of_module.flat_map(words).collect()
}

/// The public functions in `code`, with their lines: those of types that programs meet, and those that programs call by
/// name.
fn functions(code: &str, is_met: impl Fn(&str) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut of_type = None;
    let mut is_hidden = false;
    for (index, line) in code.lines().enumerate() {
        if line.starts_with('}') {
            of_type = None;
        }
        if let Some(header) = line.strip_prefix("impl") {
            of_type = words(behind_generics(header)).next();
        }
        is_hidden |= line.contains("doc(hidden)");
        let Some((before, after)) = line.split_once("fn ") else {
            continue;
        };
        let is_public = matches!(before.trim(), "pub" | "pub const" | "pub async");
        let name = words(after).next().filter(|name| after.starts_with(name));
        if let Some(name) = name.filter(|_| is_public && !is_hidden)
            && is_met(of_type.unwrap_or(name))
        {
            found.push((index + 1, name));
        }
        is_hidden = false;
    }
    found
}

/// The names in `program` that are called.
fn calls(program: &str) -> impl Iterator<Item = &str> {
    let is_called = |name: &&str| {
        let end = name.as_ptr().addr() - program.as_ptr().addr() + name.len();
        program[end..].starts_with('(') || program[end..].starts_with("::<")
    };
    words(program).filter(is_called)
}

/// The lines of the code blocks in the documentation of `source` that are Rust.
fn code_of_documentation(source: &str) -> String {
    let mut code = String::new();
    let mut block = None;
    for line in source.lines() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or(line.strip_prefix("//!")) else {
            block = None;
            continue;
        };
        match (text.trim_start().strip_prefix("```"), block) {
            (Some(kind), None) => block = Some(kind != "text"),
            (Some(_), Some(_)) => block = None,
            (None, Some(true)) => {
                code += text;
                code.push('\n');
            }
            (None, _) => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)], programs: &[&str]) -> Vec<String> {
        let sources: Vec<_> = sources
            .iter()
            .map(|(file, source)| (PathBuf::from(file), (*source).to_owned()))
            .collect();
        let programs: Vec<_> = programs.iter().map(ToString::to_string).collect();
        not_shown(&sources, &programs)
    }

    const ROOT: (&str, &str) = (
        "src/lib.rs",
        "mod client;\npub mod open;\npub use client::{Client};\n",
    );
    const CLIENT: &str =
        "pub struct Client;\nimpl<'a> Client {\n    pub async fn get(&self) {}\n}\n";

    #[test]
    fn a_method_of_an_exported_type_is_shown_by_a_call() {
        let sources = [ROOT, ("src/client.rs", CLIENT)];
        assert_eq!(found(&sources, &["client.get(b\"a\")"]), [""; 0]);
        assert_eq!(found(&sources, &["client.get::<u64>(1)"]), [""; 0]);
        let missing = found(&sources, &["let get = 1; client.get_into(b)"]);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].starts_with("src/client.rs:3: "), "{missing:?}");
    }

    #[test]
    fn private_hidden_and_test_functions_need_no_example() {
        let hidden = "pub struct Client;\nimpl Client {\n    #[doc(hidden)]\n    pub fn a() {}\n    pub(crate) fn b() {}\n}\n\
            pub struct Inner;\nimpl Inner {\n    pub fn c() {}\n}\n#[cfg(test)]\nmod tests {\n    pub fn d() {}\n}\n";
        assert_eq!(found(&[ROOT, ("src/client.rs", hidden)], &[]), [""; 0]);
    }

    #[test]
    fn a_function_of_a_public_module_needs_an_example() {
        let sources = [ROOT, ("src/open/mod.rs", "pub fn take() {}\n")];
        assert_eq!(found(&sources, &[]).len(), 1);
        assert_eq!(found(&sources, &["open::take()"]), [""; 0]);
    }

    #[test]
    fn the_code_of_documentation_is_that_of_its_rust_blocks() {
        let source = "/// call()\n/// ```text\n/// drawn()\n/// ```\n/// ```no_run\n/// shown()\n/// ```\nfn f() {}\n";
        assert_eq!(code_of_documentation(source), " shown()\n");
    }
}
