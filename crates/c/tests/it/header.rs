//! The header is what cbindgen makes of the sources.

use std::path::{Path, PathBuf};

/// The committed header.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/stonecast.h")
}

/// Set `STONECAST_WRITE_HEADER` to have the test write the header.
#[test]
fn the_committed_header_is_the_one_that_the_sources_make() {
    let bindings = cbindgen::generate(env!("CARGO_MANIFEST_DIR")).expect("the sources are parsed");
    let mut made = Vec::new();
    bindings.write(&mut made);
    if std::env::var_os("STONECAST_WRITE_HEADER").is_some() {
        std::fs::write(path(), &made).unwrap();
    }
    let committed = std::fs::read(path()).unwrap();
    assert!(
        committed == made,
        "crates/c/include/stonecast.h is not up to date; write it by\n    \
         STONECAST_WRITE_HEADER=1 cargo test -p stonecast-c --test it header::"
    );
}
