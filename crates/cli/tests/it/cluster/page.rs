//! The commands of `docs/cluster.md` print what the page says.

use crate::support::{command, run};

use super::Cluster;

const PAGE: &str = include_str!("../../../../../docs/cluster.md");

/// The commands of the page, in order, each with what it prints.
fn commands() -> Vec<(&'static str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for block in PAGE.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(typed) => commands.push((typed, String::new())),
                None => {
                    let (_, printed) = commands.last_mut().expect("a command comes first");
                    *printed += line;
                    printed.push('\n');
                }
            }
        }
    }
    commands
}

/// The text without what differs from run to run: names of clusters, and numbers of processes.
fn settled(text: &str) -> String {
    let mut settled = String::new();
    let mut before = "";
    for word in text.split_inclusive([' ', '\n']) {
        let bare = word.trim_end();
        let varies = bare.len() == 36 && bare.matches('-').count() == 4 || before == "process ";
        let kept = if varies { &word[bare.len()..] } else { word };
        settled += kept;
        before = word;
    }
    settled
}

#[test]
fn the_commands_of_the_page_print_what_the_page_says() {
    let cluster = Cluster::absent();
    let commands = commands();
    assert!(commands.len() >= 2);
    for (typed, expected) in commands {
        let mut words = typed.split(' ');
        assert_eq!(words.next(), Some("stonecast"), "{typed}");
        let mut asked = command();
        asked.args(words).current_dir(cluster.place.path());
        let output = run(asked, b"");
        assert_eq!(settled(output.text()), settled(&expected), "{typed}");
    }
}
