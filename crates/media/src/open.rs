//! Chooses the backing of a pool by its place.

use std::path::Path;
use std::rc::Rc;

use crate::dax_facts::is_device;
use crate::{Backing, DaxBacking, DirectoryBacking, MediaError};

/// Takes a place for a new pool: a device of persistent memory, or else a directory, which is made if it is missing.
pub fn create_backing(place: &Path) -> Result<Rc<dyn Backing>, MediaError> {
    Ok(if is_device(place) {
        Rc::new(DaxBacking::create(place)?)
    } else {
        Rc::new(DirectoryBacking::create(place)?)
    })
}

/// Opens a place to serve the pool in it.
pub fn open_backing(place: &Path) -> Result<Rc<dyn Backing>, MediaError> {
    Ok(if is_device(place) {
        Rc::new(DaxBacking::open(place)?)
    } else {
        Rc::new(DirectoryBacking::open(place)?)
    })
}

/// Opens a place to read the pool in it. Changes nothing, and works while a server uses the pool; see
/// [`Backing::in_use_by`].
pub fn inspect_backing(place: &Path) -> Result<Rc<dyn Backing>, MediaError> {
    Ok(if is_device(place) {
        Rc::new(DaxBacking::inspect(place)?)
    } else {
        Rc::new(DirectoryBacking::inspect(place)?)
    })
}
