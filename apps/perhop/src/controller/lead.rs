//! Leading a domain, or waiting until nobody else does.

use super::ControllerError;
use super::file::ControllerFile;
use super::keeper::InStore;
use super::peers::{self, Reached};
use super::policy::LedPolicy;
use perhop_broker::ledger::{ClientChange, Refusal};
use perhop_io::clock;
use perhop_serve::controller::camara::Camara;
use perhop_serve::controller::{Seat, local_client};
use perhop_serve::domain::{Domain, NotKept};
use perhop_serve::peer::{Between, RunningBetween};
use perhop_store::{Campaign, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info, warn};

/// A leader that has not renewed its lease for so long is taken to be dead.
const LEASE: Duration = Duration::from_secs(3);
/// How often a lease is renewed, or tried for.
const BEAT: Duration = Duration::from_secs(1);
/// How often the database forgets what is too old.
const TIDY: Duration = Duration::from_secs(60 * 60);

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
        // From the first moment: to load a large domain may take longer than a lease lasts.
        let mut lease = Lease::hold(Arc::clone(&self.store), fence);
        let snapshot = match self.store.load().await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                error!("cannot read the database: {error}{}", super::because(&error));
                tokio::time::sleep(BEAT).await;
                return Ok(());
            }
        };
        let mut policy = match LedPolicy::begin(&self.store, fence, stop.clone()).await {
            Ok(policy) => policy,
            Err(error) => {
                error!("cannot read the policy: {error}{}", super::because(&error));
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
        // The file is taken later where it is the database that keeps it from being taken now. Until then nobody is answered
        // from a domain that lacks what it says.
        let mut owed = false;
        match self.take_file(&domain, &file).await {
            Ok(()) => {}
            Err(refusal) if refusal.retry_after_ms > 0 => {
                warn!("the file's domain is not taken yet: {}", refusal.message);
                owed = true;
            }
            Err(refusal) if first => {
                drop(end);
                let _ = running.await;
                policy.end().await;
                let _ = self.store.resign(fence).await;
                return Err(ControllerError::Domain(refusal.message));
            }
            Err(refusal) => error!("the file's domain cannot be taken: {}", refusal.message),
        }
        let mut seated = !owed;
        let (seat, policies) = (self.seat.clone(), policy.policies.clone());
        let sit = |reaching: &Reaching| {
            let (keeper, policies) = (Arc::clone(&keeper) as _, Some(policies.clone()));
            seat.take_with(domain.clone(), keeper, reaching.between(), policies);
        };
        let mut reaching = Reaching { fence, peers: Vec::new(), running: None, owed: true };
        if seated {
            let wrong = self.reach(&domain, &mut reaching).await;
            if let Some(why) = wrong.filter(|_| first) {
                drop(end);
                let _ = running.await;
                policy.end().await;
                let _ = self.store.resign(fence).await;
                return Err(ControllerError::Peers(why));
            }
            sit(&reaching);
        }
        let mut running = running;
        let mut beat = tokio::time::interval(BEAT);
        let mut tidied = tokio::time::Instant::now();
        let leads = loop {
            tokio::select! {
                done = &mut running => break done.unwrap_or(false),
                () = policy.lost() => break false,
                () = lease.lost() => break false,
                _ = beat.tick() => {
                    if std::mem::take(&mut owed) {
                        owed = self.take_file_again(&domain).await;
                        if !owed && !std::mem::replace(&mut seated, true) {
                            self.reach(&domain, &mut reaching).await;
                            sit(&reaching);
                        }
                    }
                    if seated && reaching.owed {
                        self.reach(&domain, &mut reaching).await;
                    }
                    if tidied.elapsed() >= TIDY {
                        tidied = tokio::time::Instant::now();
                        self.tidy(fence);
                    }
                }
                Ok(()) = self.file.changed() => {
                    owed = self.take_file_again(&domain).await;
                    if seated && !owed {
                        self.reach(&domain, &mut reaching).await;
                    }
                }
            }
        };
        self.seat.leave();
        policy.end().await;
        if leads {
            let _ = self.store.resign(fence).await;
        } else {
            warn!("another instance leads now");
            drop(end);
            running.abort();
        }
        Ok(())
    }

    /// Takes the file as it was read last. Whether that is to be tried again.
    async fn take_file_again(&mut self, domain: &Domain) -> bool {
        let file = Arc::clone(&self.file.borrow_and_update());
        match self.take_file(domain, &file).await {
            Ok(()) => {
                info!("the file's domain is taken");
                false
            }
            Err(refusal) if refusal.retry_after_ms > 0 => true,
            Err(refusal) => {
                error!("the file's domain cannot be taken: {}", refusal.message);
                false
            }
        }
    }

    /// All of it, or nothing where what it has of nodes and links cannot be had.
    async fn take_file(&self, domain: &Domain, file: &ControllerFile) -> Result<(), Refusal> {
        domain.change_client("file", ClientChange::Put(local_client())).await?;
        let topology = &file.domain.topology;
        // A folder without a file has the domain that was made by other ways.
        if !(topology.nodes.is_empty() && topology.clients.is_empty()) {
            domain.set_topology("file", Arc::new(topology.clone())).await?;
        }
        domain.configure(file.domain.settings).await?;
        domain.set_marks(file.marks.clone()).await?;
        self.camara.set(file.camara.clone());
        Ok(())
    }

    /// Reaches the neighbours that the file has, if they are not those that are reached already. Why not, where that will not pass.
    async fn reach(&mut self, domain: &Domain, reaching: &mut Reaching) -> Option<String> {
        let file = Arc::clone(&self.file.borrow());
        if file.peers == reaching.peers && !reaching.owed {
            return None;
        }
        // There is one machine at a time: it goes on where this one has stopped. Who asks meanwhile is told to ask again.
        if let Some(running) = reaching.running.take() {
            running.stop().await;
        }
        reaching.owed = false;
        match peers::start(&file.name, &file.peers, domain, &self.store, reaching.fence).await {
            Ok(running) => {
                (reaching.peers, reaching.running) = (file.peers.clone(), running);
                self.seat.reach(reaching.between());
                None
            }
            Err(why) => {
                error!("neighbouring domains are not reached: {why}");
                (reaching.peers, reaching.owed) = (Vec::new(), why.may_pass());
                (!why.may_pass()).then(|| why.to_string())
            }
        }
    }

    /// Has the database forget what is too old.
    fn tidy(&self, fence: u64) {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            if let Err(error) = store.compact(fence, now_ms()).await {
                warn!("cannot tidy the database: {error}{}", super::because(&error));
            }
        });
    }
}

/// Neighbours that are reached while the domain is led.
struct Reaching {
    fence: u64,
    peers: Vec<Reached>,
    running: Option<RunningBetween>,
    /// It is to be tried, or tried again.
    owed: bool,
}

impl Reaching {
    fn between(&self) -> Option<Between> {
        self.running.as_ref().map(RunningBetween::between)
    }
}

/// A lease that is renewed until this is dropped or another instance leads.
struct Lease {
    task: tokio::task::JoinHandle<()>,
    lost: watch::Receiver<bool>,
}

impl Lease {
    fn hold(store: Arc<Store>, fence: u64) -> Self {
        let (lose, lost) = watch::channel(false);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                match store.renew(fence, now_ms(), lease_ms()).await {
                    Ok(()) => {}
                    Err(perhop_store::Error::Fenced { .. }) => {
                        // Whoever holds it looks when it wants.
                        let _ = lose.send(true);
                        return;
                    }
                    Err(error) => warn!("cannot renew the lease: {error}{}", super::because(&error)),
                }
            }
        });
        Self { task, lost }
    }

    /// Resolves when another instance leads.
    async fn lost(&mut self) {
        // The task ends when it is lost, and not before.
        let _ = self.lost.wait_for(|lost| *lost).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}
