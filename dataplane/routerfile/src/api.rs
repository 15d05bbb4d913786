//! `[api]`: who besides the router's own user and root may use its socket, and for what.
//!
//! | key of `[[api.clients]]` | value | default | range |
//! |---|---|---|---|
//! | `user`, `group` | name or number of a user or a group of this host | one of them is needed | |
//! | `role` | `read`, `write`, `admin` | `read` | |
//! | `owners` | owners that it speaks for: `agent`, `cli`, `api:NAME`, `tcapi:NAME`, or the beginning of a name and `*` | every one for `admin`, needed for `write` | up to 64 |
//! | `per_second` | requests a second that change something or check a change | no limit | 1 – 1,000,000 |

use crate::value::{account, owner_pattern};
use perhop_config::{Diagnostic, Document, Location, TableReader};
use perhop_model::{Credentials, Role, Speaks};

/// Most entries of `clients`.
const MAX_CLIENTS: usize = 256;
/// Most entries of `owners`.
const MAX_OWNERS: usize = 64;

/// A user or a group, by name or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// The number.
    Id(u32),
    /// The name, as the host's name service knows it.
    Named(String),
}

/// Whom an entry is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIs {
    /// Processes of a user.
    User(Account),
    /// Processes of a group, be it their first or another.
    Group(Account),
}

/// One entry: the first that fits a client says what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// Whom it is for.
    pub client: ClientIs,
    /// What they may do.
    pub credentials: Credentials,
    /// Requests a second that change something or check a change, of all its clients together; none = no limit.
    pub per_second: Option<u32>,
    at: Location,
}

/// `[api]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiSettings {
    /// `clients`: none = whoever can open the socket may read. With any, only these may use it.
    pub clients: Vec<ClientRule>,
}

impl ClientRule {
    /// What there is to say against it, at its place.
    #[must_use = "push it to the diagnostics"]
    pub(crate) fn error(&self, document: &Document, message: &str) -> Diagnostic {
        let key = match self.client {
            ClientIs::User(_) => "user",
            ClientIs::Group(_) => "group",
        };
        document.error(document.lookup(self.at, key), message)
    }
}

/// Reads `[api]`.
pub(super) fn api(root: &mut TableReader<'_>) -> ApiSettings {
    let mut settings = ApiSettings::default();
    let Some(mut table) = root.table("api") else { return settings };
    let clients = table.tables("clients");
    if clients.len() > MAX_CLIENTS {
        let d = table.error("clients", "are too many").allowed(format!("at most {MAX_CLIENTS}"));
        table.diagnostics().push(d);
    }
    for mut client in clients {
        settings.clients.extend(rule(&mut client));
        client.finish();
    }
    table.finish();
    settings
}

fn rule(table: &mut TableReader<'_>) -> Option<ClientRule> {
    let client = client(table);
    let roles = [("read", Role::Read), ("write", Role::Write), ("admin", Role::Admin)];
    let before = table.diagnostics().errors();
    let role = table.choice("role", &roles).map_or(Role::Read, |r| r.value);
    let owners = table.values_with("owners", "an owner", owner_pattern);
    // What could not be read is not judged besides.
    let is_read = table.diagnostics().errors() == before;
    let speaks = match (owners, role) {
        (Some(list), _) => {
            if is_read && !(1..=MAX_OWNERS).contains(&list.value.len()) {
                let d = table.error("owners", "has none or too many").allowed(format!("1 to {MAX_OWNERS}"));
                table.diagnostics().push(d);
            }
            if is_read && role == Role::Read {
                let d = table.error("owners", "has no meaning for who may only read");
                table.diagnostics().push(d.hint("Say role = \"write\", or leave it out"));
            }
            Speaks::ForThese(list.value.into_iter().map(|p| p.value).collect())
        }
        (None, Role::Admin) => Speaks::ForAll,
        (None, Role::Write) => {
            table.require("owners", "[\"agent\"]");
            Speaks::ForThese([].into())
        }
        // To ask what a change would do.
        (None, Role::Read) => Speaks::ForAll,
    };
    let per_second = table.integer("per_second", 1..=1_000_000).map(|n| n.value as u32);
    let credentials = Credentials { role, speaks };
    Some(ClientRule { client: client?, credentials, per_second, at: table.location() })
}

fn client(table: &mut TableReader<'_>) -> Option<ClientIs> {
    let user = table.value_with("user", "a user's name or number", account).map(|a| a.value);
    let group = table.value_with("group", "a group's name or number", account).map(|a| a.value);
    match (user, group) {
        (Some(user), None) => Some(ClientIs::User(user)),
        (None, Some(group)) => Some(ClientIs::Group(group)),
        (Some(_), Some(_)) => {
            let d = table.error("group", "is given beside a user");
            table.diagnostics().push(d.hint("Make two entries: the first that fits counts"));
            None
        }
        (None, None) => {
            if !table.has("user") && !table.has("group") {
                table.require("user", "\"perhop-agent\"");
            }
            None
        }
    }
}
