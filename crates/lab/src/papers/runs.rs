//! The runs that figures share.

use std::any::Any;
use std::collections::HashMap;

/// The completed runs by their names. A run that several figures show is done once.
#[derive(Default)]
pub struct Runs {
    done: HashMap<String, Box<dyn Any>>,
}

impl Runs {
    /// The result of the run `name`, which names everything that decides the result. Calls `run` if the run is not done.
    pub fn once<T: Clone + 'static, E>(
        &mut self,
        name: String,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(done) = self.done.get(&name) {
            let result = done.downcast_ref::<T>();
            return Ok(result.expect("a name has one type of result").clone());
        }
        let result = run()?;
        self.done.insert(name, Box::new(result.clone()));
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_done_once_and_a_run_that_failed_is_tried_again() {
        let mut runs = Runs::default();
        let mut run = |result: Result<u32, ()>| runs.once("one".to_owned(), || result);
        assert_eq!(run(Err(())), Err(()));
        assert_eq!(run(Ok(1)), Ok(1));
        assert_eq!(run(Ok(2)), Ok(1));
        assert_eq!(runs.once("other".to_owned(), || Ok::<_, ()>(3)), Ok(3));
    }
}
