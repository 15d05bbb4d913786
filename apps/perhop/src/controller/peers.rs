//! `[[peer]]`: neighbouring domains, as the file says how they are reached.

use super::keeper::PeersInStore;
use perhop_broker::lease;
use perhop_broker::peer::{PeerFile, read_peers};
use perhop_broker::topology::Topology;
use perhop_config::{TableReader, TextError};
use perhop_serve::domain::Domain;
use perhop_serve::peer::{Neighbour, RunningBetween, Say, snapshot};
use perhop_serve::{Client, Identity, Place, TlsError};
use perhop_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::info;

/// Addresses of the controllers of one domain.
const MOST_ADDRESSES: usize = 16;

/// A neighbouring domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// What is agreed with it.
    pub peer: PeerFile,
    /// Where.
    pub doors: Doors,
}

/// Where the controllers of a domain are asked, and how both sides know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doors {
    /// One of them leads.
    pub addresses: Vec<Place>,
    /// What is shown there.
    pub identity: Identity,
    /// Whose certificates are believed there.
    pub authority: PathBuf,
}

/// Reads the tables `peer` of a domain's file. What it returns means something only if there are no errors.
pub fn read(root: &mut TableReader<'_>, topology: &Topology, own: &str, folder: &Path) -> Vec<Reached> {
    let peers = read_peers(root, topology, own, |table| doors(table, topology, folder));
    peers.into_iter().map(|(peer, doors)| Reached { peer, doors }).collect()
}

fn doors(table: &mut TableReader<'_>, topology: &Topology, folder: &Path) -> Option<Doors> {
    let name = table.text("name").map_or("", |name| name.value);
    if !topology.clients.iter().any(|client| client.name == name && client.kind == "peer") {
        let error = table.error("name", "is not a client of this file, so nobody would know who speaks");
        let hint = format!("Write [[client]] with name = \"{name}\", kind = \"peer\" and its certificate");
        table.diagnostics().push(error.hint(hint));
    }
    let addresses = addresses(table);
    let mut path = |key, example| table.required_text(key, example).map(|path| folder.join(path.value));
    let certificate = path("certificate", "\"own.pem\"");
    let key = path("key", "\"own.key\"");
    let authority = path("authority", "\"theirs.pem\"");
    let identity = Identity { certificate: certificate?, key: key? };
    Some(Doors { addresses: addresses?, identity, authority: authority? })
}

fn addresses(table: &mut TableReader<'_>) -> Option<Vec<Place>> {
    table.require("addresses", "[\"https://south.example:8443\"]");
    let hint = "Write for example \"https://south.example:8443\"";
    let address = |text: &str| match Place::of_url(text) {
        Some(place @ Place::Network { secure: true, .. }) => Ok(place),
        _ => Err(TextError::new("is not an address that is secured").hint(hint)),
    };
    let before = table.diagnostics().errors();
    let addresses = table.values_with("addresses", "an address", address)?.value;
    // Those that are wrong are not among them.
    if table.diagnostics().errors() == before && !(1..=MOST_ADDRESSES).contains(&addresses.len()) {
        let error = table.error("addresses", format!("has {} addresses", addresses.len())).value("");
        table.diagnostics().push(error.allowed(format!("1 to {MOST_ADDRESSES}")));
    }
    Some(addresses.into_iter().map(|address| address.value).collect())
}

/// Begins to reach the neighbours of a file, with what is kept of earlier lives. None where there are none.
///
/// # Errors
/// Certificates cannot be used.
pub async fn start(
    own: &str,
    peers: &[Reached],
    domain: &Domain,
    store: &Arc<Store>,
    fence: u64,
) -> Result<Option<RunningBetween>, StartError> {
    if peers.is_empty() {
        return Ok(None);
    }
    let neighbours = peers.iter().map(neighbour).collect::<Result<Vec<_>, _>>()?;
    let kept = store.peers().await?;
    let news = domain.news().await.map_err(|refusal| StartError::Elsewhere(refusal.message))?;
    let journal = Arc::new(PeersInStore { store: Arc::clone(store), fence });
    let say: Say = Arc::new(|what| info!("{what}"));
    let kept = snapshot(kept.into_iter().map(|(_, value)| value));
    Ok(Some(RunningBetween::start(own, neighbours, domain, news, kept, journal, say)?))
}

/// Why neighbours are not reached.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The database.
    #[error("{0}{because}", because = super::because(.0))]
    Store(#[from] perhop_store::Error),
    /// Settings.
    #[error(transparent)]
    Settings(#[from] lease::SettingsError),
    /// It is not led here any more.
    #[error("{0}")]
    Elsewhere(String),
}

impl StartError {
    /// Whether the same may go well later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Elsewhere(_))
    }
}

fn neighbour(Reached { peer, doors }: &Reached) -> Result<Neighbour, TlsError> {
    let door = |place: &Place| Client::at(place.clone()).secured(&doors.authority, Some(&doors.identity));
    Ok(Neighbour { peer: peer.clone(), doors: doors.addresses.iter().map(door).collect::<Result<_, _>>()? })
}
