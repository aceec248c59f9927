//! What workers write down: one line a note, each with one `write`, so that it outlives the worker.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// What an operation does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    Delete,
}

/// One note. Operations have numbers that grow with time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// About to ask.
    Begin { operation: u64, kind: Kind, key: String },
    /// Done, and acknowledged.
    Acknowledged { operation: u64 },
    /// Not done, and the server said so.
    NotDone { operation: u64 },
    /// A reader found this under the key.
    Saw { operation: u64, key: String },
}

/// Where a worker writes.
pub struct Notes {
    file: File,
}

impl Notes {
    /// Goes on with the notes in `path`.
    pub fn append(path: &Path) -> Self {
        Self { file: OpenOptions::new().create(true).append(true).open(path).expect("the notes can be opened") }
    }

    /// Writes one down.
    pub fn write(&self, note: &Note) {
        let line = match note {
            Note::Begin { operation, kind: Kind::Put, key } => format!("put {operation} {key}\n"),
            Note::Begin { operation, kind: Kind::Delete, key } => format!("delete {operation} {key}\n"),
            Note::Acknowledged { operation } => format!("acknowledged {operation} -\n"),
            Note::NotDone { operation } => format!("not-done {operation} -\n"),
            Note::Saw { operation, key } => format!("saw {operation} {key}\n"),
        };
        let written = (&self.file).write(line.as_bytes()).expect("the notes can be written");
        assert_eq!(written, line.len(), "a note is written whole");
    }
}

/// Everything that was written down; nothing if nobody wrote.
pub fn read(path: &Path) -> Vec<Note> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A note that the writer's death cut off was not written.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().map(parse).collect()
}

fn parse(line: &str) -> Note {
    let words: Vec<&str> = line.split(' ').collect();
    let [what, operation, key] = words[..] else { panic!("a note has three words: {line}") };
    let operation = operation.parse().expect("a number");
    let key = key.to_owned();
    match what {
        "put" => Note::Begin { operation, kind: Kind::Put, key },
        "delete" => Note::Begin { operation, kind: Kind::Delete, key },
        "acknowledged" => Note::Acknowledged { operation },
        "not-done" => Note::NotDone { operation },
        "saw" => Note::Saw { operation, key },
        _ => panic!("no note starts with {what}"),
    }
}
