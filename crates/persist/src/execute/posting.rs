//! Operations of one execution, passed from the steps to the device with as few doorbells as the plan allows.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_fabric::{DeviceError, Operation, Port, QueuePair, Status};

use crate::execute::error::ExecuteError;

type Completion = Pin<Box<dyn Future<Output = Result<Status, DeviceError>>>>;

/// Operations in transit from the steps to the device.
pub(crate) struct Posting {
    port: Rc<Port>,
    qp: QueuePair,
    batch: Vec<Operation>,
    /// Batches whose completion a step waits for, by the index of their last post.
    waited: Vec<(usize, Completion)>,
    /// Whether anything was handed to the device.
    begun: bool,
}

impl Posting {
    /// An empty batch.
    pub fn new(port: Rc<Port>, qp: QueuePair) -> Self {
        Self {
            port,
            qp,
            batch: Vec::new(),
            waited: Vec::new(),
            begun: false,
        }
    }

    /// Adds operations to the batch.
    pub fn gather(&mut self, operations: Vec<Operation>) {
        self.batch.extend(operations);
    }

    /// Whether anything was handed to the device.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Posts the batch. A later step waits for its last post, the one at `index`.
    pub async fn submit(&mut self, index: usize) -> Result<(), ExecuteError> {
        let (port, qp, operations) = (self.port.clone(), self.qp, std::mem::take(&mut self.batch));
        let mut completion: Completion =
            Box::pin(async move { port.submit(qp, &operations).await });
        // The first poll posts. A result that it returns at once is kept like a later one.
        let first = poll_fn(|context| Poll::Ready(completion.as_mut().poll(context))).await;
        let kept: Completion = match first {
            Poll::Ready(Err(refused)) => return Err(refused.into()),
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => completion,
        };
        self.begun = true;
        self.waited.push((index, kept));
        Ok(())
    }

    /// Posts the batch.
    pub fn post(&mut self) -> Result<(), ExecuteError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.port.post(self.qp, self.batch.drain(..))?;
        self.begun = true;
        Ok(())
    }

    /// Waits for the completion of the post at `index`.
    pub async fn wait(&mut self, index: Option<usize>) -> Result<(), ExecuteError> {
        self.post()?;
        // There is no completion to wait for without a post.
        let Some(position) = self.waited.iter().position(|(of, _)| Some(*of) == index) else {
            return Ok(());
        };
        match self.waited.remove(position).1.await? {
            Status::Success => Ok(()),
            status => Err(ExecuteError::Completion(status)),
        }
    }
}
