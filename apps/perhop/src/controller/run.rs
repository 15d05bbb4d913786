//! `perhop controller run`.

use super::ControllerError;
use super::file::{self, ControllerFile, Cops, Listen};
use super::lead::Leading;
use super::radius;
use crate::error::{AppError, Verdict};
use crate::router::{Log, Said, Signals};
use clap::Args;
use perhop_routerfile::{LogFormat, LogLevel, LogSettings};
use perhop_serve::controller::camara::Camara;
use perhop_serve::controller::{ControllerApp, Seat};
use perhop_serve::cops::{CopsDoor, CopsSettings, Decides, LedDomain};
use perhop_serve::{Limits, Server, TlsDoor, claim_controller};
use perhop_store::Store;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// Arguments of `perhop controller run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop controller run\n  perhop controller run /etc/perhop/domain.toml\n\n\
                        In a folder it takes domain.toml if that is there, and keeps everything in domain.db unless the file \
                        names another database. SIGHUP reads the file again. Of several controllers on one PostgreSQL one leads, \
                        and the others stand by."
)]
pub struct RunArgs {
    /// A domain's file, or a folder
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The database instead of the one that the file names: sqlite:FILE or postgres://USER@HOST/NAME
    #[arg(long, value_name = "ADDRESS")]
    database: Option<String>,
    /// Name of the domain instead of the one in the file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Lines of the log as JSON
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// The file, if there is one.
    fn file(&self) -> Option<PathBuf> {
        if !self.path.is_dir() {
            return Some(self.path.clone());
        }
        Some(self.path.join("domain.toml")).filter(|path| path.exists())
    }

    fn read(&self) -> Result<ControllerFile, AppError> {
        let mut read = match self.file() {
            Some(path) => file::read(&path)?,
            None => file::of_folder(&self.path),
        };
        if let Some(database) = &self.database {
            read.database.clone_from(database);
        }
        if let Some(name) = &self.name {
            read.name.clone_from(name);
        }
        Ok(read)
    }
}

/// Looks after the domain until it is told to stop.
///
/// # Errors
/// It cannot start.
pub fn run(args: &RunArgs) -> Result<Verdict, AppError> {
    let file = args.read()?;
    crate::sockets::check_name(&file.name)?;
    let claimed = claim_controller(&file.name)?;
    let format = if args.json { LogFormat::Json } else { LogFormat::Text };
    let log = Log::start(&LogSettings { level: LogLevel::Info, format, file: None }, format)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AppError::Runtime)?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let database = |source| ControllerError::Database { address: shown(&file.database), source };
        let limits = perhop_store::Limits::default();
        let store = Arc::new(Store::open(&file.database, limits).await.map_err(database)?);
        let seat = Seat::default();
        let camara = Camara::new(file.camara.clone(), |what| warn!("{what}"));
        let app = ControllerApp::new(seat.clone(), Limits::of_controller(), camara.clone());
        let mut doors = vec![app.at(&claimed)?];
        let mut secured = Vec::new();
        for listen in &file.listeners {
            doors.push(open(&app, listen, &mut secured)?);
        }
        let led: Arc<dyn Decides> = Arc::new(LedDomain(seat.clone()));
        let open = |cops| open_cops(&led, cops, &mut secured);
        let cops = file.cops.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let radius = radius::open(&file.radius, &seat).await?;
        let instance = format!("{}:{}", host_name(), claimed.path.display());
        let (stop, stopped) = watch::channel(false);
        let (again, read) = watch::channel(Arc::new(file.clone()));
        info!("listening at {}", claimed.path.display());
        let leading = Leading { store, seat, camara, instance, file: read };
        let mut leading = tokio::spawn(leading.run(stopped.clone()));
        let mut serving: Vec<_> =
            doors.into_iter().map(|door| tokio::spawn(serve(door, stopped.clone()))).collect();
        serving.push(tokio::spawn(radius.run(stopped.clone())));
        serving.extend(cops.into_iter().map(|door| tokio::spawn(door.run(told(stopped.clone())))));
        let ended = loop {
            tokio::select! {
                ended = &mut leading => break ended,
                said = signals.next() => match said {
                    Said::ReadAgain => {
                        for door in &secured {
                            if let Err(why) = door.read_again() {
                                error!("certificates stay as they were: {why}");
                            }
                        }
                        match args.read() {
                            Ok(read) => drop(again.send(Arc::new(read))),
                            Err(why) => error!("the file is refused: {why}"),
                        }
                    }
                    Said::Stop => {
                        let _ = stop.send(true);
                        break (&mut leading).await;
                    }
                },
            }
        };
        let _ = stop.send(true);
        for door in serving {
            let _ = door.await;
        }
        match ended {
            Ok(done) => done.map_err(AppError::from),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    });
    log.flush();
    result.map(|()| Verdict::Done)
}

/// TLS of a door as the file wants it; those that have it are kept, to be read again.
fn secured(listen: &Listen, all: &mut Vec<TlsDoor>) -> Result<Option<TlsDoor>, ControllerError> {
    let door = |(identity, authority): &(_, PathBuf)| TlsDoor::new(identity, authority);
    let tls = listen.tls.as_ref().map(door).transpose()?;
    all.extend(tls.clone());
    Ok(tls)
}

fn open(app: &ControllerApp, listen: &Listen, all: &mut Vec<TlsDoor>) -> Result<Server, AppError> {
    let tls = secured(listen, all)?;
    let secured = if tls.is_some() { "https" } else { "http" };
    let server = app.on(listen.address, tls)?;
    info!("listening at {secured}://{}", server.address().unwrap_or(listen.address));
    Ok(server)
}

fn open_cops(led: &Arc<dyn Decides>, cops: &Cops, all: &mut Vec<TlsDoor>) -> Result<CopsDoor, AppError> {
    let (door, what) = cops.open(Arc::clone(led), all)?;
    info!("{what}");
    Ok(door)
}

impl Cops {
    /// Opens the door for those who ask whoever decides; and says where it is. If it has certificates, it is put to `all` of these.
    ///
    /// # Errors
    /// The certificates, or the operating system's.
    pub fn open(
        &self,
        decides: Arc<dyn Decides>,
        all: &mut Vec<TlsDoor>,
    ) -> Result<(CopsDoor, String), AppError> {
        let tls = secured(&self.listen, all)?;
        let secured = if tls.is_some() { "with TLS" } else { "in the clear" };
        let settings = CopsSettings { client_type: self.client_type, tls, other: self.other };
        let door = CopsDoor::on(self.listen.address, settings, decides)?;
        let at = door.address().unwrap_or(self.listen.address);
        Ok((door, format!("listening for COPS {secured} at {at}")))
    }
}

/// Resolves when that is said.
pub async fn told(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn serve(door: Server, stop: watch::Receiver<bool>) {
    if let Err(why) = door.run(told(stop)).await {
        error!("{why}");
    }
}

/// An address without its password.
fn shown(address: &str) -> String {
    match address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, rest))) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{rest}")
        }
        None => address.to_owned(),
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "host".to_owned() } else { name }
}
