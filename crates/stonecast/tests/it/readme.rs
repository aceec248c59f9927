//! The README shows the code of the examples, which run as part of the whole test command.

const README: &str = include_str!("../../../../README.md");
const EXAMPLES: [&str; 5] = [
    include_str!("../../examples/put_and_get.rs"),
    include_str!("../../examples/embed_server.rs"),
    include_str!("../../examples/many_gets.rs"),
    include_str!("../../examples/retry.rs"),
    include_str!("../../examples/watch_metrics.rs"),
];

/// The blocks of Rust in the README.
fn blocks() -> Vec<&'static str> {
    let blocks = README.split("```rust\n").skip(1);
    blocks
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect()
}

#[test]
fn the_code_of_the_readme_stands_in_the_examples() {
    let blocks = blocks();
    assert_eq!(blocks.len(), EXAMPLES.len());
    for (block, example) in blocks.iter().zip(EXAMPLES) {
        let body: String = example
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
            .collect();
        assert!(body.contains(block), "{block}");
    }
}

/// The examples are formatted, and the test above finds these lines there: no line can hide two statements.
#[test]
fn a_client_stores_and_reads_in_three_lines_and_a_program_embeds_a_server_in_five() {
    let bootstraps = [
        (3, ["connect(", ".put(", ".get("]),
        (5, ["Server::builder(", ".serve()", "connect("]),
    ];
    for ((most, calls), block) in bootstraps.into_iter().zip(blocks()) {
        assert!(block.lines().count() <= most, "{block}");
        for call in calls {
            assert!(block.contains(call), "{call}: {block}");
        }
    }
}
