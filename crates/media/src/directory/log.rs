//! The file `log`: its creation, its opening, and the means for its mapping.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::rc::Rc;

use rustix::mm::MapFlags;
use stonecast_base::{Corruption, Span};

use crate::directory::awake::Awake;
use crate::directory::holes::{data, holes_are_reported};
use crate::directory::lock::SyncNote;
use crate::directory::made::Made;
use crate::directory::medium::{DIRECT, detect, turn_copy_on_write_off};
use crate::directory::prepare::{Manner, Preparer, Zeros};
use crate::earlier_writers::{EarlierWriters, Writers};
use crate::error::{failed, out_of_space};
use crate::file_sync::{FileSync, SyncTarget};
use crate::mapped_region::{MappedRegion, Writable};
use crate::means::choose_means;
use crate::persistent_mapping::{Mechanism, PersistentMapping};
use crate::write_back::Processor;
use crate::{AppendedLog, LogOptions, Means, MediaError, SEGMENT_SIZE_MIN};

/// An open log, and the preparer of its space.
#[derive(Debug)]
pub(super) struct Log {
    pub region: Rc<PersistentMapping>,
    pub preparer: Preparer,
    /// Answers [`crate::Backing::earlier_writers_are_gone`].
    pub earlier_writers: EarlierWriters,
}

/// Creates the log at `path` as one hole of `capacity` bytes, and notes it in `made`, even if the file already existed
/// without data.
pub(super) fn create(path: &Path, capacity: u64, made: &Made) -> Result<(), MediaError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let file = options.open(path).map_err(failed("creating", path))?;
    // A crash during a creation leaves a log without data. Any other file must not be destroyed.
    let length = file.metadata().map_err(failed("looking at", path))?.len();
    if !data(&file, Span::new(0, length))
        .map_err(failed("looking for data in", path))?
        .is_empty()
    {
        return Err(MediaError::Unsuitable {
            path: path.to_owned(),
            reason: "it has data, but no pool header lies beside it; move it away, or restore the file `header`",
        });
    }
    file.set_len(0).map_err(failed("emptying", path))?;
    made.note(path, &file).map_err(failed("looking at", path))?;
    turn_copy_on_write_off(&file);
    file.set_len(capacity).map_err(failed(
        "making a sparse file of the pool's capacity of",
        path,
    ))?;
    if !holes_are_reported(&file, capacity).map_err(failed("looking for holes in", path))? {
        return Err(MediaError::Unsuitable {
            path: path.to_owned(),
            reason: "the file system does not report which parts of a file have space (SEEK_HOLE), so a full disk would kill \
                     the server; use ext4, xfs, btrfs or tmpfs",
        });
    }
    file.sync_all().map_err(failed("syncing", path))
}

/// Whether `path` is a log that was ever written to.
pub(super) fn has_data(path: &Path) -> Result<bool, MediaError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("opening", path)(error)),
    };
    let status = file.metadata().map_err(failed("looking at", path))?;
    let whole = Span::new(0, status.len());
    let found = data(&file, whole).map_err(failed("looking for data in", path))?;
    Ok(status.is_file() && !found.is_empty())
}

/// Makes the log at `path` longer, from `from` bytes to `to`, durably.
pub(super) fn grow(path: &Path, from: u64, to: u64) -> Result<(), MediaError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let (file, _) = check_length(path, from, opened)?;
    file.set_len(to)
        .map_err(out_of_space("growing", path, to - from))?;
    file.sync_all()
        .map_err(out_of_space("syncing", path, to - from))
}

/// Opens the log at `path` for reading alone.
pub(super) fn inspect(path: &Path, capacity: u64) -> Result<Log, MediaError> {
    let open = || OpenOptions::new().read(true).open(path);
    check_length(path, capacity, open())?;
    let file = open().map_err(failed("opening", path))?;
    let memory = MappedRegion::map(file.into(), 0, capacity, Writable::No)
        .map_err(failed("mapping", path))?;
    let region = Rc::new(PersistentMapping::new(memory, Mechanism::Process));
    let zeros = Zeros::new(open().map_err(failed("opening", path))?, None);
    let preparer = Preparer::new(zeros, path.to_owned(), Manner::PROCESS);
    Ok(Log {
        region,
        preparer,
        earlier_writers: EarlierWriters::none(),
    })
}

/// Opens the log at `path` for serving. If the means is a sync of the file, all bytes that the log shows afterwards are
/// durable; with other means recovery persists the records that it accepts.
pub(super) fn serve(
    path: &Path,
    pool: &Path,
    options: LogOptions,
    note: SyncNote,
    target: impl FnOnce(File) -> Box<dyn SyncTarget>,
) -> Result<Log, MediaError> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    let (file, length) = check_length(path, options.capacity, open())?;
    if length == Length::Longer {
        file.set_len(options.capacity)
            .map_err(failed("shortening", path))?;
        file.sync_all().map_err(failed("syncing", path))?;
    }
    // Each descriptor has its own open file description: peers receive the mapped one, and the kernel must report an
    // error to the syncs of the preparer and of the group commit alike.
    let mapped = open().map_err(failed("opening", path))?;
    let synced = open().map_err(failed("opening", path))?;
    let prepared = open().map_err(failed("opening", path))?;

    let earlier_writers = EarlierWriters::of_other_runs_than(&mapped, Writers::Clients)
        .map_err(failed("locking", path))?;

    let medium = detect(&mapped).map_err(failed("looking at the file system of", path))?;
    let means = choose_means(medium, options.platform, options.durability).map_err(|reason| {
        MediaError::CannotPromise {
            path: pool.to_owned(),
            reason,
        }
    })?;
    let (mechanism, flags, manner) = match means {
        Means::FileSync => {
            let file = FileSync::new(path.to_owned(), target(synced));
            (
                Mechanism::FileSync(file),
                MapFlags::SHARED,
                Manner::FILE_SYNC,
            )
        }
        Means::WriteBack => {
            let processor = Processor::detect()
                .expect("the means was chosen because the processor has the instruction");
            (Mechanism::WriteBack(processor), DIRECT, Manner::DIRECT)
        }
        Means::Fence => (Mechanism::Fence, DIRECT, Manner::DIRECT),
        Means::Process => (Mechanism::Process, MapFlags::SHARED, Manner::PROCESS),
    };
    let memory = MappedRegion::map_with(mapped.into(), 0, options.capacity, Writable::Yes, flags);
    let memory = memory.map_err(failed("mapping", path))?;
    let region = Rc::new(PersistentMapping::new(memory, mechanism));
    Ok(Log {
        region,
        preparer: Preparer::new(Zeros::new(prepared, Some(note)), path.to_owned(), manner),
        earlier_writers,
    })
}

/// Opens the log at `path` once more, for nodes that append to it: they have an open file description of their own.
pub(super) fn serve_appends(path: &Path, capacity: u64) -> Result<AppendedLog, MediaError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(failed("opening", path))?;
    AppendedLog::map(file, 0, capacity).map_err(failed("mapping", path))
}

/// The sync target of a log, with the note for failures.
pub(super) struct SyncedLog {
    pub file: File,
    pub note: SyncNote,
    pub awake: Awake,
}

impl SyncTarget for SyncedLog {
    fn sync(&self) -> io::Result<()> {
        self.awake.note_sync();
        self.file.sync_data()
    }

    fn sync_failed(&self) {
        self.note.sync_failed();
    }
}

/// The length of a log, compared with the capacity in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Right,
    /// Longer by bytes that were never written: the pool was growing.
    Longer,
}

/// Compares the length of the log at `path` with `capacity`, and returns the file.
fn check_length(
    path: &Path,
    capacity: u64,
    opened: io::Result<File>,
) -> Result<(File, Length), MediaError> {
    let damage = |found: String, offset| {
        let file = path.display().to_string().into();
        Corruption {
            what: "log file".into(),
            file,
            offset,
            found,
            expected: format!("{capacity} bytes"),
        }
    };
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damage("no file".to_owned(), 0).into());
        }
        opened => opened.map_err(failed("opening", path))?,
    };
    let length = file.metadata().map_err(failed("looking at", path))?.len();
    if length == capacity {
        return Ok((file, Length::Right));
    }
    // A capacity is a multiple of the segment size.
    if length > capacity && length.is_multiple_of(SEGMENT_SIZE_MIN) {
        let rest = Span::new(capacity, length - capacity);
        if is_blank(&file, rest).map_err(failed("looking for data in", path))? {
            return Ok((file, Length::Longer));
        }
    }
    Err(damage(format!("{length} bytes"), length).into())
}

/// Whether nothing but zeros is in `span` of a file.
fn is_blank(file: &File, span: Span) -> io::Result<bool> {
    let mut bytes = vec![0; 1 << 16];
    for part in data(file, span)? {
        let end = part.offset + part.size;
        let mut position = part.offset;
        while position < end {
            let size = (end - position).min(bytes.len() as u64) as usize;
            file.read_exact_at(&mut bytes[..size], position)?;
            if bytes[..size].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            position += size as u64;
        }
    }
    Ok(true)
}
