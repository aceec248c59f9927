//! Rust source with everything but code blanked out, so that a search for a word finds only code.

/// `source` with comments, strings and character literals replaced by spaces; line breaks stay in
/// place.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match end_of_token(bytes, at) {
            Some(end) => end,
            None => {
                at = end_of_word(bytes, at);
                continue;
            }
        };
        code[at..end]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(code).expect("whole characters were replaced by spaces, byte by byte")
}

/// The code of `source` that is not of its tests; line breaks stay.
pub fn product_code(source: &str) -> String {
    without_tests(&code_only(source))
}

/// The word at the start of `text`.
pub fn word(text: &str) -> &str {
    let end = text.find(is_between_words);
    &text[..end.unwrap_or(text.len())]
}

/// The words of `text`: names and keywords.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_between_words).filter(|word| !word.is_empty())
}

fn is_between_words(letter: char) -> bool {
    !letter.is_alphanumeric() && letter != '_'
}

/// `code` (see [`code_only`]) without the items under `#[cfg(test)]`; line breaks stay.
pub fn without_tests(code: &str) -> String {
    let mut rest = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(start) = find_test_attribute(&rest, from) {
        let end = end_of_item(&rest, start);
        rest[start..end]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
        from = end;
    }
    String::from_utf8(rest).expect("only whole items were replaced by spaces")
}

/// End of the comment or literal that starts at `at`; `None` if none starts here.
fn end_of_token(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes[at] {
        b'/' if bytes[at..].starts_with(b"//") => {
            Some(position_or_end(bytes, at, |byte| byte == b'\n'))
        }
        b'/' if bytes[at..].starts_with(b"/*") => Some(end_of_block_comment(bytes, at)),
        b'"' => Some(end_of_quoted(bytes, at, b'"')),
        b'\'' => end_of_character(bytes, at),
        b'r' | b'b' | b'c' => end_of_prefixed_literal(bytes, at),
        _ => None,
    }
}

/// The next place where a token can start: after the word that starts at `at`, or the next byte.
fn end_of_word(bytes: &[u8], at: usize) -> usize {
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    if in_word(bytes[at]) {
        position_or_end(bytes, at, |byte| !in_word(byte))
    } else {
        at + 1
    }
}

fn position_or_end(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[from..]
        .iter()
        .position(|byte| wanted(*byte))
        .map_or(bytes.len(), |offset| from + offset)
}

fn end_of_block_comment(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn end_of_quoted(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal, such as `'a'` or `'\n'`; `None` for a lifetime, such as `'a`.
fn end_of_character(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        return Some(end_of_quoted(bytes, start, b'\''));
    }
    let text = std::str::from_utf8(&bytes[start + 1..]).ok()?;
    let end = start + 1 + text.chars().next()?.len_utf8();
    (bytes.get(end) == Some(&b'\'')).then_some(end + 1)
}

/// The end of a literal such as `r"..."`, `r#"..."#`, `b"..."`, `b'x'`, `br"..."` or `c"..."`; `None` for a word that
/// only starts like one.
fn end_of_prefixed_literal(bytes: &[u8], start: usize) -> Option<usize> {
    let letters = bytes[start..]
        .iter()
        .take(2)
        .take_while(|byte| matches!(byte, b'r' | b'b' | b'c'))
        .count();
    let after = start + letters;
    let raw = bytes[start..after].contains(&b'r');
    let hashes = if raw {
        bytes[after..]
            .iter()
            .take_while(|byte| **byte == b'#')
            .count()
    } else {
        0
    };
    match bytes.get(after + hashes)? {
        b'"' if raw => {
            let close: Vec<u8> = std::iter::once(b'"')
                .chain(std::iter::repeat_n(b'#', hashes))
                .collect();
            let body = after + hashes + 1;
            let end = bytes[body..]
                .windows(close.len())
                .position(|window| window == close);
            Some(end.map_or(bytes.len(), |end| body + end + close.len()))
        }
        b'"' => Some(end_of_quoted(bytes, after, b'"')),
        b'\'' if bytes[start..after] == *b"b" => Some(end_of_quoted(bytes, after, b'\'')),
        _ => None,
    }
}

fn find_test_attribute(code: &[u8], from: usize) -> Option<usize> {
    let text = std::str::from_utf8(&code[from..]).expect("cut at the end of an item");
    let found = ["#[cfg(test)]", "#[cfg(all(test,"]
        .iter()
        .filter_map(|attribute| text.find(attribute))
        .min();
    found.map(|offset| from + offset)
}

/// End of the item under the attribute at `start`: its closing brace, or a semicolon before any
/// brace.
fn end_of_item(code: &[u8], start: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code[start..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return start + offset + 1;
                }
            }
            b';' if depth == 0 => return start + offset + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        for source in [
            "// word",
            "/* a /* word */ word */",
            "\"word\"",
            "\"\\\" word\"",
            "r\"word\"",
            "r#\"\" word\"#",
            "b\"word\"",
            "br#\"word\"#",
            "c\"word\"",
        ] {
            let code = code_only(source);
            assert!(!code.contains("word"), "{source} gave {code}");
            assert_eq!(code.len(), source.len());
        }
    }

    #[test]
    fn code_beside_literals_stays() {
        for source in [
            "'a' word",
            "'\\'' word",
            "'\"' word",
            "fn f<'a>(x: &'a str) { word }",
            "b'\"' word",
            "\"x\" word",
            "/* x */ word",
            "barrier word",
            "'\u{e9}' word",
            "r#word",
        ] {
            assert!(
                code_only(source).contains("word"),
                "{source} gave {}",
                code_only(source)
            );
        }
    }

    #[test]
    fn items_under_a_test_attribute_are_cut_and_lines_keep_their_number() {
        let source = "fn a() { one }\n#[cfg(test)]\nmod tests {\n fn b() { two }\n}\nfn c() { three }\n#[cfg(test)]\nmod far;\nfour";
        let rest = product_code(source);
        assert!(rest.contains("one") && rest.contains("three") && rest.contains("four"));
        assert!(!rest.contains("two") && !rest.contains("far"));
        assert_eq!(rest.matches('\n').count(), source.matches('\n').count());
    }
}
