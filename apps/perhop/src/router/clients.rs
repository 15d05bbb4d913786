//! The clients of `[api]` as the numbers by which this host knows their users and groups.

use perhop_config::Diagnostic;
use perhop_io::account::{group_id, user_id};
use perhop_routerfile::{Account, ClientIs as Named, ClientRule as NamedRule, RouterFile};
use perhop_serve::{ClientIs, ClientRule};

/// The rules of a file, in its order.
///
/// # Errors
/// Users and groups that this host does not know, each at its place.
pub fn rules(file: &RouterFile) -> Result<Vec<ClientRule>, Vec<Diagnostic>> {
    let (mut rules, mut unknown) = (Vec::new(), Vec::new());
    for rule in &file.api.clients {
        match on_this_host(rule) {
            Ok(rule) => rules.push(rule),
            Err(why) => unknown.push(file.about_client(rule, &why).hint("Make it, or write its number")),
        }
    }
    if unknown.is_empty() { Ok(rules) } else { Err(unknown) }
}

fn on_this_host(rule: &NamedRule) -> Result<ClientRule, String> {
    let client = match &rule.client {
        Named::User(account) => ClientIs::User(number(account, "user", user_id)?),
        Named::Group(account) => ClientIs::Group(number(account, "group", group_id)?),
    };
    Ok(ClientRule { client, credentials: rule.credentials.clone(), per_second: rule.per_second })
}

fn number(
    account: &Account,
    what: &str,
    find: fn(&str) -> std::io::Result<Option<u32>>,
) -> Result<u32, String> {
    match account {
        Account::Id(id) => Ok(*id),
        Account::Named(name) => match find(name) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(format!("is no {what} of this host")),
            Err(error) => Err(format!("cannot be looked up: {error}")),
        },
    }
}
