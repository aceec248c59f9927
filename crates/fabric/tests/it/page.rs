//! The page `docs/contract.md` lists exactly the promises that are checked.

use std::fmt::Write as _;

use stonecast_fabric::contract::{Need, cases};

const PAGE: &str = include_str!("../../../../docs/contract.md");
const START: &str = "<!-- promises -->\n";
const END: &str = "<!-- end -->";

#[test]
fn the_page_lists_the_promises_that_are_checked() {
    let (_, rest) = PAGE
        .split_once(START)
        .expect("the page has the first marker");
    let (shown, _) = rest
        .split_once(END)
        .expect("the page has the second marker");
    let expected = printed();
    assert!(
        shown == expected,
        "put this between the markers of docs/contract.md:\n{expected}"
    );
}

#[test]
fn every_promise_has_a_name_of_its_own() {
    let mut names: Vec<_> = cases().iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases().len());
}

fn printed() -> String {
    let mut text = format!("{} promises.\n", cases().len());
    let mut group = "";
    for case in cases() {
        if case.group != group {
            group = case.group;
            let mut title = group.replace('_', " ");
            title[..1].make_ascii_uppercase();
            write!(text, "\n### {title}\n\n").expect("writing to a String cannot fail");
        }
        let needs: Vec<&str> = case.needs.iter().map(|need| in_words(*need)).collect();
        let needs = if needs.is_empty() {
            String::new()
        } else {
            format!(" *(needs {})*", needs.join(", "))
        };
        writeln!(text, "- {}{needs}", case.sentence()).expect("writing to a String cannot fail");
    }
    text
}

fn in_words(need: Need) -> &'static str {
    match need {
        Need::MemoryWindows => "memory windows",
        Need::MultiPacket => "multi-packet queues",
        Need::FlushGlobal => "FLUSH with global visibility",
        Need::FlushPersistent => "FLUSH with persistence",
        Need::AtomicWrite => "ATOMIC_WRITE",
        Need::SomethingMissing => "a device that lacks an operation",
        Need::Killing => "a world that can kill",
    }
}
