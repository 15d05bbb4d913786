//! Questions about leases, put to the controller: one at a time about each.

use super::domain::client;
use crate::error::AppError;
use crate::output::progress;
use crate::reserve::encoded;
use perhop_bandwidth::ControllerSettings;
use perhop_broker::lease::{Ask, Decision, Refusal};
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

/// A question has come to its end: what was decided, if anything.
pub struct Decided {
    name: String,
    result: Result<Decision, String>,
}

/// See the module.
pub struct Asker {
    controller: Arc<(ControllerSettings, PathBuf)>,
    /// By lease: the number that is being asked, and what is to be asked then.
    open: BTreeMap<String, (u64, Option<Ask>)>,
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

    /// Asks, unless that is being asked.
    pub fn ask(&mut self, name: String, ask: Ask) {
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
            let result = put(&controller.0, &controller.1, &name, ask).await;
            let _ = done.send(Decided { name, result }).await;
        });
    }

    /// Takes what a question came to, and asks what waits behind it.
    pub fn done(&mut self, decided: Decided) -> Option<Decision> {
        if let Some((_, Some(next))) = self.open.remove(&decided.name) {
            self.ask(decided.name, next);
        }
        match decided.result {
            Ok(decision) => {
                self.complained = false;
                Some(decision)
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
    ask: Ask,
) -> Result<Decision, String> {
    let Ask { lease, number, bps, lifetime } = ask;
    let body = LeaseAsk {
        to: lease.to.clone().unwrap_or_default(),
        class: lease.class.clone(),
        bps,
        number,
        lifetime_ms: Some(lifetime.as_nanos() / 1_000_000),
    };
    let uri = format!("/v1/nodes/{}/leases/{}", encoded(&settings.node), encoded(name));
    let answer = async {
        let client = client(settings, folder)?.waiting(PATIENCE);
        Ok::<_, AppError>(client.send(Method::PUT, &uri, Some(&json!(body))).await?)
    };
    let (status, body) = answer.await.map_err(|error| error.to_string())?;
    // Whatever has these two is a decision, also a refusal.
    let LeaseHas { number, bps } =
        serde_json::from_value(body.clone()).map_err(|_| format!("{status}: {body}"))?;
    Ok(Decision { lease, number, has: bps, refused: refusal(&body) })
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
