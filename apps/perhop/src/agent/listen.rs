//! Where a running agent hears of announcements.
//!
//! It listens beside its router's socket, at `NAME.agent`. A question is one line of JSON, `{"link":"satellite",
//! "rate":512000,"in_ms":5000}`, and so is the answer: what the agent says of it.

use perhop_agent::Input;
use perhop_bandwidth::Notice;
use perhop_drive::Inlet;
use perhop_io::clock;
use perhop_model::Name;
use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest line either side reads.
pub(super) const MAX_LINE: u64 = 4_096;
/// Longest that the agent waits for somebody who has connected: there may be others.
const PATIENCE: Duration = Duration::from_millis(50);

/// What is announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// The link.
    pub link: Name,
    /// bit/s.
    pub rate: Rate,
    /// From now.
    #[serde(default)]
    pub in_ms: u64,
}

/// Where the agent of the router at a socket listens.
pub(super) fn beside(socket: &Path) -> PathBuf {
    socket.with_extension("agent")
}

/// Removes the socket of an agent that is no longer there, as one that was killed leaves it. One that listens keeps it.
pub fn clear_dead(socket: &Path) {
    let path = beside(socket);
    let inode = || {
        let there = std::fs::symlink_metadata(&path).ok()?;
        there.file_type().is_socket().then(|| there.ino())
    };
    let Some(found) = inode() else { return };
    let listens = std::os::unix::net::UnixStream::connect(&path);
    let refused = listens.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    // The next agent may have put its own there meanwhile.
    if refused && inode() == Some(found) {
        // Who may not remove it is not harmed by it.
        let _ = std::fs::remove_file(&path);
    }
}

/// The agent's end: answers one at a time. Its socket goes with it, unless another agent has put its own there.
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Inode of the socket.
    inode: u64,
}

impl Listener {
    /// Listens beside the socket of the router, in place of an agent before.
    ///
    /// # Errors
    /// The directory does not take it.
    pub fn open(socket: &Path) -> io::Result<Self> {
        let path = beside(socket);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(Self { listener, path, inode })
    }

    /// Puts what is announced into `inlet` until the agent is over; `answers` is what the agent says of announcements.
    pub async fn serve(self, inlet: Inlet<Input>, mut answers: mpsc::Receiver<Notice>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if self.serve_one(stream, &inlet, &mut answers).await.is_none() {
                        return;
                    }
                }
                // Somebody who went away before, or no descriptors.
                Err(_) => tokio::time::sleep(PATIENCE.to_std()).await,
            }
        }
    }

    /// Answers one question, if it is one: who asks nothing, or nothing sensible, is told so and left. `None`: the agent is
    /// over.
    async fn serve_one(
        &self,
        mut stream: UnixStream,
        inlet: &Inlet<Input>,
        answers: &mut mpsc::Receiver<Notice>,
    ) -> Option<()> {
        let mut line = String::new();
        let read = async { BufReader::new((&mut stream).take(MAX_LINE)).read_line(&mut line).await };
        let Ok(Ok(_)) = timeout(PATIENCE.to_std(), read).await else { return Some(()) };
        let mut answer = match serde_json::from_str(&line) {
            Ok(Announcement { link, rate, in_ms }) => {
                let at = clock::monotonic() + Duration::from_millis(in_ms);
                inlet.told(Input::Announced { link, rate, at }).await.ok()?;
                serde_json::json!(answers.try_recv().ok()?)
            }
            Err(error) => {
                let error =
                    serde_json::json!({ "code": "malformed", "path": "", "message": error.to_string() });
                serde_json::json!({ "not_announced": { "error": error } })
            }
        }
        .to_string();
        answer.push('\n');
        // Who does not listen any more is not told.
        let _ = timeout(PATIENCE.to_std(), stream.write_all(answer.as_bytes())).await;
        Some(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
