//! The commands of `docs/cluster.md` print what the page says.

use stonecast_media::Durability;

use crate::support::{command, run};

use super::Cluster;

const PAGE: &str = include_str!("../../../../../docs/cluster.md");

/// The blocks of commands on the page, each with the words behind `console`.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let blocks = PAGE.split("```console").skip(1);
    let parts = blocks.map(|block| block.split_once('\n').expect("a block has lines"));
    parts
        .map(|(words, rest)| (words, rest.split_once("```").expect("a block ends").0))
        .collect()
}

/// The commands of a block, in order, each with what it prints.
fn commands(block: &'static str) -> Vec<(&'static str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
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
    commands
}

/// The text without the parts that differ from run to run: names of clusters, and numbers of
/// processes.
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

/// The cluster in which a block begins.
fn scene(words: &str) -> Cluster {
    if words.is_empty() {
        return Cluster::absent();
    }
    assert_eq!(words, " three-nodes-and-a-spare");
    let cluster = Cluster::created(&[]);
    cluster.place();
    cluster.register("d", Durability::Power);
    cluster
}

#[test]
fn the_commands_of_the_page_print_what_the_page_says() {
    let blocks = blocks();
    assert_eq!(blocks.len(), 2);
    for (words, block) in blocks {
        let cluster = scene(words);
        for (typed, expected) in commands(block) {
            let mut words = typed.split(' ');
            assert_eq!(words.next(), Some("stonecast"), "{typed}");
            let mut asked = command();
            asked.args(words).current_dir(cluster.place.path());
            let output = run(asked, b"");
            assert_eq!(settled(output.text()), settled(&expected), "{typed}");
        }
    }
}
