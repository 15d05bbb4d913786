//! A router that runs: its socket is served and signals are obeyed.

use super::log::Log;
use crate::error::AppError;
use perhop_model::{Call, Reloaded};
use perhop_serve::{RouterApi, Server};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

/// Where the log says that its lines come from: one place for all of a running router's, which readers filter by.
const TARGET: &str = "perhop::router::run";

/// What a program that runs on listens to besides its socket.
pub struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on none of them ends the process.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> Result<Self, AppError> {
        let on = |kind| signal(kind).map_err(AppError::Runtime);
        Ok(Self {
            hangup: on(SignalKind::hangup())?,
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// The next of them. May be dropped and called again: none is lost.
    pub async fn next(&mut self) -> Said {
        tokio::select! {
            _ = self.hangup.recv() => Said::ReadAgain,
            _ = self.interrupt.recv() => Said::Stop,
            _ = self.terminate.recv() => Said::Stop,
        }
    }
}

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Read the file again.
    ReadAgain,
    /// End.
    Stop,
}

fn log_reload(reloaded: &Reloaded) {
    match &reloaded.reply {
        Some(reply) if reloaded.is_committed() => {
            for message in &reloaded.messages {
                warn!(target: TARGET, "{message}");
            }
            info!(target: TARGET, revision = reply.revision, "the file is read again");
        }
        _ => {
            for message in &reloaded.messages {
                error!(target: TARGET, "the file is refused: {message}");
            }
        }
    }
}

/// Serves the socket and obeys signals until one says stop, or until a thread of the router has `died`. Should the
/// socket fail, forwarding goes on without it.
pub async fn serve(
    server: Server,
    api: &Arc<dyn RouterApi>,
    mut signals: Signals,
    mut died: oneshot::Receiver<()>,
    log: &Log,
) {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(server.run(async move {
        let _ = stopped.await;
    }));
    let mut is_serving = true;
    loop {
        tokio::select! {
            said = signals.next() => match said {
                Said::ReadAgain => {
                    log.reopen();
                    api.call(Call::Reload(Box::new(|reloaded| log_reload(&reloaded))));
                }
                Said::Stop => break,
            },
            _ = &mut died => break,
            ended = &mut serving, if is_serving => {
                is_serving = false;
                let why = match ended {
                    Ok(Ok(())) => "it was closed".to_owned(),
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                error!(target: TARGET, "the socket is no longer served: {why}; forwarding goes on");
            }
        }
    }
    let _ = stop.send(());
    if is_serving {
        let _ = serving.await;
    }
}
