//! A door with a domain of its own that is kept nowhere, on a thread of its own: for measurements.

use super::{CopsDoor, CopsSettings, LedDomain};
use crate::controller::Seat;
use crate::domain::{Domain, Keeper, Marks, NotKept, Writing};
use crate::server::ServeError;
use perhop_broker::ledger::Settings;
use perhop_broker::record::{AuditRow, Group, Snapshot};
use perhop_broker::topology::Topology;
use perhop_cops::dra::DEFAULT_CLIENT_TYPE;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A database that keeps nothing and fails never.
struct Nowhere;

impl Keeper for Nowhere {
    fn write<'a>(&'a self, _: &'a Group) -> Writing<'a> {
        Box::pin(async { Ok(()) })
    }

    fn audit(
        &self,
        _: Option<u64>,
        _: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// See the module. It ends with this.
pub struct CopsThread {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CopsThread {
    /// Serves this domain on a free port of loopback, in the clear.
    ///
    /// # Errors
    /// The operating system's, or the domain cannot be had.
    pub fn start(topology: Arc<Topology>) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (domain, task) =
            Domain::load(Settings::default(), Snapshot::default(), Marks::new(), Arc::new(Nowhere), |_| ())
                .map_err(io::Error::other)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let seat = Seat::default();
        let door = runtime.block_on(async {
            tokio::spawn(task.run(std::future::pending()));
            let taken = domain.set_topology("measurement", topology).await;
            taken.map_err(|refusal| io::Error::other(refusal.message))?;
            seat.take(domain, Arc::new(Nowhere));
            let settings = CopsSettings { client_type: DEFAULT_CLIENT_TYPE, tls: None, other: None };
            CopsDoor::on(SocketAddr::from(([127, 0, 0, 1], 0)), settings, Arc::new(LedDomain(seat)))
        })?;
        let address = door.address().ok_or_else(|| io::Error::other("the door has no address"))?;
        let serve = move || runtime.block_on(door.run(async move { drop(stopped.await) }));
        let thread = std::thread::Builder::new().name("cops".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for CopsThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
