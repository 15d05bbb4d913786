//! Finds the agent's router, again and again, and says what becomes of it.

use super::link::{Link, Reads};
use super::listen::{Listener, clear_dead};
use crate::error::AppError;
use crate::output::progress;
use crate::sockets::find_socket;
use perhop_agent::Input;
use perhop_bandwidth::{AgentFile, Notice};
use perhop_drive::{Broken, Connector, Inlet};
use std::path::PathBuf;
use tokio::sync::{mpsc, oneshot};

/// Looks for the router.
pub struct Finder {
    router: Option<String>,
    reads: Reads,
    /// Where announcements go and where answers to them come from; none without links, and once they are taken.
    announcements: Option<(Inlet<Input>, mpsc::Receiver<Notice>)>,
    /// Who wants to know where its socket is; none once that is told.
    found: Option<oneshot::Sender<PathBuf>>,
    /// Its absence has been told.
    complained: bool,
    /// Somebody else says what becomes of it.
    is_quiet: bool,
}

impl Finder {
    /// Finds the router called `router`, or the only one there is. Read is what the agent of `file` needs; announcements are
    /// taken beside its socket once it is known where that is, and put into `inlet`; `found` hears of it, too.
    pub fn new(
        router: Option<String>,
        file: &AgentFile,
        inlet: Inlet<Input>,
        answers: mpsc::Receiver<Notice>,
        found: Option<oneshot::Sender<PathBuf>>,
    ) -> Self {
        let reads = Reads::of(file);
        let announcements = reads.policies.then_some((inlet, answers));
        Self { router, reads, announcements, found, complained: false, is_quiet: false }
    }

    /// Finds the same router for the policy of its domain. What becomes of the router the agent says itself.
    pub fn of_policy(router: Option<String>) -> Self {
        let reads = Reads::of_policy();
        Self { router, reads, announcements: None, found: None, complained: true, is_quiet: true }
    }
}

impl Connector for Finder {
    type Connection = Link;

    async fn connect(&mut self) -> Result<Link, AppError> {
        let path = find_socket(self.router.as_deref())?;
        let link = Link::open(&path, self.reads).await?;
        self.complained = self.is_quiet;
        if let Some(found) = self.found.take() {
            let _ = found.send(path.clone());
        }
        if !self.reads.policies && !self.reads.policy {
            clear_dead(&path);
        }
        if let Some((inlet, answers)) = self.announcements.take() {
            match Listener::open(&path) {
                Ok(listener) => drop(tokio::spawn(listener.serve(inlet, answers))),
                Err(error) => {
                    progress(format_args!("no announcements are taken beside the router's socket: {error}"));
                    self.announcements = Some((inlet, answers));
                }
            }
        }
        Ok(link)
    }

    fn appeared(&self) -> Input {
        Input::Appeared
    }

    fn gone(&self) -> Input {
        Input::Gone
    }

    fn failed(&mut self, error: AppError) -> Result<(), AppError> {
        if matches!(error, AppError::BadName { .. } | AppError::SeveralRouters(_)) {
            return Err(error);
        }
        if !std::mem::replace(&mut self.complained, true) {
            progress(format_args!("waiting for the router: {error}"));
        }
        Ok(())
    }

    fn lost(&mut self, why: Broken<AppError>) {
        if !self.is_quiet {
            progress(format_args!("the router is gone: {why}"));
        }
    }
}
