//! Compares the page of the protocol with the types.

use std::fmt::Write as _;

use super::layout::Field;
use super::{answer, batch, connect, copies, request};
use crate::stat::{COUNTERS, STAT_NAMES};
use crate::wire::limits::PROTOCOL_VERSION;

fn table(fields: &[Field]) -> String {
    let mut table = String::from("| offset | size | field |\n| --- | --- | --- |\n");
    for Field {
        offset,
        size,
        meaning,
    } in fields
    {
        writeln!(table, "| {offset} | {size} | {meaning} |").expect("a String takes everything");
    }
    table
}

fn kinds() -> String {
    let named = request::KINDS
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{} {name}", index + 1));
    format!("Kinds: {}.\n", named.collect::<Vec<_>>().join(", "))
}

fn answers() -> String {
    let mut table = String::from("| tag | body | meaning |\n| --- | --- | --- |\n");
    for (tag, body, meaning) in answer::VERDICTS {
        writeln!(table, "| {tag} | 8 bytes: {body} | {meaning} |")
            .expect("a String takes everything");
    }
    let size = |fields: &[Field]| fields.iter().map(|field| field.size).sum::<usize>();
    for (tag, bytes, meaning) in [
        (answer::TAG_LEASE, size(answer::LEASE), "a lease, see below"),
        (
            answer::TAG_STAT,
            COUNTERS * 8,
            "a page of a report, see below",
        ),
        (
            answer::TAG_ACCESS,
            size(answer::ACCESS),
            "access, see below",
        ),
        (
            answer::TAG_RIGHTS,
            size(answer::RIGHTS),
            "rights to publish, see below",
        ),
        (
            answer::TAG_READER_LEASE,
            size(answer::READER_LEASE),
            "a reader's lease, see below",
        ),
        (
            answer::TAG_TIME,
            size(answer::TIME),
            "the server's time, see below",
        ),
        (
            answer::TAG_KEPT,
            size(answer::KEPT),
            "kept records, see below",
        ),
        (
            answer::TAG_COPIES,
            size(copies::COPIES),
            "copies of the node's shards, see below",
        ),
    ] {
        writeln!(table, "| {tag:#x} | {bytes} bytes | {meaning} |")
            .expect("a String takes everything");
    }
    table
}

fn report() -> String {
    let names: Vec<String> = STAT_NAMES
        .iter()
        .map(|name| name.replace('_', " "))
        .collect();
    format!("{}.\n", names.join(", "))
}

#[test]
fn the_page_of_the_protocol_agrees_with_the_types() {
    let page = include_str!("../../../../docs/formats/protocol.md");
    assert!(
        page.contains(&format!("Protocol version {PROTOCOL_VERSION}.")),
        "the page names another version"
    );
    let mut wrong = String::new();
    for (name, printed) in [
        ("hello", table(connect::HELLO)),
        ("welcome", table(connect::WELCOME)),
        ("request", table(request::REQUEST)),
        ("kinds", kinds()),
        ("batch", table(batch::BATCH_ENTRY)),
        ("answers", answers()),
        ("lease", table(answer::LEASE)),
        ("access", table(answer::ACCESS)),
        ("rights", table(answer::RIGHTS)),
        ("reader's lease", table(answer::READER_LEASE)),
        ("time", table(answer::TIME)),
        ("kept", table(answer::KEPT)),
        ("copies", table(copies::COPIES)),
        ("copy", table(copies::COPY)),
        ("report", report()),
    ] {
        let (_, rest) = page
            .split_once(&format!("<!-- {name} -->\n"))
            .unwrap_or_else(|| panic!("no marker {name}:\n{printed}"));
        let (shown, _) = rest
            .split_once("<!-- end -->")
            .expect("the page has the second marker");
        if shown != printed {
            writeln!(wrong, "<!-- {name} -->\n{printed}<!-- end -->")
                .expect("a String takes everything");
        }
    }
    assert!(
        wrong.is_empty(),
        "put this between the markers of docs/formats/protocol.md:\n{wrong}"
    );
}
