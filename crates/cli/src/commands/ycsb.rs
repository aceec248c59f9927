//! `bench ycsb`
use crate::arguments::Ycsb;
use crate::failure::Failure;
pub fn run(_: &Ycsb) -> Result<(), Failure> {
    Err(Failure::operation(""))
}
