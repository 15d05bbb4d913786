//! `perhop router run FILE`.

use super::adapter::Adapter;
use super::clients;
use super::file;
use super::log::Log;
use super::reloader::Reloader;
use super::reread::{Door, Fixed, reread};
use super::serving::{Signals, serve};
use crate::agent;
use crate::error::{AppError, Verdict};
use crate::output::progress;
use crate::sockets::{check_name, check_state_file};
use clap::{Args, ValueEnum};
use perhop_engine::{Accounting, Engine, EngineConfig, give_up_rights, restore, state_path};
use perhop_routerfile::overrides::Setting;
use perhop_routerfile::{LogFormat, RouterFile};
use perhop_serve::{Clients, Limits, RouterApi, Server, TcapiServer, TcapiThread, claim, tcapi_path};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::{info, warn};

/// Arguments of `perhop router run`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop router run edge.toml --set port.wan.rate=\"8 Mbit/s\"\n\n\
                        SIGHUP reads the file again; SIGINT and SIGTERM stop the router and put the interfaces back.\n\
                        PERHOP_LOG overrides what is logged, for example PERHOP_LOG=info,perhop_engine=debug.")]
pub struct RunArgs {
    /// The router file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the router; otherwise router.name, else the file's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Overrides the file, also when it is read again: port.NAME.rate or port.NAME.device
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Limits of the socket's clients, as GET /v1/limits names them: api.connections=100
    #[arg(long, value_name = "NAME=N")]
    limit: Vec<String>,
    /// Form of the log; otherwise log.format
    #[arg(long, value_name = "FORM")]
    log_format: Option<LogForm>,
    /// Captures what each port receives and sends into files here, a directory that the router's user may write to
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// CPU for the packet thread to stay on
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Tries for real-time priority of the packet thread
    #[arg(long)]
    realtime: bool,
    /// Takes the time of elements, of one call in so many (128), and of packets: perhop show costs|histograms|delays
    #[arg(long, value_name = "CALLS", num_args = 0..=1, default_missing_value = "128", require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    profile: Option<u32>,
    /// With --profile: traces one packet in so many instead of 64; 1: every packet
    #[arg(long, value_name = "PACKETS", requires = "profile")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    trace_every: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogForm {
    Text,
    Json,
}

/// The name of a file's router: as told, as written in the file, or the file's own.
///
/// # Errors
/// It cannot be one.
pub fn router_name(given: Option<&str>, file: &RouterFile, path: &Path) -> Result<String, AppError> {
    let written = file.router.name.as_ref().map(ToString::to_string);
    let stem = || path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = given.map(str::to_owned).or(written).unwrap_or_else(stem);
    check_name(&name).map(str::to_owned)
}

/// Runs the router until it is told to stop.
///
/// # Errors
/// It cannot start, or the interfaces could not be put back.
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let settings = args.set.iter().map(|text| text.parse::<Setting>()).collect::<Result<Vec<_>, _>>()?;
    let limits = api_limits(&args.limit)?;
    let file = file::load_with(&args.file, &settings)?;
    let name = router_name(args.name.as_deref(), &file, &args.file)?;
    let known = Clients::default();
    known.set(clients::rules(&file).map_err(|unknown| file::bad(&args.file, unknown))?);
    // Reading it again must work from anywhere.
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    // Held until the interfaces are as they were.
    let claimed = claim(&name)?;
    agent::clear_dead(&claimed.path);
    check_state_file(claimed.directory(), &name)?;
    // A namespace that a crashed router of this name was in can be entered only now.
    let left = state_path(claimed.directory(), &name);
    if left.exists() {
        restore(&left)?;
    }
    // Before the first thread: each would keep what it has.
    give_up_rights(args.realtime)?;
    let log = Log::start(&file.log, log_format(args, &file))?;
    if let Err(error) = std::fs::File::open(&path) {
        warn!(
            "{}: {error}: a reload will not be able to read it; keep it where the router's user may read",
            path.display()
        );
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
    let config = EngineConfig {
        cpu: args.cpu,
        fifo: args.realtime,
        pcap_dir: args.pcap.clone(),
        accounting: accounting(args),
        ..EngineConfig::of_file(&name, None, &file, claimed.directory())
    };
    // Signals first: one that comes during the start must not end the process with the interfaces half changed.
    let signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    let (engine, handle) = Engine::start(config)?;
    for warning in engine.warnings() {
        warn!("{warning}");
    }
    let (dies, died) = oneshot::channel();
    engine.on_failure(move |_| {
        let _ = dies.send(());
    });
    let ports = handle.ports().join(", ");
    let fixed = Fixed::of(&file);
    let reservations = file.tcapi.as_ref().map(|_| tcapi_path(&claimed.path));
    let sockets = [claimed.path.clone()].into_iter().chain(reservations).collect();
    let door = Door { sockets, clients: known.clone() };
    let api: Arc<dyn RouterApi> = Arc::new(Adapter::new(
        handle.clone(),
        Reloader::start(move || reread(&handle, &path, &settings, &fixed, &door))
            .map_err(AppError::Runtime)?,
    ));
    let socket = claimed.path.clone();
    let served = runtime.block_on(async {
        let server = Server::bind(&claimed, Arc::clone(&api), limits, &known)?;
        let _reservations = tcapi(&file, &claimed.path, &api, &known)?;
        info!(router = name, ports, socket = %socket.display(), "forwarding");
        serve(server, &api, signals, died, &log).await;
        Ok::<(), AppError>(())
    });
    drop(runtime);
    let report = engine.stop();
    drop(claimed);
    let restored = match report.restore_error {
        Some(error) => {
            progress(format_args!(
                "perhop: the interfaces are not as they were; try `perhop router restore --name {name}`"
            ));
            Err(AppError::Engine(error))
        }
        None => Ok(Verdict::Done),
    };
    let lived = report.failure.map_or(Ok(()), |death| Err(AppError::Engine(death.into())));
    info!(router = name, "stopped");
    log.flush();
    served.and(lived).and(restored)
}

/// Serves the traffic-control API, where the file says so, until it is dropped.
fn tcapi(
    file: &RouterFile,
    socket: &Path,
    api: &Arc<dyn RouterApi>,
    clients: &Clients,
) -> Result<Option<TcapiThread>, AppError> {
    let Some(settings) = &file.tcapi else { return Ok(None) };
    let numbers = (0..).zip(settings.classes.iter().cloned()).collect();
    Ok(Some(TcapiServer::start(socket, Arc::clone(api), clients, numbers)?))
}

fn accounting(args: &RunArgs) -> Option<Accounting> {
    let default = Accounting::default();
    let packets = args.trace_every.unwrap_or(default.packets);
    args.profile.map(|calls| Accounting { calls, packets, ..default })
}

fn api_limits(given: &[String]) -> Result<Limits, AppError> {
    let mut limits = Limits::default();
    for text in given {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let set = limits.set(name.trim(), value.trim());
        set.map_err(|source| AppError::BadLimit { text: text.clone(), source })?;
    }
    Ok(limits)
}

fn log_format(args: &RunArgs, file: &RouterFile) -> LogFormat {
    match args.log_format {
        Some(LogForm::Text) => LogFormat::Text,
        Some(LogForm::Json) => LogFormat::Json,
        None => file.log.format,
    }
}
