//! Tasks that run side by side, and the wait until the last one has ended.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stonecast_fabric::Runtime;

/// Tasks that run side by side. `T` is the result of a task.
pub struct Crowd<T> {
    running: Cell<usize>,
    ended: RefCell<Vec<T>>,
    waker: Cell<Option<Waker>>,
}

impl<T: 'static> Crowd<T> {
    /// A crowd without tasks.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            running: Cell::new(0),
            ended: RefCell::default(),
            waker: Cell::default(),
        })
    }

    /// Adds `task`, which `runtime` runs.
    pub fn spawn(self: &Rc<Self>, runtime: &dyn Runtime, task: impl Future<Output = T> + 'static) {
        self.running.set(self.running.get() + 1);
        let crowd = self.clone();
        runtime.spawn(Box::pin(async move {
            let end = task.await;
            crowd.ended.borrow_mut().push(end);
            crowd.running.set(crowd.running.get() - 1);
            if crowd.running.get() == 0 {
                crowd.waker.take().inspect(Waker::wake_by_ref);
            }
        }));
    }

    /// Waits for all tasks, and returns their results in the order in which they ended.
    pub async fn ends(&self) -> Vec<T> {
        poll_fn(|context| {
            if self.running.get() == 0 {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        self.ended.take()
    }
}
