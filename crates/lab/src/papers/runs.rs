//! The runs that figures share.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The completed runs by their names. A run that several figures show is done once.
#[derive(Default)]
pub struct Runs {
    done: HashMap<String, Box<dyn Any>>,
}

impl Runs {
    /// The result of the run `name`, which names everything that decides the result. Calls `run` if the run is not
    /// done.
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

    /// The results of `run` for each of `cases`, whose names name everything that decides a result. Cases that are not
    /// done run side by side, on as many threads as the machine has cores: they share nothing, so the results are the
    /// same.
    pub fn all<C: Debug + Sync, T: Clone + Send + 'static, E: Send>(
        &mut self,
        cases: &[C],
        run: impl Fn(&C) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let mut missing: Vec<(String, &C)> = Vec::new();
        for case in cases {
            let name = format!("{case:?}");
            let is_known = |(known, _): &(String, &C)| *known == name;
            if !self.done.contains_key(&name) && !missing.iter().any(is_known) {
                missing.push((name, case));
            }
        }
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((name, case)) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = run(case);
                let mut results = results.lock().expect("no holder panics");
                results.push((name.clone(), result));
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        for (name, result) in results.into_inner().expect("no holder panics") {
            self.done.insert(name, Box::new(result?));
        }
        let done = |case: &C| {
            let done = self.done[&format!("{case:?}")].downcast_ref::<T>();
            done.expect("a name has one type of result").clone()
        };
        Ok(cases.iter().map(done).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the names: without them a case that occurs twice would run twice.
    #[test]
    fn cases_run_side_by_side_once_each_and_their_results_are_in_order() {
        let mut runs = Runs::default();
        let count = AtomicUsize::new(0);
        let run = |case: &u32| {
            count.fetch_add(1, Ordering::Relaxed);
            if *case == 9 { Err(9) } else { Ok(case * 2) }
        };
        assert_eq!(runs.all(&[3, 1, 3, 2], run), Ok(vec![6, 2, 6, 4]));
        assert_eq!(runs.all(&[2, 5], run), Ok(vec![4, 10]));
        assert_eq!(count.load(Ordering::Relaxed), 4);
        assert_eq!(runs.all(&[9], run), Err(9));
    }

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
