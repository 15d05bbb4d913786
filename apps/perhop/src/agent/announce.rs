//! `perhop agent announce`: tells a running agent that a link will have another rate.
//!
//! The agent listens beside its router's socket, at `NAME.agent`. A question is one line of JSON, `{"link":"satellite",
//! "rate":512000,"in_ms":5000}`, and so is the answer: what the agent says of it.

use crate::error::{AppError, Verdict};
use crate::output::{Output, progress};
use crate::remote::Remote;
use clap::Args;
use perhop_io::clock;
use perhop_model::Name;
use perhop_units::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Longest line either side reads.
const MAX_LINE: u64 = 4_096;
/// Longest that the agent waits for a line: it has other things to do.
const PATIENCE: Duration = Duration::from_millis(50);
/// Longest that a person waits for the agent.
const ANSWER: Duration = Duration::from_secs(5);

/// Arguments of `perhop agent announce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: perhop agent announce --link satellite --rate \"512 kbit/s\" --in \"5 s\"\n\n\
                        The rates of flows are lower before the link is, by the notice that the agent's file gives it."
)]
pub struct AnnounceArgs {
    /// The link, as the agent's file calls it
    #[arg(long, value_name = "NAME")]
    link: Name,
    /// Its rate from then on, for example "512 kbit/s"
    #[arg(long, allow_hyphen_values = true)]
    rate: Rate,
    /// When, from now
    #[arg(long, value_name = "TIME", default_value = "0 s", allow_hyphen_values = true)]
    r#in: Duration,
    /// The router that the agent looks after
    #[arg(long, value_name = "NAME")]
    router: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

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

/// Tells the agent.
///
/// # Errors
/// No agent listens there, or its answer is none.
pub fn run(args: &AnnounceArgs) -> Result<Verdict, AppError> {
    let path = beside(Remote::find(args.router.as_deref())?.path());
    let unreachable = |source| AppError::NoAgent { path: path.clone(), source };
    let mut stream = UnixStream::connect(&path).map_err(unreachable)?;
    stream.set_read_timeout(Some(ANSWER.to_std())).map_err(unreachable)?;
    let question =
        Announcement { link: args.link.clone(), rate: args.rate, in_ms: args.r#in.as_nanos() / 1_000_000 };
    writeln!(stream, "{}", serde_json::json!(question)).map_err(unreachable)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line).map_err(unreachable)?;
    let answer: Value = serde_json::from_str(&line).map_err(AppError::BadAnswer)?;
    let refused = answer["not_announced"]["error"]["message"].as_str();
    if args.json {
        let mut out = Output::new();
        out.json(&answer)?;
        out.flush()?;
    } else if refused.is_none() {
        progress(format_args!("link {}: {} in {}", args.link, args.rate, args.r#in));
    }
    refused.map_or(Ok(Verdict::Done), |why| {
        Err(AppError::NotAnnounced { link: args.link.to_string(), why: why.to_owned() })
    })
}

/// Where the agent of the router at a socket listens.
fn beside(socket: &Path) -> PathBuf {
    socket.with_extension("agent")
}

/// The agent's end: answers one at a time, when it is asked to. Its socket goes with it, unless another agent has put its
/// own there.
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Inode of the socket.
    inode: u64,
}

/// A question that waits for its answer.
pub struct Question {
    stream: UnixStream,
    /// What is announced.
    pub asked: Announcement,
    /// When it will be.
    pub at: Instant,
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
        listener.set_nonblocking(true)?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(Self { listener, path, inode })
    }

    /// A question, if somebody has asked one. Who asks nothing, or nothing sensible, is told so and left.
    pub fn question(&self) -> Option<Question> {
        let (mut stream, _) = self.listener.accept().ok()?;
        let prepare = stream.set_nonblocking(false).and(stream.set_read_timeout(Some(PATIENCE.to_std())));
        prepare.and(stream.set_write_timeout(Some(PATIENCE.to_std()))).ok()?;
        let mut line = String::new();
        let read = BufReader::new((&stream).take(MAX_LINE)).read_line(&mut line);
        match read.ok().map(|_| serde_json::from_str::<Announcement>(&line)) {
            Some(Ok(asked)) => {
                let at = clock::monotonic() + Duration::from_millis(asked.in_ms);
                Some(Question { stream, asked, at })
            }
            Some(Err(error)) => {
                let error =
                    serde_json::json!({ "code": "malformed", "path": "", "message": error.to_string() });
                // Who does not listen is not told.
                let _ = writeln!(stream, "{}", serde_json::json!({ "not_announced": { "error": error } }));
                None
            }
            None => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Question {
    /// Answers; who does not listen any more is not told.
    pub fn answer(mut self, notice: &perhop_agent::Notice) {
        let _ = writeln!(self.stream, "{}", serde_json::json!(notice));
    }
}
