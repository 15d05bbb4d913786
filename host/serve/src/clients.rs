//! Who the clients of a door are, and what each of them may do: the server's own user and root everything, others what
//! the rules say, the first that fits counting.

use crate::directory::own_uid;
use perhop_model::{Credentials, Role, Speaks};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// Whom a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientIs {
    /// Processes of the user with this number.
    User(u32),
    /// Processes of the group with this number, be it their first or another.
    Group(u32),
}

/// What certain clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// Whom it is for.
    pub client: ClientIs,
    /// What they may do.
    pub credentials: Credentials,
    /// Requests a second that change something or check a change, of all its clients together; none = no limit.
    pub per_second: Option<u32>,
}

/// The rules of a door. They can be changed while it is open: its clients' next requests are judged by the new ones.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    rules: Arc<RwLock<Arc<[Rule]>>>,
}

#[derive(Debug)]
struct Rule {
    given: ClientRule,
    budget: Mutex<Budget>,
}

/// Requests that may be made at once: those of one second, and not less than one.
#[derive(Debug)]
struct Budget {
    left_ns: u64,
    at: Instant,
}

/// One second, ns: what requests cost together if there are as many as a second may have.
const SECOND: u64 = 1_000_000_000;

/// A process at the other end of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) user: u32,
    /// First and supplementary ones.
    pub(crate) groups: Arc<[u32]>,
}

/// What a client may do just now.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// It is the server's own user, or root.
    Own,
    /// No rule is for it.
    Unknown,
    /// A rule is.
    Ruled(Credentials),
    /// It came over the network: the interface knows who that may be.
    Guest,
}

impl Standing {
    /// `None`: it may do nothing.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        match self {
            Self::Own => Some(Credentials::ADMIN),
            Self::Unknown | Self::Guest => None,
            Self::Ruled(credentials) => Some(credentials.clone()),
        }
    }
}

impl Clients {
    /// These rules from now on; what limits on requests had left is forgotten. Without any, whoever can open the socket
    /// may read.
    pub fn set(&self, rules: Vec<ClientRule>) {
        let now = Instant::now();
        let rule = |given| Rule { given, budget: Mutex::new(Budget { left_ns: SECOND, at: now }) };
        let rules: Arc<[Rule]> = rules.into_iter().map(rule).collect();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Whether only those may use the door whom a rule is for.
    pub fn are_named(&self) -> bool {
        !self.current().is_empty()
    }

    fn current(&self) -> Arc<[Rule]> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn standing(&self, process: Option<&Process>, own: u32) -> Standing {
        if process.is_some_and(|p| p.is_own(own)) {
            return Standing::Own;
        }
        let rules = self.current();
        if rules.is_empty() {
            return Standing::Ruled(Credentials { role: Role::Read, speaks: Speaks::ForAll });
        }
        let rule = process.and_then(|p| rule_for(&rules, p));
        rule.map_or(Standing::Unknown, |rule| Standing::Ruled(rule.given.credentials.clone()))
    }

    /// What the process may do here; `None` if nothing.
    pub(crate) fn credentials(&self, process: Option<&Process>) -> Option<Credentials> {
        self.standing(process, own_uid()).credentials()
    }

    /// Counts a request that changes something.
    ///
    /// # Errors
    /// There have been too many; in so many ms there is room for one.
    pub(crate) fn spend(&self, process: Option<&Process>, own: u32, now: Instant) -> Result<(), u64> {
        let rules = self.current();
        let rule = process.filter(|p| !p.is_own(own)).and_then(|p| rule_for(&rules, p));
        let Some((rule, per_second)) = rule.and_then(|rule| Some((rule, rule.given.per_second?))) else {
            return Ok(());
        };
        rule.budget.lock().unwrap_or_else(PoisonError::into_inner).spend(now, per_second)
    }
}

/// The first rule that fits counts.
fn rule_for<'r>(rules: &'r [Rule], process: &Process) -> Option<&'r Rule> {
    rules.iter().find(|rule| rule.given.client.is(process))
}

impl Process {
    /// Whether it is root's, or of the user who has the door.
    fn is_own(&self, own: u32) -> bool {
        self.user == 0 || self.user == own
    }
}

impl ClientIs {
    fn is(self, process: &Process) -> bool {
        match self {
            Self::User(user) => process.user == user,
            Self::Group(group) => process.groups.contains(&group),
        }
    }
}

impl Budget {
    fn spend(&mut self, now: Instant, per_second: u32) -> Result<(), u64> {
        let passed = u64::try_from(now.saturating_duration_since(self.at).as_nanos()).unwrap_or(SECOND);
        self.left_ns = self.left_ns.saturating_add(passed).min(SECOND);
        self.at = now;
        let cost = SECOND / u64::from(per_second.max(1));
        match self.left_ns.checked_sub(cost) {
            Some(left) => {
                self.left_ns = left;
                Ok(())
            }
            None => Err((cost - self.left_ns).div_ceil(1_000_000).max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::Owner;
    use std::time::Duration;

    const OWN: u32 = 900;

    fn process(user: u32, groups: &[u32]) -> Process {
        Process { user, groups: groups.into() }
    }

    fn rules() -> Vec<ClientRule> {
        let writer = Credentials::writer(Owner::Agent);
        let reader = Credentials { role: Role::Read, speaks: Speaks::ForAll };
        vec![
            ClientRule { client: ClientIs::User(1000), credentials: writer, per_second: Some(10) },
            ClientRule { client: ClientIs::Group(50), credentials: reader, per_second: None },
            ClientRule { client: ClientIs::User(1001), credentials: Credentials::ADMIN, per_second: None },
        ]
    }

    fn may(clients: &Clients, user: u32, groups: &[u32]) -> Option<Credentials> {
        clients.standing(Some(&process(user, groups)), OWN).credentials()
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_without_one_nothing_is_allowed() {
        let clients = Clients::default();
        assert_eq!(may(&clients, 1000, &[]).map(|c| c.role), Some(Role::Read), "no rules: anybody reads");
        clients.set(rules());
        assert_eq!(may(&clients, 1000, &[50]), Some(Credentials::writer(Owner::Agent)));
        assert_eq!(
            may(&clients, 1001, &[7, 50]).map(|c| c.role),
            Some(Role::Read),
            "the group's comes first"
        );
        assert_eq!(may(&clients, 1001, &[7]), Some(Credentials::ADMIN));
        assert_eq!(may(&clients, 1002, &[7]), None);
        for own in [0, OWN] {
            assert_eq!(may(&clients, own, &[50]), Some(Credentials::ADMIN));
        }
        assert!(clients.standing(None, OWN).credentials().is_none(), "nobody is known to be there");
        clients.set(Vec::new());
        assert_eq!(may(&clients, 1002, &[7]).map(|c| c.role), Some(Role::Read));
    }

    #[test]
    fn so_many_requests_a_second_are_taken_and_no_more() {
        let clients = Clients::default();
        clients.set(rules());
        let (start, client) = (Instant::now(), process(1000, &[]));
        let mut taken = 0_u64;
        // Tried every ms for ten seconds.
        for ms in 0..10_000 {
            taken += u64::from(clients.spend(Some(&client), OWN, start + Duration::from_millis(ms)).is_ok());
        }
        assert_eq!(taken, 10 + 99, "the first second's at once, then one each 100 ms");
        let now = start + Duration::from_millis(10_000);
        clients.spend(Some(&client), OWN, now).expect("its turn");
        assert_eq!(clients.spend(Some(&client), OWN, now), Err(100));
        clients.spend(Some(&client), OWN, now + Duration::from_millis(100)).expect("as was said");
        for free in [process(0, &[]), process(1001, &[])] {
            for _ in 0..1_000 {
                clients.spend(Some(&free), OWN, now).expect("no limit");
            }
        }
    }
}
