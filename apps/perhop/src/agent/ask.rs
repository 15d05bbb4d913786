//! Questions about leases, put to the controller: one at a time about each.

use super::domain::client;
use crate::error::AppError;
use crate::output::progress;
use crate::reserve::encoded;
use perhop_agent::Input;
use perhop_bandwidth::{ControllerSettings, LinkAsk};
use perhop_broker::lease::Refusal;
use perhop_drive::Inlet;
use perhop_model::ErrorItem;
use perhop_serve::Method;
use perhop_serve::controller::{LeaseAsk, LeaseHas};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// A controller that has not answered by then is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions that are asked at the same time.
const TOGETHER: usize = 32;

/// What a lease has, and why not what was asked for.
pub type Answer = (LeaseHas, Option<Refusal>);

/// A question has come to its end: what was decided, if anything.
pub struct Decided {
    name: String,
    result: Result<Answer, String>,
}

/// See the module.
pub struct Asker {
    controller: Arc<(ControllerSettings, PathBuf)>,
    /// By lease: the number that is being asked, and what is to be asked then.
    open: BTreeMap<String, (u64, Option<LeaseAsk>)>,
    room: Arc<Semaphore>,
    done: mpsc::Sender<Decided>,
    /// That the controller decides nothing has been told.
    complained: bool,
}

impl Asker {
    /// Of a controller; and where its decisions come from.
    pub fn new(settings: ControllerSettings, folder: PathBuf) -> (Self, mpsc::Receiver<Decided>) {
        let (done, decided) = mpsc::channel(TOGETHER);
        let (controller, room) = (Arc::new((settings, folder)), Arc::new(Semaphore::new(TOGETHER)));
        (Self { controller, open: BTreeMap::new(), room, done, complained: false }, decided)
    }

    /// Asks about the lease of a name, unless that is being asked.
    pub fn ask(&mut self, name: String, ask: LeaseAsk) {
        if let Some((number, next)) = self.open.get_mut(&name) {
            if ask.number > *number {
                *next = Some(ask);
            }
            return;
        }
        self.open.insert(name.clone(), (ask.number, None));
        let (controller, room, done) = (self.controller.clone(), self.room.clone(), self.done.clone());
        tokio::spawn(async move {
            let _turn = room.acquire().await;
            let result = put(&controller.0, &controller.1, &name, &ask).await;
            let _ = done.send(Decided { name, result }).await;
        });
    }

    /// Whether something is being asked about a lease.
    pub fn is_asking(&self, name: &str) -> bool {
        self.open.contains_key(name)
    }

    /// Takes what a question came to, and asks what waits behind it: the lease, and what it has.
    pub fn done(&mut self, decided: Decided) -> Option<(String, Answer)> {
        let Decided { name, result } = decided;
        if let Some((_, Some(next))) = self.open.remove(&name) {
            self.ask(name.clone(), next);
        }
        match result {
            Ok(answer) => {
                self.complained = false;
                Some((name, answer))
            }
            Err(why) => {
                if !std::mem::replace(&mut self.complained, true) {
                    progress(format_args!("the controller decides nothing about leases: {why}"));
                }
                None
            }
        }
    }
}

async fn put(
    settings: &ControllerSettings,
    folder: &std::path::Path,
    name: &str,
    ask: &LeaseAsk,
) -> Result<Answer, String> {
    let uri = format!("/v1/nodes/{}/leases/{}", encoded(&settings.node), encoded(name));
    let answer = async {
        let client = client(settings, folder)?.waiting(PATIENCE);
        Ok::<_, AppError>(client.send(Method::PUT, &uri, Some(&json!(ask))).await?)
    };
    let (status, body) = answer.await.map_err(|error| error.to_string())?;
    // Whatever has these two is a decision, also a refusal.
    let has = serde_json::from_value(body.clone()).map_err(|_| format!("{status}: {body}"))?;
    Ok((has, refusal(&body)))
}

fn refusal(body: &Value) -> Option<Refusal> {
    let refusal = body.get("refusal")?;
    let text = |key: &str| refusal[key].as_str().unwrap_or_default().to_owned();
    let rate = |key: &str| refusal[key].as_u64().unwrap_or(0);
    Some(Refusal {
        code: serde_json::from_value(refusal["code"].clone()).ok()?,
        link: text("link"),
        class: text("class"),
        asked_bps: rate("asked_bps"),
        free_bps: rate("free_bps"),
    })
}

/// Asks about what measured classes lease until the agent is over; questions are put into what is returned.
pub fn measured(
    settings: ControllerSettings,
    folder: PathBuf,
    inlet: Inlet<Input>,
) -> mpsc::UnboundedSender<LinkAsk> {
    // One that is not answered yet waits at most of each class, and the machine asks no more often than it waits.
    let (asks, mut asked) = mpsc::unbounded_channel::<LinkAsk>();
    let (mut asker, mut decided) = Asker::new(settings, folder);
    tokio::spawn(async move {
        loop {
            let (lease, (has, refused)) = tokio::select! {
                Some(ask) = asked.recv() => {
                    let LinkAsk { lease, port, class, number, bps, lifetime_ms } = ask;
                    let (to, port, lifetime_ms) = (String::new(), Some(port), Some(lifetime_ms));
                    asker.ask(lease, LeaseAsk { to, port, class, bps, number, lifetime_ms });
                    continue;
                }
                Some(decided) = decided.recv() => match asker.done(decided) {
                    Some(done) => done,
                    None => continue,
                },
            };
            let refused = refused.map(|refusal| ErrorItem {
                free: Some(refusal.free_bps),
                ..ErrorItem::new(refusal.code, refusal.link, String::new())
            });
            let input = Input::Decided { lease, number: has.number, bps: has.bps, refused };
            if inlet.send(input).await.is_err() {
                return;
            }
        }
    });
    asks
}
