//! What keeps a command from being done. The errors of a group of subcommands become [`AppError`]s, never the other way.

mod abr;
mod exit;
mod lab;

pub use abr::AbrError;
pub use exit::Verdict;
pub use lab::LabCommandError;

use perhop_bench::BenchError;
use perhop_engine::EngineError;
use perhop_io::pcap::CaptureError;
use perhop_routerfile::overrides::BadSetting;
use perhop_serve::sip::SipError;
use perhop_serve::{ClientError, LimitError, ServeError, SocketError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What to do about a file that cannot be written.
fn what_to_do(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "Make room there, or name a place that has it."
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "A file is in its place: remove it, or name another directory."
        }
        _ => "Check that the directory exists and may be written.",
    }
}

/// Why a proxy does not start, and what to do about it.
#[derive(Debug, Error)]
#[error("{source}{}", sip_remedy(source))]
pub struct SipProxyError {
    #[from]
    source: SipError,
}

fn sip_remedy(error: &SipError) -> &'static str {
    match error {
        SipError::Address { .. } => {
            "\nName another address or port in [[listen]], or end what listens there."
        }
        SipError::Hep { .. } => "\nName an address in [hep] that this machine has a route to.",
        SipError::Tls(_) | SipError::NoCertificate => "\n`perhop pki` makes an authority and certificates.",
    }
}

/// Why a command could not be carried out. The text says what, then what to do about it.
#[derive(Debug, Error)]
pub enum AppError {
    /// Nobody reads standard output any more: the command ends quietly.
    #[error("standard output is closed")]
    Closed,
    /// Standard output cannot be written.
    #[error("standard output: {0}\nCheck the space left where it is written to.")]
    Output(io::Error),
    /// A file cannot be read.
    #[error("{}: {source}\nCheck the name, and that the file may be read.", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {source}\n{}", path.display(), what_to_do(source))]
    Write {
        /// File.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// What an agent has admitted cannot be kept.
    #[error("{}: {source}\nIt keeps what is admitted beside the router: name another file in [leases], or remove this one.", path.display())]
    Journal {
        /// File.
        path: PathBuf,
        /// Error.
        source: perhop_store::Error,
    },
    /// What is known of the policy cannot be kept.
    #[error("{}: {source}\nIt keeps what is known of the domain's policy: name another file in [policy], or remove this one.", path.display())]
    PolicyJournal {
        /// File.
        path: PathBuf,
        /// Error.
        source: perhop_store::Error,
    },
    /// Leases cannot be used so.
    #[error("[leases]: {0}")]
    Leases(perhop_broker::lease::SettingsError),
    /// A file is not text.
    #[error("{}: byte {at} is not UTF-8\nSave the file as UTF-8 text.", path.display())]
    NotText {
        /// File.
        path: PathBuf,
        /// Offset of the first wrong byte.
        at: usize,
    },
    /// A file has errors, which were already shown.
    #[error("{}: {errors} error{}\nMend what is listed above.", path.display(), if *errors == 1 { "" } else { "s" })]
    BadFile {
        /// File.
        path: PathBuf,
        /// How many.
        errors: usize,
    },
    /// Capture files have errors, which were already shown.
    #[error("{0} of the files could not be read to the end\nThe flows shown are those of the readable part.")]
    BadCaptures(usize),
    /// A capture of which no frame can be read.
    #[error("{}: no frame can be read; the link type is {link_type}\nUse a capture of a link type that docs/detection.md lists.", path.display())]
    NoFrames {
        /// File.
        path: PathBuf,
        /// Of its first frame (LINKTYPE_*).
        link_type: u32,
    },
    /// A capture that holds the headers of no frame.
    #[error("{}: every frame is cut short within its headers\nCapture with a longer snap length, as tcpdump -s 0 does.", path.display())]
    NoHeaders {
        /// File.
        path: PathBuf,
    },
    /// Options of detection are out of range.
    #[error("{0}\nSee `perhop realtime classify --help`.")]
    BadDetection(perhop_flows::realtime::rtp::RtpSettingsError),
    /// A packet's description has errors.
    #[error("{0}")]
    BadPacket(String),
    /// A JSON document is not what it should be.
    #[error("{}: {source}\nA transaction is described in the document at /v1/openapi.json.", path.display())]
    BadJson {
        /// File.
        path: PathBuf,
        /// Error, with line and column.
        source: serde_json::Error,
    },
    /// The record of a machine's inputs cannot be replayed.
    #[error("{}: {source}\nName a file that `perhop agent run --record` has written.", path.display())]
    BadRecord {
        /// File.
        path: PathBuf,
        /// Error.
        source: perhop_drive::ReplayError,
    },
    /// The router answered something that is not an answer.
    #[error("the router's answer is not understood: {0}\nIs it of the same version? `perhop --version`")]
    BadAnswer(serde_json::Error),
    /// A router or controller refused a question.
    #[error("refused: {0}")]
    Refused(String),
    /// Rows are to be sorted or filtered by a column that none has.
    #[error("no row has a column {column:?}\nThere are {columns}.")]
    NoColumn {
        /// Given.
        column: String,
        /// Those there are, with commas between them.
        columns: String,
    },
    /// The agent does not take an announcement.
    #[error("link {link}: {why}")]
    NotAnnounced {
        /// Link.
        link: String,
        /// What the agent says.
        why: String,
    },
    /// Several routers run and none was named.
    #[error("several routers run here: {}\nChoose one with --router NAME.", .0.join(", "))]
    SeveralRouters(Vec<String>),
    /// None runs.
    #[error("no router runs here\nStart one with `perhop router run FILE`, or name it with --router NAME.")]
    NoRouter,
    /// None that this user may talk to.
    #[error(
        "this user may not talk to the router{} {}\nBecome root, or a member of the group of the socket below /run/perhop.",
        if .0.len() == 1 { "" } else { "s" },
        .0.join(", ")
    )]
    NotForThisUser(Vec<String>),
    /// No controller runs.
    #[error(
        "no controller runs here\nStart one with `perhop controller run`, or name one with --controller https://HOST:PORT."
    )]
    NoController,
    /// Several controllers run and none was named.
    #[error("several controllers run here: {}\nChoose one with --controller NAME.", .0.join(", "))]
    SeveralControllers(Vec<String>),
    /// Not where a controller can be.
    #[error("{0:?} is not where a controller is\nWrite its domain's name, or https://HOST:PORT.")]
    BadUrl(String),
    /// A secured controller without an authority.
    #[error("say by which authority the controller is known: --authority FILE\n`perhop pki` makes one.")]
    NoAuthority,
    /// A scenario where a router file is asked for.
    #[error("{path}: this is a scenario, not a router file\nRun it with `perhop lab run {path}`, which checks it first.", path = .0.display())]
    ScenarioFile(PathBuf),
    /// Not the name of a router.
    #[error("{name:?} is not a router's name: {why}\nChoose another with --name or [router] name.")]
    BadName {
        /// Given.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// `--rate` for a port that takes none.
    #[error("--rate {port}: no port \"{port}\" without a rate of its own is in the file")]
    NoPortForRate {
        /// The port.
        port: String,
    },
    /// A `--set` that cannot be applied.
    #[error(
        "--set {0}\nPaths are port.NAME.rate and port.NAME.device, for example --set port.wan.rate=\"8 Mbit/s\"."
    )]
    BadSetting(#[from] BadSetting),
    /// A router does not take messages of the traffic-control API.
    #[error("{}: {source}\nThe router's file needs a section [tcapi], and the router a start with it.", path.display())]
    NoTcapi {
        /// Where it would listen.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// A controller or an agent does not take a client by COPS.
    #[error(
        "{server}: {why}\nIts file, the domain's or an agent's, needs a section [[cops]], and a [[client]] of this name."
    )]
    NoCops {
        /// Where it would be.
        server: String,
        /// Why not.
        why: String,
    },
    /// No agent that takes announcements runs beside a router.
    #[error("{}: {source}\nStart the router's agent with `perhop agent run FILE`; its file needs a [[link]].", path.display())]
    NoAgent {
        /// Where it would listen.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// Another instance of the agent has taken over, or this one may not speak for it.
    #[error(
        "the router listens to another agent: {0}\nOne agent a router: end the other, or start this one again to take over."
    )]
    Superseded(String),
    /// A `--limit` that cannot be set.
    #[error("--limit {text}: {source}")]
    BadLimit {
        /// Given.
        text: String,
        /// Why.
        source: LimitError,
    },
    /// The router does not start, or left something behind.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// The kernel does not keep reservations for an interface.
    #[error("{0}")]
    Shaper(#[from] perhop_engine::ShaperError),
    /// A running router cannot be talked to.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// A socket cannot be had.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// Serving failed.
    #[error("{0}")]
    Serve(#[from] ServeError),
    /// A capture cannot be read.
    #[error("{0}")]
    Capture(#[from] CaptureError),
    /// A certificate cannot be made.
    #[error("{0}")]
    Pki(#[from] crate::pki::PkiError),
    /// A controller does not start.
    #[error("{0}")]
    Controller(#[from] crate::controller::ControllerError),
    /// A proxy does not start.
    #[error("{0}")]
    SipProxy(#[from] SipProxyError),
    /// The laboratory cannot do its work.
    #[error("{0}")]
    Lab(#[from] LabCommandError),
    /// The rate control of a host does not start or go on.
    #[error("{0}")]
    Abr(#[from] AbrError),
    /// A measurement cannot be made.
    #[error("{0}")]
    Bench(#[from] BenchError),
    /// Signals cannot be watched.
    #[error("{0}")]
    Signals(perhop_labrun::LabError),
    /// The operating system gives no runtime.
    #[error("cannot start the input and output runtime: {0}\nCheck the limits on open files and threads.")]
    Runtime(io::Error),
}
