//! Leading a domain, or waiting until nobody else does.

use super::ControllerError;
use super::file::ControllerFile;
use super::keeper::InStore;
use perhop_broker::ledger::ClientChange;
use perhop_io::clock;
use perhop_serve::controller::camara::Camara;
use perhop_serve::controller::{Seat, local_client};
use perhop_serve::domain::{Domain, NotKept};
use perhop_store::{Campaign, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// A leader that has not renewed its lease for so long is taken to be dead.
const LEASE: Duration = Duration::from_secs(3);
/// How often a lease is renewed, or tried for.
const BEAT: Duration = Duration::from_secs(1);

fn now_ms() -> u64 {
    clock::wall().0 / 1_000_000
}

fn lease_ms() -> u64 {
    LEASE.as_millis() as u64
}

/// What a controller leads with.
pub struct Leading {
    /// The database.
    pub store: Arc<Store>,
    /// Whose place it takes.
    pub seat: Seat,
    /// Its sessions by CAMARA's interfaces.
    pub camara: Camara,
    /// This process, unlike every other.
    pub instance: String,
    /// The file, as it was read last.
    pub file: watch::Receiver<Arc<ControllerFile>>,
}

impl Leading {
    /// Leads whenever it can, until `stop`.
    ///
    /// # Errors
    /// What the database has cannot be a domain's, or the file's domain cannot be had at the start.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), ControllerError> {
        let mut waits = false;
        let mut first = true;
        while !*stop.borrow() {
            match self.store.campaign(&self.instance, now_ms(), lease_ms()).await {
                Ok(Campaign::Won { fence }) => {
                    waits = false;
                    self.lead(fence, &mut stop, std::mem::take(&mut first)).await?;
                    self.seat.leave();
                    continue;
                }
                Ok(Campaign::Held(leader)) => {
                    if !std::mem::replace(&mut waits, true) {
                        info!("{} leads: standing by", leader.name.as_deref().unwrap_or("another instance"));
                    }
                }
                Err(error) => warn!("cannot try to lead: {error}{}", super::because(&error)),
            }
            tokio::select! { () = tokio::time::sleep(BEAT) => {}, _ = stop.changed() => {} }
        }
        Ok(())
    }

    async fn lead(
        &mut self,
        fence: u64,
        stop: &mut watch::Receiver<bool>,
        first: bool,
    ) -> Result<(), ControllerError> {
        let snapshot = match self.store.load().await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                error!("cannot read the database: {error}{}", super::because(&error));
                tokio::time::sleep(BEAT).await;
                return Ok(());
            }
        };
        let reservations = snapshot.reservations.len();
        let keeper = Arc::new(InStore(Arc::clone(&self.store)));
        let file = Arc::clone(&self.file.borrow_and_update());
        let settings = perhop_broker::ledger::Settings { fence, ..file.domain.settings };
        let say = |why: &NotKept| warn!("decisions are not in the database: {}", why.message);
        let (domain, task) = Domain::load(settings, snapshot, file.marks.clone(), Arc::clone(&keeper), say)?;
        info!(fence, reservations, domain = file.name, "leading");
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let stopped = {
            let mut stop = stop.clone();
            async move {
                tokio::select! { _ = stop.wait_for(|stop| *stop) => {}, _ = ended => {} }
            }
        };
        // It hears until the domain is led no more.
        tokio::spawn(self.camara.clone().follow(task.news()));
        let running = tokio::spawn(task.run(stopped));
        let led = async {
            let done = domain.change_client("file", ClientChange::Put(local_client())).await;
            let done = match done {
                Ok(_) => self.take_file(&domain, &file).await,
                Err(refusal) => Err(refusal.message),
            };
            match done {
                Err(why) if first && !self.is_standing_in(&domain).await => {
                    return Err(ControllerError::Domain(why));
                }
                Err(why) => error!("the file's domain cannot be taken: {why}"),
                Ok(()) => {}
            }
            self.seat.take(domain.clone(), keeper);
            Ok(())
        };
        if let Err(why) = led.await {
            drop(end);
            let _ = running.await;
            let _ = self.store.resign(fence).await;
            return Err(why);
        }
        let mut running = running;
        let mut beat = tokio::time::interval(BEAT);
        let leads = loop {
            tokio::select! {
                done = &mut running => break done.unwrap_or(false),
                _ = beat.tick() => {
                    match self.store.renew(fence, now_ms(), lease_ms()).await {
                        Ok(()) => {}
                        Err(perhop_store::Error::Fenced { .. }) => break false,
                        Err(error) => warn!("cannot renew the lease: {error}{}", super::because(&error)),
                    }
                }
                Ok(()) = self.file.changed() => {
                    let file = Arc::clone(&self.file.borrow_and_update());
                    match self.take_file(&domain, &file).await {
                        Ok(()) => info!("the file is read again"),
                        Err(why) => error!("the file's domain cannot be taken: {why}"),
                    }
                }
            }
        };
        self.seat.leave();
        if leads {
            let _ = self.store.resign(fence).await;
        } else {
            warn!("another instance leads now");
            drop(end);
            running.abort();
        }
        Ok(())
    }

    /// Whether it is another's turn already, so that a refusal is no fault of the file.
    async fn is_standing_in(&self, domain: &Domain) -> bool {
        domain.look(|ledger| !ledger.is_open()).await.unwrap_or(true)
    }

    async fn take_file(&self, domain: &Domain, file: &ControllerFile) -> Result<(), String> {
        self.camara.set(file.camara.clone());
        domain.set_marks(file.marks.clone()).await.map_err(|refusal| refusal.message)?;
        let topology = &file.domain.topology;
        // A folder without a file has the domain that was made by other ways.
        if topology.nodes.is_empty() && topology.clients.is_empty() {
            return Ok(());
        }
        let taken = domain.set_topology("file", Arc::new(topology.clone())).await;
        taken.map(drop).map_err(|refusal| refusal.message)
    }
}
