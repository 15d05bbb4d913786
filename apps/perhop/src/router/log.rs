//! The log of a running router: lines wait for a thread of their own, so that neither a full disk nor a closed or stuck
//! standard error delays forwarding. What cannot be written is counted and told when writing works again.

use crate::error::AppError;
use perhop_io::private_file::append;
use perhop_routerfile::{LogFormat, LogSettings};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait; more are lost and counted.
const WAITING: usize = 4096;
/// Longest wait for the last lines at the end.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Opens the file again: somebody may have moved it away.
    Reopen,
    /// Answers when everything before is written.
    Flush(SyncSender<()>),
}

/// The way into the log.
#[derive(Clone)]
pub struct Log {
    to: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Starts the log and makes it the program's own. The environment variable `PERHOP_LOG` overrides the level, also
    /// by module: `info,perhop_engine=debug`.
    ///
    /// # Errors
    /// The file cannot be opened now.
    pub fn start(settings: &LogSettings, format: LogFormat) -> Result<Self, AppError> {
        let path = settings.file.as_ref().map(PathBuf::from);
        let file = match &path {
            Some(path) => {
                Some(append(path).map_err(|source| AppError::Write { path: path.clone(), source })?)
            }
            None => None,
        };
        let (to, from) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let writing = Writing { path, file, lost: Arc::clone(&lost) };
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || writing.run(&from)).map_err(AppError::Runtime)?;
        let log = Self { to, lost };
        let filter =
            EnvFilter::try_from_env("PERHOP_LOG").unwrap_or_else(|_| EnvFilter::new(settings.level.name()));
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .log_internal_errors(false)
            .with_writer(log.clone());
        // A second subscriber is refused; then the first one goes on.
        let _ = match format {
            LogFormat::Json => tracing::subscriber::set_global_default(subscriber.json().finish()),
            LogFormat::Text => tracing::subscriber::set_global_default(subscriber.finish()),
        };
        Ok(log)
    }

    /// Opens the file again.
    pub fn reopen(&self) {
        let _ = self.to.try_send(Message::Reopen);
    }

    /// Waits a moment until what was logged is written.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.to.try_send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(LAST_LINES);
        }
    }
}

/// One event on its way: a line.
pub struct Line<'l> {
    log: &'l Log,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let line = Message::Line(std::mem::take(&mut self.text));
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.log.to.try_send(line) {
            self.log.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'l> MakeWriter<'l> for Log {
    type Writer = Line<'l>;
    fn make_writer(&'l self) -> Line<'l> {
        Line { log: self, text: Vec::new() }
    }
}

/// The thread's end.
struct Writing {
    path: Option<PathBuf>,
    file: Option<File>,
    lost: Arc<AtomicU64>,
}

impl Writing {
    fn run(mut self, from: &Receiver<Message>) {
        for message in from {
            match message {
                Message::Line(line) => self.line(&line),
                Message::Reopen => {
                    if let Some(path) = &self.path
                        && let Ok(file) = append(path)
                    {
                        self.file = Some(file);
                    }
                }
                Message::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let missed = self.lost.load(Ordering::Relaxed);
        if missed > 0 {
            let told = self.write(format!("{missed} lines of the log were lost\n").as_bytes());
            if told.is_ok() {
                self.lost.fetch_sub(missed, Ordering::Relaxed);
            }
        }
        if self.write(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => io::stderr().write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    fn writing(path: &str) -> (Writing, Arc<AtomicU64>) {
        let file = OpenOptions::new().write(true).open(path).expect("a device");
        let lost = Arc::new(AtomicU64::new(0));
        (Writing { path: None, file: Some(file), lost: Arc::clone(&lost) }, lost)
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let (mut full, lost) = writing("/dev/full");
        for _ in 0..3 {
            full.line(b"text\n");
        }
        assert_eq!(lost.load(Ordering::Relaxed), 3);
        full.file = Some(OpenOptions::new().write(true).open("/dev/null").expect("a device"));
        full.line(b"text\n");
        assert_eq!(lost.load(Ordering::Relaxed), 0, "the loss was told");
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_and_nobody_waits() {
        let (to, from) = sync_channel(2);
        let log = Log { to, lost: Arc::new(AtomicU64::new(0)) };
        for _ in 0..5 {
            log.make_writer().write_all(b"line\n").expect("it never fails");
        }
        assert_eq!((from.try_iter().count(), log.lost.load(Ordering::Relaxed)), (2, 3));
    }
}
