//! What an agent says, in words.

use perhop_bandwidth::Notice;
use perhop_broker::lease::InRouter;
use perhop_broker::reserved::{Item, Notice as OfDomain};
use perhop_units::Rate;

/// What a person reads of it, a line each.
pub(super) fn in_words(notice: &Notice) -> Vec<String> {
    vec![match notice {
        Notice::Allocated { class, rate } => format!("{class}: {rate}"),
        Notice::NoClass { class } => format!("{class}: the router has no such class"),
        Notice::NoPolicy { policy } => format!("{policy}: the router has no such abr policy"),
        Notice::NoRate { link, port } => {
            format!(
                "link {link}: the router has no port {port} with a rate; policies there keep what they have"
            )
        }
        Notice::Assigned { policy, rate, flows } => format!("{policy}: {rate} for {flows} flows"),
        Notice::PortRate { port, rate } => format!("port {port}: {rate}"),
        Notice::Overcommitted { link, promised, available } => {
            format!("link {link}: {promised} is promised and {available} is there; all get less alike")
        }
        Notice::Granted { policy, min } => format!("{policy}: granted, with {min} at least"),
        Notice::NotGranted { policy, code, min, free } => {
            format!("{policy}: {min} refused ({code}), {free} could be promised")
        }
        Notice::Announced { link, rate, .. } => format!("link {link}: {rate} is announced"),
        Notice::NotAnnounced { link, error } => format!("link {link}: {}", error.message),
        Notice::Refused { errors } => {
            return errors
                .iter()
                .map(|error| format!("refused: {}: {}", error.path, error.message))
                .collect();
        }
        Notice::Asks(_) | Notice::Leased(InRouter { refused: None, .. }) => return Vec::new(),
        Notice::NotLeased { class, code, link, asked, free } if link.is_empty() => {
            format!("{class}: {asked} of the domain: {code}, {free} free")
        }
        Notice::NotLeased { class, code, link, asked, free } => {
            format!("{class}: {asked} of the domain: {code}: link {link}, {free} free")
        }
        Notice::Leased(InRouter { class, refused: Some(refusal), .. }) => format!(
            "leases of class {class}: {}: {}: {} asked, {} free",
            refusal.code,
            refusal.link,
            Rate(refusal.asked_bps),
            Rate(refusal.free_bps)
        ),
        Notice::Reserved(notice) => return of_domain(notice),
        Notice::Superseded { .. } => return Vec::new(),
    }]
}

/// The same of what a domain has reserved. How the router stands is for the controller to show.
pub(super) fn of_domain(notice: &OfDomain) -> Vec<String> {
    match notice {
        OfDomain::Standing(_) => Vec::new(),
        OfDomain::NoClass { port, class } => {
            vec![format!("the domain has reserved of class {class} of port {port}, which the router has not")]
        }
        OfDomain::NotReserved { item, errors } => {
            let item = match item {
                Item::Class(class) => format!("the share of class {class}"),
                Item::Flow(id) => format!("reservation {id}"),
            };
            errors
                .iter()
                .map(|error| format!("{item}: {}: {}: {}", error.code, error.path, error.message))
                .collect()
        }
    }
}
