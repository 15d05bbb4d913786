//! A router that answers what a test wants, its server, and a client that speaks bytes.

use perhop_model::*;
use perhop_reason::Code;
use perhop_serve::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The router.
#[derive(Default)]
pub struct Fake {
    /// Rejects transactions and reloads for these reasons.
    pub codes: Mutex<Vec<Code>>,
    /// Whether a reload fails before it gets to the router.
    pub bad_file: Mutex<bool>,
    /// Rows of counters.
    pub rows: Mutex<u64>,
    /// Whether transactions wait in `unanswered`.
    pub holds: Mutex<bool>,
    /// Who waits for an answer.
    pub unanswered: Mutex<Vec<Done<Arc<Reply>>>>,
    /// Who wants to know of events.
    pub watchers: Mutex<Vec<Box<dyn FnMut() -> bool + Send>>>,
}

pub fn error(code: Code) -> ErrorItem {
    ErrorItem::new(code, "class/ef", format!("because of {code}"))
}

impl Fake {
    pub fn reply(&self) -> Reply {
        let errors: Vec<ErrorItem> = self.codes.lock().unwrap().iter().map(|c| error(*c)).collect();
        Reply {
            epoch: 1,
            revision: 2,
            generation: 3,
            txn_id: TxnId([7; 16]),
            outcome: if errors.is_empty() { Outcome::Committed } else { Outcome::Rejected },
            replayed: false,
            received_ns: 4,
            committed_ns: 5,
            ops: Vec::new(),
            errors,
            retry_after_ms: None,
        }
    }
}

impl RouterApi for Fake {
    fn call(&self, call: Call) {
        match call {
            Call::Submit(_, _, done) => match *self.holds.lock().unwrap() {
                true => self.unanswered.lock().unwrap().push(done),
                false => done(Arc::new(self.reply())),
            },
            Call::Claim(_, _, done) => {
                done(self.codes.lock().unwrap().first().map_or(Ok(()), |c| Err(error(*c))));
            }
            Call::State(_, done) => done(Err(error(Code::StaleRevision))),
            Call::Counters(query, done) => {
                let row = |id| CountersRow {
                    kind: "class".into(),
                    name: format!("class-{id}"),
                    id,
                    owner: "file".into(),
                    counters: [("packets".to_owned(), id)].into(),
                };
                let rows = (0..*self.rows.lock().unwrap()).map(row).filter(|row| query.has(row)).collect();
                done(CountersPage { epoch: 1, revision: 2, at_ns: 3, rows });
            }
            Call::Events(after, _, _, done) => done(EventsPage { events: Vec::new(), upto: after }),
            Call::OnEvents(wake) => self.watchers.lock().unwrap().push(wake),
            Call::Show(_, done) => {
                done(Ok(ShowPage { epoch: 1, revision: 2, at_ns: 3, ..ShowPage::default() }))
            }
            Call::Explain(_, done) => done(Ok(Value::Null)),
            Call::Graph(done) => done(String::new()),
            Call::Reload(done) => {
                let said = "edge.toml:2:8: wrong.".to_owned();
                done(if *self.bad_file.lock().unwrap() {
                    Reloaded::refused(vec![error(Code::Malformed)], vec![said])
                } else {
                    Reloaded {
                        reply: Some(Arc::new(self.reply())),
                        messages: vec![said],
                        ..Reloaded::default()
                    }
                });
            }
        }
    }
}

/// A server of a fake; stopped and joined at the end.
pub struct Serving {
    pub router: Arc<Fake>,
    pub socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with these limits.
    pub fn with(set: &[(&str, &str)]) -> Self {
        let mut limits = Limits::default();
        set.iter().for_each(|(name, value)| limits.set(name, value).unwrap());
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("perhop-serve-{}-{number}", std::process::id()));
        let socket = dir.join("fake.sock");
        let claimed = claim_at(&socket).unwrap();
        let router = Arc::new(Fake::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let api: Arc<dyn RouterApi> = router.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let server = Server::bind(&claimed, api, limits, &Clients::default()).unwrap();
                ready.send(()).unwrap();
                let stop = async move {
                    let _ = stopped.await;
                };
                server.run(stop).await.unwrap();
            });
        });
        is_ready.recv().unwrap();
        Self { router, socket, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What `GET /v1/limits` says of one.
    pub fn limit(&self, name: &str) -> Value {
        let page = self.ask("GET", "/v1/limits", "").json();
        let rows = page["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{name}: {page}"))
    }

    /// Waits until a limit was hit.
    pub fn wait_for_hit(&self, name: &str) {
        let end = std::time::Instant::now() + PATIENCE;
        while self.limit(name)["hits"] == 0 {
            assert!(std::time::Instant::now() < end, "{name} is not hit");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request whole and reads its answer to the end.
    pub fn ask(&self, method: &str, uri: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let head = format!(
            "{method} {uri} HTTP/1.1\r\nhost: r\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        Answer::read(stream)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        let _ = std::fs::remove_dir_all(self.socket.parent().unwrap());
        assert!(std::thread::panicking() || ended.is_ok());
    }
}

/// An answer, read until the server closes.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn read(mut stream: UnixStream) -> Self {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            // A server that closes before it has read all of a request resets the connection behind its answer.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(e) => panic!("{e}"),
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}
