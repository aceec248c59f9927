//! The notes of workers: one line for each note, written with one `write`, so that the note outlives the worker.
//!
//! A worker may be killed in the middle of a `write`: the kernel copies a page at a time and looks in between whether
//! the process is to die. Such a note counts as not written, and the next worker that continues the notes removes its
//! beginning.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The effect of an operation on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    Delete,
}

/// One note. Operations have numbers that grow with time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The worker is about to send the operation.
    Begin {
        operation: u64,
        kind: Kind,
        key: String,
    },
    /// The operation was done and acknowledged.
    Acknowledged { operation: u64 },
    /// The server answered that the operation was not done.
    NotDone { operation: u64 },
    /// A reader found this operation's value under the key.
    Saw { operation: u64, key: String },
    /// The key that this operation let expire was found absent.
    Gone { operation: u64 },
}

/// The file to which a worker writes its notes.
pub struct Notes {
    file: File,
}

impl Notes {
    /// Continues the notes in `path`, after the last complete one.
    pub fn append(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the notes can be opened");
        let bytes = std::fs::read(path).expect("the notes can be read");
        file.set_len(whole(&bytes).len() as u64)
            .expect("the notes can be cut");
        Self { file }
    }

    /// Writes one note.
    pub fn write(&self, note: &Note) {
        let line = match note {
            Note::Begin {
                operation,
                kind: Kind::Put,
                key,
            } => format!("put {operation} {key}\n"),
            Note::Begin {
                operation,
                kind: Kind::Delete,
                key,
            } => format!("delete {operation} {key}\n"),
            Note::Acknowledged { operation } => format!("acknowledged {operation} -\n"),
            Note::NotDone { operation } => format!("not-done {operation} -\n"),
            Note::Saw { operation, key } => format!("saw {operation} {key}\n"),
            Note::Gone { operation } => format!("gone {operation} -\n"),
        };
        let written = (&self.file)
            .write(line.as_bytes())
            .expect("the notes can be written");
        assert_eq!(written, line.len(), "a note is written whole");
    }
}

/// All notes that were written; none if there is no file.
pub fn read(path: &Path) -> Vec<Note> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = str::from_utf8(whole(&bytes)).expect("notes are text");
    text.lines().map(parse).collect()
}

/// The bytes without a last note that the writer's death cut off.
fn whole(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |last| last + 1);
    &bytes[..end]
}

fn parse(line: &str) -> Note {
    let words: Vec<&str> = line.split(' ').collect();
    let [what, operation, key] = words[..] else {
        panic!("a note has three words: {line}")
    };
    let operation = operation.parse().expect("a number");
    let key = key.to_owned();
    match what {
        "put" => Note::Begin {
            operation,
            kind: Kind::Put,
            key,
        },
        "delete" => Note::Begin {
            operation,
            kind: Kind::Delete,
            key,
        },
        "acknowledged" => Note::Acknowledged { operation },
        "not-done" => Note::NotDone { operation },
        "saw" => Note::Saw { operation, key },
        "gone" => Note::Gone { operation },
        _ => panic!("no note starts with {what}"),
    }
}

#[test]
fn a_note_that_its_writers_death_cut_off_is_gone_when_the_next_writer_continues() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notes");
    let (first, last) = (
        Note::Acknowledged { operation: 1 },
        Note::Saw {
            operation: 3,
            key: "key".to_owned(),
        },
    );
    Notes::append(&path).write(&first);
    let torn = OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("the notes can be opened");
    (&torn)
        .write_all(b"put 2 writer-0/la")
        .expect("the notes can be written");

    Notes::append(&path).write(&last);

    assert_eq!(read(&path), [first, last]);
}
