//! A peer to which there is a connection whenever there can be.

use crate::backoff::Backoff;
use crate::channel::{Inlet, Over, Requests};
use crate::timer::Timer;
use perhop_units::Duration;
use std::convert::Infallible;
use thiserror::Error;

/// Makes connections to one peer: over which kind of socket, and framed how, is its own.
pub trait Connector {
    /// What it makes.
    type Connection: Connection;

    /// Makes a connection, and sees that somebody answers there.
    fn connect(
        &mut self,
    ) -> impl Future<Output = Result<Self::Connection, <Self::Connection as Connection>::Error>>;

    /// What the machine is told of a connection that is made.
    fn appeared(&self) -> <Self::Connection as Connection>::Input;

    /// What it is told of one that is lost.
    fn gone(&self) -> <Self::Connection as Connection>::Input;

    /// No connection could be made.
    ///
    /// # Errors
    /// None ever will: there are no more attempts.
    fn failed(
        &mut self,
        error: <Self::Connection as Connection>::Error,
    ) -> Result<(), <Self::Connection as Connection>::Error>;

    /// A connection is lost.
    fn lost(&mut self, why: Broken<<Self::Connection as Connection>::Error>);
}

/// A connection to a peer. Any error breaks it.
pub trait Connection {
    /// What is asked of the peer.
    type Request;
    /// What the machine is told of the peer's answers.
    type Input;
    /// Why there is no connection.
    type Error;

    /// Sends a request. A protocol that answers in order and says nothing unasked waits for the answer here.
    fn send(
        &mut self,
        request: Self::Request,
    ) -> impl Future<Output = Result<Option<Self::Input>, Self::Error>>;

    /// What the peer says next without having been asked here. May be dropped and called again at any time: nothing is lost.
    fn listen(&mut self) -> impl Future<Output = Result<Self::Input, Self::Error>>;

    /// Sends something to a peer that has been silent, so that both ends know that the other is there.
    fn keep_alive(&mut self) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Why a connection is given up.
#[derive(Debug, Error)]
pub enum Broken<E> {
    /// It is broken, or the peer speaks another language.
    #[error("{0}")]
    Peer(E),
    /// The peer does not keep up with what it is asked.
    #[error("it does not keep up: more requests wait for it than may")]
    TooSlow,
}

/// How a connection is kept.
#[derive(Clone, Debug)]
pub struct Keeping<T, R> {
    /// What all of it is timed by.
    pub timer: T,
    /// Pauses between attempts. They are short again after a connection that lasted longer than the longest of them.
    pub backoff: Backoff<R>,
    /// After this time without a word the connection is kept alive by one.
    pub idle: Duration,
}

/// Keeps a connection to a peer: makes it, tells the machine that the peer has appeared, carries requests there and answers
/// back, tells the machine when it is lost, and begins again after a pause. Requests that were made before the machine knew of
/// the loss are forgotten. Ends when the machine takes no more inputs.
///
/// # Errors
/// There will never be a connection.
pub async fn keep<C: Connector, T: Timer, R: FnMut() -> u64>(
    mut connector: C,
    mut requests: Requests<<C::Connection as Connection>::Request>,
    inlet: Inlet<<C::Connection as Connection>::Input>,
    mut keeping: Keeping<T, R>,
) -> Result<(), <C::Connection as Connection>::Error> {
    loop {
        match connector.connect().await {
            Err(error) => connector.failed(error)?,
            Ok(mut connection) => {
                let began = keeping.timer.now();
                if inlet.send(connector.appeared()).await.is_err() {
                    return Ok(());
                }
                let Err(why) = converse(&mut connection, &mut requests, &inlet, &keeping).await;
                let Some(why) = why else { return Ok(()) };
                drop(connection);
                connector.lost(why);
                if inlet.told(connector.gone()).await.is_err() {
                    return Ok(());
                }
                requests.clear();
                if keeping.timer.now().since(began) > keeping.backoff.most() {
                    keeping.backoff.reset();
                }
            }
        }
        let again = keeping.timer.now() + keeping.backoff.pause();
        keeping.timer.until(again).await;
    }
}

/// Carries requests and answers until the connection breaks, which is the error; none if there is no machine any more.
async fn converse<C: Connection, T: Timer, R>(
    connection: &mut C,
    requests: &mut Requests<C::Request>,
    inlet: &Inlet<C::Input>,
    keeping: &Keeping<T, R>,
) -> Result<Infallible, Option<Broken<C::Error>>> {
    let timer = &keeping.timer;
    loop {
        let silent = timer.now() + keeping.idle;
        let said = tokio::select! {
            request = requests.next() => match request {
                Ok(Some(request)) => connection.send(request).await,
                Ok(None) => return Err(None),
                Err(_) => return Err(Some(Broken::TooSlow)),
            },
            said = connection.listen() => said.map(Some),
            () = timer.until(silent) => connection.keep_alive().await.map(|()| None),
        };
        if let Some(input) = said.map_err(Broken::Peer).map_err(Some)? {
            inlet.send(input).await.map_err(|Over| None)?;
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
