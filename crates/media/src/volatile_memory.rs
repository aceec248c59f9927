//! Memory that a pool hands out beside its medium. This memory ends with the last process that maps it.

use std::path::Path;
use std::rc::Rc;

use stonecast_base::Span;

use crate::error::failed;
use crate::mapped_region::{MappedRegion, Sealing};
use crate::{MediaError, Region};

/// `size` zero bytes, called `name` in lists of mappings, in large pages if the kernel has any. `sealing` restricts
/// writable mappings by other processes.
pub(crate) fn volatile_memory(
    name: &str,
    size: u64,
    sealing: Sealing,
) -> Result<Rc<dyn Region>, MediaError> {
    let memory = MappedRegion::create_memory(name, size, sealing);
    let memory = memory.map_err(failed("creating memory for", Path::new(name)))?;
    memory.use_large_pages(Span::new(0, size));
    Ok(Rc::new(memory))
}
