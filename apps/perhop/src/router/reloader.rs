//! Reading the file of a running router again: one way for the signal and for the socket, one at a time.

use super::file::{self, Setting};
use crate::error::AppError;
use perhop_config::{Diagnostic, Diagnostics, Severity};
use perhop_engine::Handle;
use perhop_model::{Credentials, Done, ErrorItem, Mode, Name, Outcome, Owner, Reloaded, Role};
use perhop_reason::Code;
use perhop_routerfile::{LogSettings, RouterFile, RouterSettings};
use std::io;
use std::path::Path;
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

/// What of a file holds from the router's start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    router: RouterSettings,
    log: LogSettings,
    tun_ports: Vec<Name>,
}

impl Fixed {
    /// That of the file of the start.
    pub fn of(file: &RouterFile) -> Self {
        Self { router: file.router.clone(), log: file.log.clone(), tun_ports: file.tun_ports.clone() }
    }

    /// A warning for each setting that the file has otherwise than at the start.
    fn warnings(&self, file: &RouterFile) -> Vec<Diagnostic> {
        let (router, log) = (&self.router, &self.log);
        let changed = [
            ("router.name", router.name != file.router.name),
            ("router.max_flows", router.max_flows != file.router.max_flows),
            ("router.max_abr_connections", router.max_abr_connections != file.router.max_abr_connections),
            ("router.abr_credit", router.abr_credit != file.router.abr_credit),
            ("router.workers", router.workers != file.router.workers),
            ("router.placement", router.adaptive != file.router.adaptive),
            ("router.io", router.io != file.router.io),
            ("router.wait", router.wait != file.router.wait),
            ("port.io", self.tun_ports != file.tun_ports),
            ("log.level", log.level != file.log.level),
            ("log.format", log.format != file.log.format),
            ("log.file", log.file != file.log.file),
        ];
        let why = "has changed, which a reload cannot bring into force";
        let warning = |(setting, _): (&'static str, bool)| {
            let diagnostic = file.about_setting(Severity::Warning, setting, why);
            diagnostic.hint("The router goes on as it was started; start it again to change this")
        };
        changed.into_iter().filter(|(_, has_changed)| *has_changed).map(warning).collect()
    }
}

/// Reads the file with its settings and makes the router do what it says, which is waited for. Errors of the text and
/// refusals of the router alike are said at their places in the file, and so is what only a start can change.
pub fn reload(handle: &Handle, path: &Path, settings: &[Setting], fixed: &Fixed) -> Reloaded {
    let (file, diagnostics) = match file::read(path, settings) {
        Ok((Some(file), diagnostics)) => (file, diagnostics),
        Ok((None, diagnostics)) => {
            let mut found = diagnostics.sorted();
            found.retain(|d| d.severity == Severity::Error);
            return Reloaded::refused(found.iter().map(file_error).collect(), texts(&diagnostics));
        }
        Err(error) => return refused(unreadable(path, &error)),
    };
    fixed.warnings(&file).into_iter().for_each(|warning| diagnostics.push(warning));
    let mut transaction = file::transaction(&file, Mode::Commit);
    transaction.txn_id = handle.new_txn_id();
    let who = Credentials { role: Role::Write, owner: Some(Owner::File) };
    let Ok(reply) = handle.submit_blocking(who, transaction) else { return stopping() };
    if reply.outcome == Outcome::Rejected {
        for more in file.diagnose(&reply.errors).sorted() {
            diagnostics.push(more);
        }
    }
    Reloaded { messages: texts(&diagnostics), reply: Some(reply), ..Reloaded::default() }
}

fn texts(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.sorted().iter().map(ToString::to_string).collect()
}

fn file_error(diagnostic: &Diagnostic) -> ErrorItem {
    let place = diagnostic.position;
    ErrorItem {
        value: Some(diagnostic.value.clone().into()).filter(|_| !diagnostic.value.is_empty()),
        allowed: diagnostic.allowed.clone(),
        ..ErrorItem::new(
            Code::Malformed,
            format!("{}:{}:{}", diagnostic.file, place.line, place.column),
            diagnostic.to_string(),
        )
    }
}

fn unreadable(path: &Path, error: &AppError) -> ErrorItem {
    let code = match error {
        AppError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::NotFound,
        AppError::Read { .. } => Code::BackendFailed,
        AppError::BadSetting { .. } => Code::BadReference,
        _ => Code::Malformed,
    };
    ErrorItem::new(code, path.display().to_string(), error.to_string())
}

fn refused(item: ErrorItem) -> Reloaded {
    let message = item.message.clone();
    Reloaded::refused(vec![item], vec![message])
}

fn stopping() -> Reloaded {
    refused(ErrorItem::new(Code::ShuttingDown, "", "the router is stopping"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn file(settings: &str) -> RouterFile {
        let text = format!("{settings}\n[[port]]\nname = \"wan\"\n");
        let (file, diagnostics) = RouterFile::read("edge.toml", &text);
        file.unwrap_or_else(|| panic!("{diagnostics}"))
    }

    #[test]
    fn what_a_reload_cannot_change_it_says_at_its_place() {
        let old =
            "[router]\nname = \"edge\"\nmax_flows = 2000\n[log]\nlevel = \"warn\"\nfile = \"/dev/null\"";
        let fixed = Fixed::of(&file(old));
        assert_eq!(fixed.warnings(&file(old)), []);
        let new = "[router]\nname = \"core\"\nmax_flows = 4000\nmax_abr_connections = 99\n[log]\nlevel = \"info\"\nformat = \"json\"";
        let said: Vec<String> = fixed.warnings(&file(new)).iter().map(ToString::to_string).collect();
        let places = ["2:8", "3:13", "4:23", "6:9", "7:10", "5:"].map(|at| format!("edge.toml:{at}"));
        let settings = [
            "name = ",
            "max_flows = ",
            "max_abr_connections = ",
            "level = ",
            "format = ",
            "log.file has changed",
        ];
        assert_eq!(said.len(), places.len(), "{said:?}");
        for ((text, place), setting) in said.iter().zip(places).zip(settings) {
            assert!(text.starts_with(&place) && text.contains(": warning: "), "{place}: {text}");
            assert!(text.contains(setting) && text.contains("start it again"), "{setting}: {text}");
        }
    }
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
