//! Bounded channels to a machine and from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// The machine takes no more inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the machine takes no more inputs")]
pub struct Over;

/// Where a source of inputs puts them. Every source has a clone.
#[derive(Debug)]
pub struct Inlet<I> {
    sender: mpsc::Sender<Message<I>>,
    waited: Arc<AtomicU64>,
}

/// Where a driver takes inputs from.
#[derive(Debug)]
pub struct Inputs<I>(mpsc::Receiver<Message<I>>);

/// An input on its way.
#[derive(Debug)]
pub(crate) struct Message<I> {
    pub(crate) input: I,
    /// Told when the machine has it.
    pub(crate) taken: Option<oneshot::Sender<()>>,
}

/// A channel of `most` inputs, 1 at least, to one machine. Inputs are taken in the order in which they were put.
pub fn channel<I>(most: usize) -> (Inlet<I>, Inputs<I>) {
    let (sender, receiver) = mpsc::channel(most.max(1));
    (Inlet { sender, waited: Arc::default() }, Inputs(receiver))
}

impl<I> Clone for Inlet<I> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), waited: Arc::clone(&self.waited) }
    }
}

impl<I> Inlet<I> {
    /// Puts an input, as soon as there is room.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub async fn send(&self, input: I) -> Result<(), Over> {
        self.put(Message { input, taken: None }).await
    }

    /// Puts an input and waits until the machine has taken it and all that it wants in return is with the handler.
    ///
    /// # Errors
    /// Nobody takes it any more.
    pub async fn told(&self, input: I) -> Result<(), Over> {
        let (taken, done) = oneshot::channel();
        self.put(Message { input, taken: Some(taken) }).await?;
        done.await.map_err(|_| Over)
    }

    /// How often a source has found no room and waited.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    async fn put(&self, message: Message<I>) -> Result<(), Over> {
        if self.sender.capacity() == 0 {
            self.waited.fetch_add(1, Ordering::Relaxed);
        }
        self.sender.send(message).await.map_err(|_| Over)
    }
}

impl<I> Inputs<I> {
    pub(crate) async fn next(&mut self) -> Option<Message<I>> {
        self.0.recv().await
    }
}

/// Where a handler puts what a peer is to be asked; it never waits.
#[derive(Debug)]
pub struct Outlet<R> {
    sender: mpsc::Sender<R>,
    overflowed: Arc<AtomicBool>,
}

/// Where the keeper of a connection takes requests from.
#[derive(Debug)]
pub struct Requests<R> {
    receiver: mpsc::Receiver<R>,
    overflowed: Arc<AtomicBool>,
}

/// A way for `most` requests, 1 at least, to one peer.
pub fn outlet<R>(most: usize) -> (Outlet<R>, Requests<R>) {
    let (sender, receiver) = mpsc::channel(most.max(1));
    let overflowed = Arc::<AtomicBool>::default();
    (Outlet { sender, overflowed: Arc::clone(&overflowed) }, Requests { receiver, overflowed })
}

impl<R> Outlet<R> {
    /// Puts a request. One for which there is no room is lost, and with it the peer's connection.
    pub fn offer(&self, request: R) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(request) {
            self.overflowed.store(true, Ordering::Relaxed);
        }
    }
}

impl<R> Requests<R> {
    /// The next request: `None` when there is nobody left who could have one, an error when one was lost.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, Overflow> {
        // That one was lost is found out with the next, which is there: the channel was full.
        let request = self.receiver.recv().await;
        if self.overflowed.swap(false, Ordering::Relaxed) { Err(Overflow) } else { Ok(request) }
    }

    /// Forgets requests that were made to a connection before.
    pub(crate) fn clear(&mut self) {
        while self.receiver.try_recv().is_ok() {}
        self.overflowed.store(false, Ordering::Relaxed);
    }
}

/// A request was lost.
#[derive(Debug)]
pub(crate) struct Overflow;
