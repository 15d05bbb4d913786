//! The agent's way to the controller of its domain: it follows what its router is to have, and tells how that stands there.

use super::words::of_domain;
use crate::domain::ControllerArgs;
use crate::error::AppError;
use crate::output::progress;
use crate::reserve::encoded;
use perhop_agent::{DomainNews, Input};
use perhop_allocate::{Random, SplitMix64};
use perhop_bandwidth::ControllerSettings;
use perhop_broker::reserved::{Notice, Standing};
use perhop_drive::{Backoff, Inlet, Over};
use perhop_serve::controller::Report;
use perhop_serve::{Client, Method};
use perhop_units::Duration;
use serde_json::json;
use std::collections::VecDeque;
use std::path::Path;
use tokio::sync::mpsc;

/// How long a controller that is away is left alone, at first and at most: when it comes back all agents come, but not at once.
const ABSENCE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// A controller that has said nothing for so long, not even that it is there, is away.
pub const SILENCE: std::time::Duration = std::time::Duration::from_secs(4);
/// How the router stands is told at least so often.
pub const REPORT: std::time::Duration = std::time::Duration::from_secs(10);
/// Refusals that are told.
const REFUSALS: usize = 100;
/// Notices that wait to be told at most; more are not.
const WAITING: usize = 256;

/// The client of a controller as an agent's file has it; paths are from the file's folder.
///
/// # Errors
/// A file cannot be used, or there is no such controller.
pub fn client(settings: &ControllerSettings, folder: &Path) -> Result<Client, AppError> {
    let path = |text: &String| folder.join(text);
    let identity = settings.identity.as_ref();
    let args = ControllerArgs {
        controller: settings.at.clone(),
        token_file: settings.token_file.as_ref().map(path),
        authority: settings.authority.as_ref().map(path),
        certificate: identity.map(|(certificate, _)| path(certificate)),
        key_file: identity.map(|(_, key)| path(key)),
    };
    args.client()
}

/// Where what the agent says of the domain is put, to be told to the controller.
pub struct ToController(mpsc::Sender<Notice>);

impl ToController {
    /// Tells it, unless the controller is far behind.
    pub fn tell(&self, notice: &Notice) {
        let _ = self.0.try_send(notice.clone());
    }
}

/// Follows the controller until the agent is over. `find` makes the client anew for each attempt: a controller on this machine may
/// not have been there before. `leases` hears what concerns leases, too.
pub fn follow(
    settings: ControllerSettings,
    folder: std::path::PathBuf,
    inlet: Inlet<Input>,
    leases: Option<mpsc::Sender<DomainNews>>,
    seed: u64,
) -> ToController {
    let (tell, told) = mpsc::channel(WAITING);
    let (one, other) = (settings.clone(), folder.clone());
    let inlets = Inlets { agent: inlet, leases };
    tokio::spawn(async move { listen(&one, &other, &inlets, seed).await });
    tokio::spawn(async move { report(&settings, &folder, told).await });
    ToController(tell)
}

/// Who hears what the controller says.
struct Inlets {
    agent: Inlet<Input>,
    /// What decides beside the router, if anything does.
    leases: Option<mpsc::Sender<DomainNews>>,
}

impl Inlets {
    async fn send(&self, news: DomainNews) -> Result<(), Over> {
        let is_of_leases = matches!(news, DomainNews::Begin | DomainNews::Away | DomainNews::Lease { .. });
        if let Some(leases) = self.leases.as_ref().filter(|_| is_of_leases) {
            leases.send(news.clone()).await.map_err(|_| Over)?;
        }
        self.agent.send(Input::Domain(news)).await
    }
}

/// Conversations with a controller that ended, and how long it is left alone after each.
pub struct Attempts {
    backoff: Backoff<Box<dyn FnMut() -> u64 + Send>>,
    /// What the agent is without while there is none.
    what: &'static str,
    complained: bool,
}

impl Attempts {
    /// None yet. Pauses are drawn from a stream of a seed.
    pub fn new(seed: u64, stream: u64, what: &'static str) -> Self {
        let mut random = SplitMix64::new(seed, stream);
        let bits: Box<dyn FnMut() -> u64 + Send> = Box::new(move || random.bits());
        Self { backoff: Backoff::new(ABSENCE[0], ABSENCE[1], bits), what, complained: false }
    }

    /// Says why one ended, once while nothing is heard, and waits until the next may begin.
    pub async fn ended(&mut self, heard: bool, why: Result<(), AppError>) {
        let why = why.map_or_else(|error| error.to_string(), |()| "it has ended the conversation".to_owned());
        if heard {
            self.backoff.reset();
        }
        if heard || !self.complained {
            self.complained = true;
            progress(format_args!("without {}: {why}", self.what));
        }
        tokio::time::sleep(self.backoff.pause().to_std()).await;
    }
}

async fn listen(settings: &ControllerSettings, folder: &Path, inlet: &Inlets, seed: u64) {
    let mut attempts = Attempts::new(seed, 1, "the controller of the domain");
    loop {
        let mut heard = false;
        let why = match converse(settings, folder, inlet, &mut heard).await {
            Ok(Some(Over)) => return,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if heard && inlet.send(DomainNews::Away).await.is_err() {
            return;
        }
        attempts.ended(heard, why).await;
    }
}

/// One conversation, until its end or that of the agent.
async fn converse(
    settings: &ControllerSettings,
    folder: &Path,
    inlet: &Inlets,
    heard: &mut bool,
) -> Result<Option<Over>, AppError> {
    let uri = format!("/v1/nodes/{}/wanted", encoded(&settings.node));
    let mut followed = client(settings, folder)?.follow(&uri, Some(SILENCE)).await?;
    while let Some(line) = followed.next().await? {
        let news: DomainNews = serde_json::from_str(&line).map_err(AppError::BadAnswer)?;
        if !std::mem::replace(heard, true) {
            progress(format_args!("the controller of the domain is there"));
        }
        if let Err(over) = inlet.send(news).await {
            return Ok(Some(over));
        }
    }
    Ok(None)
}

async fn report(settings: &ControllerSettings, folder: &Path, mut told: mpsc::Receiver<Notice>) {
    let uri = format!("/v1/nodes/{}/report", encoded(&settings.node));
    let mut standing = Standing::default();
    let mut refused: VecDeque<String> = VecDeque::new();
    loop {
        let next = tokio::time::timeout(REPORT, told.recv()).await;
        let mut notice = match next {
            Ok(None) => return,
            Ok(Some(notice)) => Some(notice),
            Err(_) => None,
        };
        while let Some(one) = notice {
            match one {
                Notice::Standing(now) => {
                    standing = now;
                    if standing.settled {
                        refused.clear();
                    }
                }
                other => refused.extend(of_domain(&other)),
            }
            notice = told.try_recv().ok();
        }
        while refused.len() > REFUSALS {
            refused.pop_front();
        }
        let Ok(client) = client(settings, folder) else { continue };
        let report = Report {
            flows: standing.flows,
            owed: standing.owed,
            settled: standing.settled,
            refused: refused.iter().cloned().collect(),
            at_ms: 0,
        };
        // A controller that is away is told again.
        let _ = client.send(Method::POST, &uri, Some(&json!(report))).await;
    }
}
