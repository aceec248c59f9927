//! The C library from the outside: its header, and programs in C that link it.

mod compiler;
mod header;
#[path = "../../../gateway/tests/it/support/not_run.rs"]
mod not_run;
#[path = "../../../../xtask/src/c_library/prefix.rs"]
mod prefix;
mod programs;
mod sanitizer;
