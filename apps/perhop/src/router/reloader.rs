//! Reloads of a running router: one way for the signal and for the socket, one at a time.

use perhop_model::{Done, ErrorItem, Reloaded};
use perhop_reason::Code;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Reloads that may wait for the one that is being done.
pub const WAITING: usize = 16;
/// When to ask again after [`WAITING`] was reached.
const RETRY_MS: u64 = 500;

/// Does reloads one after another on a thread of its own, so that a later one never brings back an earlier file: each
/// reads the file after the one before it is in force. The thread ends with this value.
pub struct Reloader {
    line: SyncSender<Done<Reloaded>>,
}

impl Reloader {
    /// `once` reads the file and waits for the router's reply.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(once: impl FnMut() -> Reloaded + Send + 'static) -> io::Result<Self> {
        let (line, asked) = sync_channel(WAITING);
        std::thread::Builder::new().name("reload".to_owned()).spawn(move || work(&asked, once))?;
        Ok(Self { line })
    }

    /// Asks for a reload; `done` is called when it is in force or refused. Never blocks: with [`WAITING`] others before
    /// it, it is refused as `overload`.
    pub fn reload(&self, done: Done<Reloaded>) {
        match self.line.try_send(done) {
            Ok(()) => {}
            Err(TrySendError::Full(done)) => {
                let why = "too many reloads are waiting";
                let limit = Some(WAITING as u64);
                let item = ErrorItem { limit, ..ErrorItem::new(Code::Overload, "", why) };
                done(Reloaded { retry_after_ms: Some(RETRY_MS), ..refused(item) });
            }
            Err(TrySendError::Disconnected(done)) => done(stopping()),
        }
    }
}

fn work(asked: &Receiver<Done<Reloaded>>, mut once: impl FnMut() -> Reloaded) {
    for done in asked {
        done(once());
    }
}

/// Nothing is changed, for this reason.
pub fn refused(item: ErrorItem) -> Reloaded {
    let message = item.message.clone();
    Reloaded::refused(vec![item], vec![message])
}

/// The router will not answer any more.
pub fn stopping() -> Reloaded {
    refused(ErrorItem::new(Code::ShuttingDown, "", "the router is stopping"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    fn read(revision: u64) -> Reloaded {
        Reloaded { messages: vec![revision.to_string()], ..Reloaded::default() }
    }

    /// Two at once are done in turn, and each reads what the file holds when its turn comes.
    #[test]
    fn a_later_reload_reads_a_later_file_and_none_overlap() {
        let file = Arc::new(AtomicU64::new(1));
        let (reading, meanwhile) = channel();
        let (go, gate) = channel::<()>();
        let busy = Arc::new(Mutex::new(()));
        let (source, alone) = (Arc::clone(&file), Arc::clone(&busy));
        let reloader = Reloader::start(move || {
            let _alone = alone.try_lock().expect("another reload is being done");
            let content = source.load(Ordering::SeqCst);
            reading.send(content).expect("the test listens");
            // The file is read, the router has not answered yet: here another reload would overtake.
            gate.recv().expect("the test lets go");
            read(content)
        })
        .expect("a thread");
        let (told, answers) = channel();
        let ask = || {
            let told = told.clone();
            reloader.reload(Box::new(move |r: Reloaded| told.send(r.messages[0].clone()).expect("listens")));
        };
        ask();
        assert_eq!(meanwhile.recv(), Ok(1));
        ask();
        file.store(2, Ordering::SeqCst);
        assert!(meanwhile.try_recv().is_err(), "the second began before the first was in force");
        go.send(()).expect("waits");
        assert_eq!(meanwhile.recv(), Ok(2));
        go.send(()).expect("waits");
        assert_eq!((answers.recv(), answers.recv()), (Ok("1".to_owned()), Ok("2".to_owned())));
    }

    #[test]
    fn reloads_beyond_the_limit_are_overload() {
        let (go, gate) = channel::<()>();
        let (begun, has_begun) = channel();
        let reloader = Reloader::start(move || {
            begun.send(()).expect("the test listens");
            gate.recv().expect("the test lets go");
            read(0)
        })
        .expect("a thread");
        let (told, answers) = channel();
        let ask = || {
            let told = told.clone();
            reloader.reload(Box::new(move |r: Reloaded| told.send(r).expect("listens")));
        };
        ask();
        has_begun.recv().expect("begins");
        (0..WAITING).for_each(|_| ask());
        ask();
        let refused = answers.recv().expect("at once");
        assert_eq!(refused.errors[0].code, Code::Overload);
        assert_eq!((refused.errors[0].limit, refused.retry_after_ms), (Some(WAITING as u64), Some(RETRY_MS)));
        for _ in 0..=WAITING {
            go.send(()).expect("waits");
        }
        assert!(answers.iter().take(WAITING + 1).all(|r| r == read(0)));
    }
}
