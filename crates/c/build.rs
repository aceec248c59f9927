//! The linker's part of the shared library: its name for programs, and that it stays loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let part = |name| std::env::var(name).expect("cargo sets the version");
    // Before 1.0, a minor version may change the interface.
    let version = match &*part("CARGO_PKG_VERSION_MAJOR") {
        "0" => format!("0.{}", part("CARGO_PKG_VERSION_MINOR")),
        major => major.to_owned(),
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libstonecast.so.{version}");
    // Threads and the hook of forks lead into the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
