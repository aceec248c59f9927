//! Programs in C against a server over shared memory, each with both forms of the library.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use crate::compiler::{Linked, Place, Program, missing, source, words};
use crate::header;
use crate::not_run::not_run;

/// No arguments.
const NOTHING: [&str; 0] = [];

/// Compiles and runs `path` with both forms of the library, each on a server of its own, and demands that it prints
/// `expected`.
fn both_print(path: &str, expected: &str) {
    if let Some(reason) = missing(&["cc", "pkg-config"]) {
        return not_run(&format!("C: {path}"), &reason);
    }
    for linked in [Linked::Shared, Linked::Static] {
        let place = Place::new();
        let output = Program::c(&["-pthread"], &source(path), linked).run(&[place.url()]);
        assert!(output.status.success(), "{linked:?}: {}", words(&output));
        assert_eq!(words(&output), expected, "{linked:?}");
    }
}

#[test]
fn the_example_of_one_key_reads_what_it_wrote() {
    both_print(
        "../../examples/c/put_and_get.c",
        "hello, as written: yes\nhello\n",
    );
}

#[test]
fn the_example_of_a_retry_takes_its_job_once() {
    both_print(
        "../../examples/c/retry.c",
        "attempt 1: no answer came within 0ns; the outcome is unknown\nthe job is taken\n",
    );
}

#[test]
fn the_example_of_many_keys_finds_all_of_them() {
    both_print(
        "../../examples/c/many.c",
        "ada is 36\nbob is 41\neve is 29, and leaves\nada\nbob\neve\nkeys: 3\n",
    );
}

#[test]
fn the_contract_of_the_header_is_kept() {
    both_print("tests/c/contract.c", "0 broken\n");
}

#[test]
fn the_example_without_a_server_says_where_it_looked_and_what_to_do() {
    if let Some(reason) = missing(&["cc", "pkg-config"]) {
        return not_run("C: without a server", &reason);
    }
    let example = source("../../examples/c/put_and_get.c");
    let output = Program::c(&[], &example, Linked::Shared).run(&["shm:/nowhere/socket"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = words(&output);
    assert!(
        printed.starts_with("connect: ") && printed.contains("/nowhere/socket"),
        "{printed}"
    );
    assert!(printed.ends_with("(nothing was done)\n"), "{printed}");
}

/// A program in C does not ignore the signal of a broken pipe, as programs in Rust do.
#[test]
fn a_program_outlives_its_server() {
    if let Some(reason) = missing(&["cc", "pkg-config"]) {
        return not_run("C: a program outlives its server", &reason);
    }
    let place = Place::new();
    let program = Program::c(&[], &source("tests/c/outlives.c"), Linked::Shared);
    let mut command = program.command();
    command.arg(place.url());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "connected\n");
    place.end();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "disconnected: yes\n".repeat(3) + "closed: yes\n");
    assert!(child.wait().unwrap().success());
}

/// A function that Rust did not export would be missed by the linker.
#[test]
fn both_libraries_have_every_function_of_the_header() {
    if let Some(reason) = missing(&["cc", "pkg-config"]) {
        return not_run("C: every function", &reason);
    }
    let header = std::fs::read_to_string(header::path()).unwrap();
    let declared = header.split_once("extern \"C\" {").unwrap().1;
    let names: Vec<_> = declared
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '(')
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("stonecast_"))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all.c");
    let mentions: String = names
        .iter()
        .map(|name| format!("(void (*)(void)){name},\n"))
        .collect();
    let program = format!(
        "#include <stonecast.h>\nstatic void (*volatile const all[])(void) = {{\n{mentions}}};\n\
         int main(void) {{ return all[0] == 0; }}\n"
    );
    std::fs::write(&all, program).unwrap();
    for linked in [Linked::Shared, Linked::Static] {
        let output = Program::c(&["-Wno-cast-function-type"], &all, linked).run(&NOTHING);
        assert!(output.status.success(), "{linked:?}: {}", words(&output));
    }
}

#[test]
fn the_code_of_the_pages_runs() {
    let block = |page: &'static str| {
        let rest = page.split_once("```c\n").unwrap().1;
        rest.split_once("```").unwrap().0
    };
    let page = block(include_str!("../../../../docs/c.md"));
    assert!(
        page.contains(block(include_str!("../../../../README.md"))),
        "the README shows a part of it"
    );
    if let Some(reason) = missing(&["cc", "pkg-config"]) {
        return not_run("C: the code of docs/c.md", &reason);
    }
    let place = Place::new();
    let (includes, body) = page.split_once("\n\n").unwrap();
    let body = body.replace("shm:./stonecast-data/socket", &place.url());
    let program =
        format!("#include <stdio.h>\n{includes}\nint main(void) {{\n{body}return 0;\n}}\n");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("page.c");
    std::fs::write(&source, program).unwrap();
    let output = Program::c(&[], &source, Linked::Shared).run(&NOTHING);
    assert_eq!(words(&output), "hello");
}

#[test]
fn the_header_is_one_of_cpp_too() {
    if let Some(reason) = missing(&["c++", "pkg-config"]) {
        return not_run("C: the header in C++", &reason);
    }
    let program = source("tests/c/header.cpp");
    let program = Program::new("c++", &["-std=c++11"], &program, Linked::Shared);
    let output = program.run(&NOTHING);
    assert!(output.status.success(), "{}", words(&output));
}
