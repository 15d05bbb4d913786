//! `perhop sip-proxy run`.

use super::file::{self, By, CopsIs, SipProxyFile};
use super::records::Records;
use super::secret::secret;
use crate::controller::ControllerError;
use crate::error::{AppError, Verdict};
use crate::router::{Log, Said as Signalled, Signals};
use clap::Args;
use perhop_io::clock;
use perhop_routerfile::{LogFormat, LogLevel, LogSettings};
use perhop_serve::cops::ClientTls;
use perhop_serve::sip::{
    Again, CopsTarget, HttpTarget, Reserving, Said, SipProxy, SipSettings, Target, Totals,
};
use perhop_sip::quality::Record;
use perhop_units::Duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

/// Arguments of `perhop sip-proxy run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop sip-proxy run examples/sip-proxy\n  perhop sip-proxy run /etc/perhop/sip-proxy.toml\n\n\
                  In a folder it takes sip-proxy.toml. SIGHUP reads the file again and opens the records' file again. It has one thread. \
                  When it ends, calls go on without it; who comes next knows them by what is written in their messages."
)]
pub struct RunArgs {
    /// A proxy's file, or a folder
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Lines of the log as JSON
    #[arg(long)]
    json: bool,
}

/// Passes calls on until it is told to stop.
///
/// # Errors
/// It cannot start.
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let path = file::in_folder(&args.path);
    let file = file::read(&path)?;
    let format = if args.json { LogFormat::Json } else { LogFormat::Text };
    let log = Log::start(&LogSettings { level: LogLevel::Info, format, file: None }, format)?;
    let records = file.records.as_deref().map(Records::open).transpose()?;
    let (records, writing) = records.unzip();
    // One thread: calls are passed on by one task, and there is little else to do.
    let runtime = Builder::new_current_thread().enable_all().build().map_err(AppError::Runtime)?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let proxy = open(&file, records.clone()).await?;
        for (transport, address) in proxy.listening() {
            info!("listening for SIP over {} at {address}", transport.text());
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let (again, other) = mpsc::channel(1);
        let stopped = async move {
            let _ = stopped.await;
        };
        let mut running = tokio::spawn(proxy.run(stopped, other));
        let mut stop = Some(stop);
        let totals = loop {
            tokio::select! {
                totals = &mut running => break totals,
                said = signals.next() => match said {
                    Signalled::ReadAgain => {
                        log.reopen();
                        records.iter().for_each(Records::reopen);
                        read_again(&path, &file, &again).await;
                    }
                    Signalled::Stop => drop(stop.take().map(|stop| stop.send(()))),
                },
            }
        };
        match totals {
            Ok(totals) => in_words(&totals),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
        Ok::<_, AppError>(())
    });
    drop(records);
    drop(runtime);
    if let Some(writing) = writing {
        writing.end();
    }
    log.flush();
    result.map(|()| Verdict::Done)
}

async fn open(file: &SipProxyFile, records: Option<Records>) -> Result<SipProxy, AppError> {
    let settings = SipSettings {
        proxy: file.machine(secret(&file.secret)?, clock::wall().0),
        quality: file.quality.clone(),
        doors: file.doors.clone(),
        tls: file.tls.clone(),
        streams: file.streams,
        reserving: reserving(file)?,
        hep: file.hep,
    };
    let mut lost = 0_u64;
    let say = move |said| match said {
        Said::Record(record) => {
            if let Some(records) = &records
                && !records.put(&record)
            {
                lost += 1;
                if lost.is_power_of_two() {
                    error!("{lost} records of calls are lost: the disk does not keep up");
                }
            }
            refused(&record);
        }
        Said::Reach(who, None) => info!("{who} can be asked for reservations"),
        Said::Reach(who, Some(why)) => warn!("{who} cannot be asked for reservations: {why}"),
    };
    Ok(SipProxy::open(settings, say).await.map_err(crate::error::SipProxyError::from)?)
}

fn refused(record: &Record) {
    use perhop_sip::quality::Ending;
    if let Ending::Refused(code) | Ending::Taken(code) = record.ending {
        let Record { caller, callee, .. } = record;
        info!(%code, "without reservation: {} calls {}", printable(caller), printable(callee));
    }
}

/// What others have written must not command a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(200).collect()
}

async fn read_again(path: &std::path::Path, old: &SipProxyFile, again: &mpsc::Sender<Again>) {
    match file::read(path) {
        Ok(new) => {
            let of_start = |file: &SipProxyFile| {
                (file.doors.clone(), file.tls.clone(), file.secret.clone(), file.records.clone(), file.hep)
            };
            if of_start(&new) != of_start(old) {
                warn!("[[listen]], [tls], [records], [hep] and the secret count from the next start on");
            }
            // What it signs by stays, so any will do here.
            let proxy = new.machine([0; 16], 0);
            if again.send(Again { proxy, quality: new.quality }).await.is_ok() {
                info!("the file is read again");
            }
        }
        Err(why) => error!("the file is refused: {why}"),
    }
}

fn reserving(file: &SipProxyFile) -> Result<Reserving, AppError> {
    let lifetime = file.quality.lifetime;
    let mut reserving = Reserving::default();
    match &file.by {
        By::Nobody => {}
        By::Http(args) => {
            let name = format!("controller {}", args.controller.as_deref().unwrap_or_default());
            let target = HttpTarget { client: args.client()?, name, lifetime };
            reserving.targets.push(Target::Http(target));
        }
        By::Cops(servers) => {
            let cops = file.cops.iter().map(|is| cops_target(is, servers, lifetime));
            reserving.targets.extend(cops.collect::<Result<Vec<_>, _>>()?);
        }
    }
    reserving.others = (!reserving.targets.is_empty()).then_some(0);
    for (edge, is) in file.edges.iter().flat_map(|edge| file.cops.as_ref().map(|is| (edge, is))) {
        reserving.edges.insert(edge.name.clone(), reserving.targets.len());
        reserving.targets.push(cops_target(is, &edge.servers, lifetime)?);
    }
    Ok(reserving)
}

fn cops_target(is: &CopsIs, servers: &[SocketAddr], lifetime: Duration) -> Result<Target, AppError> {
    let first = servers.first().map(|server| server.ip().to_string()).unwrap_or_default();
    let tls = is.tls.as_ref().map(|(identity, authority)| ClientTls::new(identity, authority, &first));
    Ok(Target::Cops(CopsTarget {
        client: is.client.clone(),
        servers: servers.to_vec(),
        client_type: is.client_type,
        tls: tls.transpose().map_err(ControllerError::from)?,
        name: servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        lifetime,
    }))
}

fn in_words(totals: &Totals) {
    let Totals { proxy, quality, live, under_way, unsent, orders_lost, .. } = totals;
    info!(
        requests = proxy.requests,
        answered = proxy.answered,
        dropped = proxy.dropped,
        overload = proxy.overload,
        calls = quality.calls,
        reserved = quality.reserved,
        refused = quality.refused,
        live_calls = live.0,
        live_reservations = live.1,
        transactions = under_way.0,
        unsent,
        orders_lost,
        "the end"
    );
}
