//! Tells access servers what has changed here of their sessions: another contract counts, or the session is over.

use super::door::known;
use super::words::{authorized, ended, source};
use super::{AccessServer, RadiusError, RadiusNews, Say};
use crate::controller::Seat;
use crate::domain::woken;
use crate::policy::SessionNews;
use perhop_io::clock;
use perhop_radius::{Client, ClientInput as Input, ClientOutput as Output, MAX_PACKET, Patience, Verdict};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// Whether somebody leads here is looked at this often.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Outward {
    socket: UdpSocket,
    client: Client,
}

impl Outward {
    /// For those that are told at all, by addresses of one family; none if nobody is.
    pub(super) async fn open(servers: &BTreeMap<String, AccessServer>) -> Result<Option<Self>, RadiusError> {
        let told: Vec<SocketAddr> = servers.values().filter_map(|server| server.changes).collect();
        let Some(first) = told.first() else { return Ok(None) };
        let local = told.iter().all(|to| to.ip().is_loopback());
        let address: IpAddr = match (first.is_ipv4(), local) {
            (true, true) => Ipv4Addr::LOCALHOST.into(),
            (true, false) => Ipv4Addr::UNSPECIFIED.into(),
            (false, true) => Ipv6Addr::LOCALHOST.into(),
            (false, false) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let address = SocketAddr::new(address, 0);
        let socket = UdpSocket::bind(address).await.map_err(|source| RadiusError { address, source })?;
        // Where they are told may be another address than that which they send from.
        let mut all = known(servers);
        for server in servers.values() {
            let nas = all.get(&server.address).cloned();
            all.extend(server.changes.map(|to| to.ip()).zip(nas));
        }
        let client = Client::new(all, Patience::default(), 0, clock::wall().0);
        Ok(Some(Self { socket, client }))
    }

    pub(super) async fn run(
        mut self,
        servers: Arc<BTreeMap<String, AccessServer>>,
        seat: Seat,
        say: Say,
        mut stop: watch::Receiver<bool>,
    ) {
        let by_source: HashMap<String, &AccessServer> =
            servers.values().map(|server| (source(server), server)).collect();
        let mut asked: HashMap<u64, (String, String)> = HashMap::new();
        let mut ticket = 0;
        let mut news: Option<broadcast::Receiver<Arc<SessionNews>>> = None;
        let mut octets = vec![0; MAX_PACKET + 1];
        loop {
            if news.is_none()
                && let Ok(led) = seat.led()
                && let Ok(policies) = led.policies()
            {
                news = policies.session_news().await.ok();
            }
            let input = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                got = self.socket.recv_from(&mut octets) => match got {
                    Ok((length, from)) => Input::Datagram { from, bytes: octets[..length].to_vec() },
                    Err(_) => continue,
                },
                heard = hear(&mut news) => match heard {
                    Some(what) => {
                        let (row, change) = match &*what {
                            SessionNews::Ended(row, _) => (row, ended(row)),
                            SessionNews::Changed(row) => (row, authorized(row)),
                        };
                        let server = by_source.get(&row.source);
                        let Some((server, to)) = server.and_then(|of| Some((*of, of.changes?))) else {
                            continue;
                        };
                        ticket += 1;
                        asked.insert(ticket, (server.name.clone(), row.id.clone()));
                        Input::Ask { ticket, to, change: Box::new(change) }
                    }
                    None => continue,
                },
                () = woken(self.client.next_wakeup()) => Input::Tick,
            };
            self.client.handle_input(clock::wall(), input);
            while let Some(output) = self.client.poll_output() {
                match output {
                    // It is sent again.
                    Output::Send { to, bytes } => drop(self.socket.send_to(&bytes, to).await),
                    Output::Done { ticket, verdict } => {
                        let of = asked.remove(&ticket);
                        if let (Some((server, session)), Some(why)) = (of, failed(verdict)) {
                            say(RadiusNews::NotTold { server, session, why });
                        }
                    }
                }
            }
        }
    }
}

/// What became of a session; `None` if nothing is to be heard now.
async fn hear(news: &mut Option<broadcast::Receiver<Arc<SessionNews>>>) -> Option<Arc<SessionNews>> {
    let Some(from) = news else {
        tokio::time::sleep(LOOK).await;
        return None;
    };
    match from.recv().await {
        Ok(what) => Some(what),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => {
            *news = None;
            None
        }
    }
}

fn failed(verdict: Verdict) -> Option<String> {
    Some(match verdict {
        Verdict::Done => return None,
        // It has no such session any more: that is what was wanted, or it will say so itself.
        Verdict::Refused(Some(503)) => return None,
        Verdict::Refused(cause) => format!("it refuses, with cause {}", cause.unwrap_or(0)),
        Verdict::Unanswered => "it does not answer".to_owned(),
        Verdict::Stranger => "nothing is shared with it".to_owned(),
        Verdict::TooMany => "too many changes wait for it".to_owned(),
        Verdict::TooLong(why) => why.to_string(),
    })
}
