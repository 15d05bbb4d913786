//! What RADIUS says, as the sessions of a policy know it, and back.

use super::AccessServer;
use crate::policy::{NotDone, Policies};
use ipnet::IpNet;
use perhop_model::Name;
use perhop_policy::compile::Rates;
use perhop_policy::session::{Arrival, Grant, Refused, SessionRow, Which};
use perhop_radius::{Act, Answer, Authorization, Change, ErrorCause, Record, Status};
use perhop_units::Duration;

/// By whom a session is reported.
pub(super) fn source(server: &AccessServer) -> String {
    format!("radius:{}", server.name)
}

/// Puts on record what an access server says.
pub(super) async fn account(policies: &Policies, server: &AccessServer, record: Record) -> Answer {
    let Some((router, _)) = &server.place else { return Answer::Done };
    let octets = record.sent.saturating_add(record.received);
    let done = match record.status {
        Status::On | Status::Off => policies.restarted(router.clone(), record.delayed).await.map(|()| 0),
        Status::Stop => {
            let which = Which::Session { router: router.clone(), id: record.session };
            policies.left(which, Some(octets)).await
        }
        Status::Start | Status::Interim => match arrival(policies, server, &record).await {
            None => Ok(0),
            Some(arrival) if record.status == Status::Start => policies.came(arrival).await,
            Some(arrival) => policies.used(arrival, octets).await,
        },
    };
    match done {
        Ok(_) => Answer::Done,
        // To say it again would change nothing.
        Err(NotDone::User(refused)) if !matches!(refused, Refused::NotWritten | Refused::Overload) => {
            Answer::Done
        }
        Err(_) => Answer::Failed,
    }
}

/// Who came where; `None` if its name is none that a policy could have.
async fn arrival(policies: &Policies, server: &AccessServer, record: &Record) -> Option<Arrival> {
    let subscriber = Name::new(&record.user).ok()?;
    let (router, usual) = server.place.clone()?;
    let named = record.port.as_deref().and_then(|port| Name::new(port).ok());
    let policy = policies.in_force().await.ok()?.policy;
    let ports = policy.routers.get(&router).map(|of| &of.ports);
    let port = named.filter(|port| ports.is_some_and(|ports| ports.contains_key(port))).unwrap_or(usual);
    Some(Arrival {
        subscriber,
        id: record.session.clone(),
        router,
        port,
        prefixes: record.address.map(IpNet::from).into_iter().collect(),
        source: source(server),
        grant: grant(&record.authorization, None, None),
        age: record.delayed,
    })
}

fn grant(of: &Authorization, session_timeout: Option<Duration>, idle_timeout: Option<Duration>) -> Grant {
    Grant {
        sla: of.sla.as_deref().and_then(|sla| Name::new(sla).ok()),
        rates: Rates { up: of.up, down: of.down },
        session_timeout,
        idle_timeout,
    }
}

/// Does what somebody wants of a session. All that is said of it must be so.
pub(super) async fn change(policies: &Policies, server: &AccessServer, change: Change) -> Answer {
    let named = change.user.as_deref().map(Name::new).transpose();
    let Ok(user) = named else { return Answer::Refused(ErrorCause::SessionContextNotFound) };
    let router = server.place.as_ref().map(|(router, _)| router.clone());
    let which = match (user, router, &change.session) {
        (Some(name), ..) => match policies.session(name.clone()).await {
            Err(_) => return Answer::Failed,
            Ok(Some(row)) if is_meant(&row, &change) => Which::Subscriber { name, moves: Some(row.moves) },
            Ok(_) => return Answer::Refused(ErrorCause::SessionContextNotFound),
        },
        (None, Some(router), Some(id)) => Which::Session { router, id: id.clone() },
        // A session's name is of one access server, and addresses alone are not looked for.
        (None, ..) => return Answer::Refused(ErrorCause::SessionContextNotFound),
    };
    let done = match change.act {
        Act::Disconnect => policies.left(which, None).await,
        Act::Authorize { authorization, session_timeout, idle_timeout } => {
            policies.grant(which, grant(&authorization, session_timeout, idle_timeout)).await
        }
    };
    match done {
        Ok(_) => Answer::Done,
        Err(NotDone::User(Refused::NotWritten | Refused::Overload)) => Answer::Failed,
        Err(NotDone::User(refused)) => Answer::Refused(ErrorCause::of_code(refused.code())),
        Err(_) => Answer::Failed,
    }
}

fn is_meant(row: &SessionRow, change: &Change) -> bool {
    change.session.as_ref().is_none_or(|id| *id == row.id)
        && change.address.is_none_or(|address| row.prefixes.iter().any(|net| net.contains(&address)))
}

/// What an access server is told of a session that has another contract here.
pub(super) fn authorized(row: &SessionRow) -> Change {
    let authorization =
        Authorization { sla: Some(row.sla.to_string()), up: row.rates.up, down: row.rates.down };
    Change { act: Act::Authorize { authorization, session_timeout: None, idle_timeout: None }, ..of(row) }
}

/// What an access server is told of a session that has ended here.
pub(super) fn ended(row: &SessionRow) -> Change {
    of(row)
}

fn of(row: &SessionRow) -> Change {
    Change {
        user: Some(row.subscriber.to_string()),
        session: Some(row.id.clone()),
        address: None,
        act: Act::Disconnect,
    }
}
