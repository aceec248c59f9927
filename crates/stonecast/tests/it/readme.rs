//! The README shows the code of the examples, which run as part of the whole test command.

const README: &str = include_str!("../../../../README.md");
const EXAMPLES: [&str; 5] = [
    include_str!("../../examples/put_and_get.rs"),
    include_str!("../../examples/embed_server.rs"),
    include_str!("../../examples/many_gets.rs"),
    include_str!("../../examples/retry.rs"),
    include_str!("../../examples/watch_metrics.rs"),
];

#[test]
fn the_code_of_the_readme_stands_in_the_examples() {
    let blocks = README.split("```rust\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    assert_eq!(blocks.len(), EXAMPLES.len());
    for (block, example) in blocks.iter().zip(EXAMPLES) {
        let body: String = example
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
            .collect();
        assert!(body.contains(block), "{block}");
    }
}
