//! The input of an import: a file or stdin. A read ends at a signal, and at a pause of the input while answers are due.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::signals::Stop;

/// The size of one read, in bytes.
const BUFFER_SIZE: usize = 1 << 20;
/// The interval at which a wait for input checks for a signal.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The input of an import.
pub struct Source {
    /// The bytes of the input. A read fails with [`io::ErrorKind::WouldBlock`] if no byte has arrived and the read must
    /// not wait.
    pub lines: BufReader<Input>,
    /// Whether a read waits.
    pub waits: Rc<Cell<bool>>,
    /// The length of the input, if it is known.
    pub size: Option<u64>,
}

/// A file that may be a pipe. A read ends with an error once a signal has asked for the end.
pub struct Input {
    file: File,
    stop: Rc<Stop>,
    waits: Rc<Cell<bool>>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.asked() {
                return Err(io::Error::other("interrupted"));
            }
            // A regular file is always ready.
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            let patience = if self.waits.get() { &LOOK } else { &AT_ONCE };
            match poll(&mut ready, Some(patience)) {
                Ok(0) if !self.waits.get() => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.file.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens the input of an import.
pub fn open(path: Option<&Path>, stop: Rc<Stop>) -> Result<Source, Failure> {
    let named = path.filter(|path| *path != Path::new("-"));
    let name = named.map_or("stdin".to_owned(), |path| path.display().to_string());
    let refuse = |error: io::Error| Failure::operation(format!("cannot read {name}: {error}"));
    let file = match named {
        Some(path) => File::open(path),
        None => io::stdin().as_fd().try_clone_to_owned().map(File::from),
    };
    let file = file.map_err(refuse)?;
    let metadata = file.metadata().map_err(refuse)?;
    let size = (named.is_some() && metadata.is_file()).then_some(metadata.len());
    let waits = Rc::new(Cell::new(true));
    let input = Input {
        file,
        stop,
        waits: waits.clone(),
    };
    Ok(Source {
        lines: BufReader::with_capacity(BUFFER_SIZE, input),
        waits,
        size,
    })
}
