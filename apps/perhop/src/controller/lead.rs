//! Leading a domain, or waiting until nobody else does.

use super::ControllerError;
use super::file::ControllerFile;
use super::keeper::InStore;
use perhop_broker::ledger::{ClientChange, Refusal};
use perhop_io::clock;
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
        let mut file = Arc::clone(&self.file.borrow_and_update());
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
        let running = tokio::spawn(task.run(stopped));
        let mut seated = match self.take_all(&domain, &file).await {
            Err(refusal) if refusal.retry_after_ms > 0 => {
                warn!("the file's domain is not taken yet: {}", refusal.message);
                false
            }
            Err(refusal) if first && !self.is_standing_in(&domain).await => {
                drop(end);
                let _ = running.await;
                let _ = self.store.resign(fence).await;
                return Err(ControllerError::Domain(refusal.message));
            }
            taken => self.seat(&domain, &keeper, taken),
        };
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
                    // Nobody is answered from a domain that lacks what the file says for want of a database.
                    if !seated {
                        seated = match self.take_all(&domain, &file).await {
                            Err(refusal) if refusal.retry_after_ms > 0 => false,
                            taken => self.seat(&domain, &keeper, taken),
                        };
                    }
                }
                Ok(()) = self.file.changed() => {
                    file = Arc::clone(&self.file.borrow_and_update());
                    match self.take_file(&domain, &file).await {
                        Ok(()) => info!("the file is read again"),
                        Err(refusal) => error!("the file's domain cannot be taken: {}", refusal.message),
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

    /// Begins to answer; what a file says that is wrong is no reason not to.
    fn seat(&self, domain: &Domain, keeper: &Arc<InStore>, taken: Result<(), Refusal>) -> bool {
        if let Err(refusal) = taken {
            error!("the file's domain cannot be taken: {}", refusal.message);
        }
        self.seat.take(domain.clone(), Arc::clone(keeper) as Arc<dyn perhop_serve::domain::Keeper>);
        true
    }

    async fn take_all(&self, domain: &Domain, file: &ControllerFile) -> Result<(), Refusal> {
        domain.change_client("file", ClientChange::Put(local_client())).await?;
        self.take_file(domain, file).await
    }

    async fn take_file(&self, domain: &Domain, file: &ControllerFile) -> Result<(), Refusal> {
        domain.set_marks(file.marks.clone()).await?;
        let topology = &file.domain.topology;
        // A folder without a file has the domain that was made by other ways.
        if topology.nodes.is_empty() && topology.clients.is_empty() {
            return Ok(());
        }
        domain.set_topology("file", Arc::new(topology.clone())).await.map(drop)
    }
}
