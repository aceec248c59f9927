//! Comments that say nothing, that is a reference to the documentation of the module or a single word, comments that do
//! not name their subject, and lines that are too long.
//!
//! A comment states a fact that its item does not show, such as a unit or a reason. A word in backticks may stand
//! alone, as the literal that the item stands for. Documentation is read alone, in a tool or on a page: *it* and *the
//! same* have nothing before them there.

use std::path::Path;

/// A reader of an item has its module before them.
const EMPTY_REFERENCES: &[&str] = &[
    "see the module documentation",
    "see the module's documentation",
];

/// Words for a subject that the reader of one item does not know.
const PRONOUNS: &[&str] = &["It", "They"];

/// The most columns of a line of comment. Diagrams and tables may be wider.
const COLUMNS_MAX: usize = 120;

/// Returns every comment of `source` that says nothing, lacks its subject or is too wide, as `file:line: sentence`.
pub fn findings(file: &Path, source: &str) -> Vec<String> {
    let texts: Vec<Option<&str>> = source.lines().map(comment).collect();
    let mut findings = Vec::new();
    let mut is_diagram = false;
    for (index, (line, text)) in source.lines().zip(&texts).enumerate() {
        let Some(text) = text else {
            is_diagram = false;
            continue;
        };
        is_diagram ^= text.starts_with("```");
        let is_wide = line.chars().count() > COLUMNS_MAX && text.contains(' ');
        if is_wide && !is_diagram && !text.starts_with('|') {
            let line = index + 1;
            findings.push(format!(
                "{}:{line}: the comment is wider than {COLUMNS_MAX} columns; break the line",
                file.display()
            ));
        }
        let neighbours = [index.checked_sub(1), Some(index + 1)];
        let is_alone = !neighbours
            .into_iter()
            .flatten()
            .any(|line| texts.get(line).is_some_and(Option::is_some));
        let begins = index == 0 || texts[index - 1].is_none();
        let of_documentation = is_documentation(line)
            .then(|| subject_fault(text, begins))
            .flatten();
        for fault in fault(text, is_alone).into_iter().chain(of_documentation) {
            findings.push(format!("{}:{}: {fault}", file.display(), index + 1));
        }
    }
    findings
}

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

/// Whether a line of comment is documentation.
fn is_documentation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

/// The fault of a line of documentation that does not name its subject. `begins`: the comment begins with this line.
fn subject_fault(text: &str, begins: bool) -> Option<&'static str> {
    if text == "The same." {
        return Some("the comment does not say the same as what; name the item that is meant");
    }
    let first = text
        .split(|letter: char| !letter.is_alphabetic())
        .next()
        .unwrap_or_default();
    (begins && PRONOUNS.contains(&first))
        .then_some("the comment begins with a pronoun; name the subject")
}

/// The fault of one line of comment. `is_alone`: the comment has no other line.
fn fault(text: &str, is_alone: bool) -> Option<&'static str> {
    let lower = text.to_lowercase();
    if EMPTY_REFERENCES.iter().any(|words| lower.contains(words)) {
        return Some(
            "the comment refers to the documentation above it; state the fact, or leave the comment out",
        );
    }
    let is_letter = |letter: char| letter.is_alphabetic() || letter == '_' || letter == '-';
    let word = text.trim_end_matches('.');
    let is_word = !word.is_empty() && word.chars().all(is_letter);
    (is_alone && is_word)
        .then_some("a single word tells no fact; say its unit or meaning, or leave the comment out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> usize {
        findings(Path::new("src/ring.rs"), source).len()
    }

    #[test]
    fn a_comment_of_one_word_is_found() {
        assert_eq!(found("struct Ring {\n    /// Bytes.\n    size: u64,\n}"), 1);
        assert_eq!(found("    // ATOMIC_WRITE.\n"), 1);
        assert_eq!(found("    /// In bytes.\n    size: u64,\n"), 0);
        assert_eq!(
            found("    /// `MULTI`.\n    Multi,\n"),
            0,
            "the literal itself"
        );
        assert_eq!(
            found("/// A long sentence whose last word does not fit on the\n/// line.\n"),
            0
        );
        assert_eq!(found("let word = \"Bytes\"; // Bytes.\n"), 0, "beside code");
    }

    #[test]
    fn documentation_that_does_not_name_its_subject_is_found() {
        assert_eq!(found("    /// It is gone.\n    Gone,\n"), 1);
        assert_eq!(found("//! They are stored.\n//! Later, too.\n"), 1);
        assert_eq!(
            found("    ///\n    /// # Errors\n    ///\n    /// The same.\n"),
            1
        );
        assert_eq!(
            found("/// The same as of a leaf.\n/// It has keys.\n/// Items follow.\n"),
            0
        );
        assert_eq!(found("    // It was found before.\n"), 0, "beside the code");
        assert_eq!(found("/// Items of a leaf.\n"), 0, "another word");
    }

    #[test]
    fn a_wide_line_outside_diagrams_and_tables_is_found() {
        let wide = "word ".repeat(30);
        assert_eq!(found(&format!("/// {wide}\n")), 1);
        assert_eq!(found(&format!("/// | {wide} |\n")), 0);
        assert_eq!(found(&format!("/// ```text\n/// {wide}\n/// ```\n")), 0);
        assert_eq!(
            found(&format!("/// ```text\n/// a\n/// ```\n/// {wide}\n")),
            1
        );
        assert_eq!(found(&format!("let words = \"{wide}\";\n")), 0);
    }

    #[test]
    fn a_reference_to_the_documentation_of_the_module_is_found() {
        let reference = EMPTY_REFERENCES[0];
        assert_eq!(found(&format!("/// A ring; {reference}.\n")), 1);
        assert_eq!(
            found(&format!("/// S{} Owns the ring.\n", &reference[1..])),
            1
        );
        assert_eq!(
            found(&format!("let words = \"{reference}\";\n")),
            0,
            "a string"
        );
    }
}
