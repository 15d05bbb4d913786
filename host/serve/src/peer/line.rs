//! What is said to one neighbour: one exchange after the other on a connection that is kept, also when there is nothing to say, so
//! that both know whether it is there.

use super::Say;
use super::driver::Question;
use crate::client::{Client, ClientError, KeptConnection, StatusCode};
use perhop_broker::peer::Envelope;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender};

/// Where a controller is told what its neighbours say.
const URI: &str = "/v1/peers/messages";
/// Most messages of one exchange.
pub(crate) const MOST: usize = 256;
/// Something is said so often at least.
const BEAT: Duration = Duration::from_secs(1);
/// A neighbour that has not answered for so long is away.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts to reach one that is away.
const AGAIN: Duration = Duration::from_millis(250);

/// A neighbour as it is reached.
struct Line {
    doors: Vec<Client>,
    /// The door that answered last.
    at: usize,
    connection: Option<KeptConnection>,
}

/// Carries what is put into the queue until that is closed. What is said while the neighbour is away is lost, and what was
/// being said when it went, too: those who asked ask again.
pub(super) async fn run(
    name: String,
    doors: Vec<Client>,
    mut queue: Receiver<Envelope>,
    inlet: Sender<Question>,
    say: Say,
) {
    let doors = doors.into_iter().map(|door| door.waiting(PATIENCE)).collect();
    let mut line = Line { doors, at: 0, connection: None };
    let (mut is_here, mut complained) = (false, false);
    loop {
        let mut envelopes = Vec::new();
        if is_here {
            match tokio::time::timeout(BEAT, queue.recv()).await {
                Ok(None) => return,
                Ok(Some(envelope)) => envelopes.push(envelope),
                Err(_) => {}
            }
            while envelopes.len() < MOST
                && let Ok(envelope) = queue.try_recv()
            {
                envelopes.push(envelope);
            }
        }
        match line.exchange(&json!({ "messages": envelopes })).await {
            Ok(()) if is_here => {}
            Ok(()) => {
                (is_here, complained) = (true, false);
                while queue.try_recv().is_ok() {}
                say(format!("domain {name} is reached"));
                if inlet.send(Question::Reach(name.clone(), true)).await.is_err() {
                    return;
                }
            }
            Err(why) => {
                if !std::mem::replace(&mut complained, true) {
                    say(format!("domain {name} is not reached: {why}"));
                }
                if std::mem::take(&mut is_here)
                    && inlet.send(Question::Reach(name.clone(), false)).await.is_err()
                {
                    return;
                }
                while queue.try_recv().is_ok() {}
                if queue.is_closed() {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

impl Line {
    /// Says something at the door that answered last, or else at the others in turn.
    async fn exchange(&mut self, body: &Value) -> Result<(), String> {
        let mut why = String::from("it has no address");
        if let Some(connection) = &mut self.connection {
            match answer(connection.post(URI, body).await) {
                Ok(()) => return Ok(()),
                Err(because) => why = because,
            }
            self.connection = None;
        }
        for _ in 0..self.doors.len() {
            match self.first(body).await {
                Ok(()) => return Ok(()),
                Err(because) => why = because,
            }
            self.at = (self.at + 1) % self.doors.len();
        }
        Err(why)
    }

    async fn first(&mut self, body: &Value) -> Result<(), String> {
        let mut connection = self.doors[self.at].connect().await.map_err(|e| e.to_string())?;
        answer(connection.post(URI, body).await)?;
        self.connection = Some(connection);
        Ok(())
    }
}

fn answer(answer: Result<(StatusCode, Value), ClientError>) -> Result<(), String> {
    match answer {
        Ok((status, _)) if status.is_success() => Ok(()),
        Ok((status, body)) => {
            let said = body["refusal"]["message"].as_str().or(body["errors"][0]["message"].as_str());
            Err(format!("it answers {status}: {}", said.unwrap_or_default()))
        }
        Err(why) => Err(why.to_string()),
    }
}
