//! Between trees and a policy. A profile of a tree is a customer's: here it is a subscriber that is always at its interface,
//! with a contract and a profile of the same name; its addresses are the sources of its filters.

use super::text::{action, action_text, condition, ports, prefix, protocol, tos};
use super::{Contents, Fault, Parameters, TreeError, escaped, wrong};
use crate::model::{
    Action, At, Class, ClassFilter, Policy, PortPattern, Profile, ProfileFilter, Router, Sla, Subscriber,
};
use crate::validate::Section;
use ipnet::IpNet;
use perhop_model::{FilterMatch, MeterSpec, Name, SlaPolicy};
use perhop_units::{Bytes, QueueLimit, Rate, Share};
use std::collections::{BTreeMap, BTreeSet};

/// Something of a policy that a tree cannot say, and is not in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsaid {
    /// Kind.
    pub section: Section,
    /// Which.
    pub name: Name,
}

/// First priority; larger is first there, and smaller here.
const FIRST_PRIORITY: u8 = 15;

/// The policy of a router that has this in force. `ports` are its ports, and those of `output` have the classes.
///
/// # Errors
/// Everything that is none of its parameter. Whether the policy is sound is for its own checks to say.
pub fn to_policy(
    contents: &Contents,
    router: &Name,
    ports: &BTreeMap<Name, Rate>,
    output: &BTreeSet<Name>,
) -> Result<Policy, Vec<TreeError>> {
    let mut errors = Vec::new();
    let mut policy = Policy::default();
    policy.routers.insert(router.clone(), Router { ports: ports.clone() });
    let on: Vec<PortPattern> = output
        .iter()
        .map(|port| PortPattern { router: Some(router.clone()), port: Some(port.clone()) })
        .collect();
    for (name, parameters) in &contents.classes {
        let mut read = Read::new(format!("class/{}", escaped(name)), parameters, &mut errors);
        let class = class(&mut read, &on);
        policy.classes.extend(Name::new(name).ok().map(|name| (name, class)));
    }
    for (order, ((of, name), parameters)) in (1u32..).zip(&contents.class_filters) {
        let path = format!("class_filter/{}/{}", escaped(of), escaped(name));
        let matches = Read::new(path, parameters, &mut errors).condition();
        let filter = Name::new(of).ok().map(|class| ClassFilter {
            routers: vec![router.clone()],
            tier: crate::model::CLASS_TIER,
            priority: order * 10,
            matches,
            class,
            realtime: None,
        });
        policy.filters.extend(Name::new(name).ok().zip(filter));
    }
    for (name, parameters) in &contents.profiles {
        let mut read = Read::new(format!("profile/{}", escaped(name)), parameters, &mut errors);
        let interface = read.value("interface", "a port", |text| Name::new(text).ok());
        let (mut profile, rate) = profile(&mut read);
        let mut prefixes = BTreeSet::new();
        let own = contents.profile_filters.range((name.clone(), String::new())..);
        for (order, ((_, filter), parameters)) in (1u32..).zip(own.take_while(|((of, _), _)| of == name)) {
            let path = format!("profile_filter/{}/{}", escaped(name), escaped(filter));
            let matches = Read::new(path, parameters, &mut errors).condition();
            prefixes.extend(matches.src);
            let spec = ProfileFilter { priority: order * 10, matches, class: None };
            profile.filters.extend(Name::new(filter).ok().map(|filter| (filter, spec)));
        }
        let (Ok(name), Some(port)) = (Name::new(name), interface) else { continue };
        let everything = || [IpNet::new_assert(std::net::Ipv4Addr::UNSPECIFIED.into(), 0)].into();
        let prefixes: BTreeSet<IpNet> = if prefixes.is_empty() { everything() } else { prefixes };
        let sla = Sla { rate, policy: SlaPolicy::Ok, profile: Some(name.clone()), ..Sla::default() };
        let at = Some(At { router: router.clone(), port });
        let subscriber = Subscriber { sla: name.clone(), prefixes: prefixes.into_iter().collect(), at };
        policy.profiles.insert(name.clone(), profile);
        policy.slas.insert(name.clone(), sla);
        policy.subscribers.insert(name, subscriber);
    }
    if errors.is_empty() { Ok(policy) } else { Err(errors) }
}

/// What a router has because of a policy, as a tree says it, and what it cannot say. Subscribers that log in are not in it: their
/// profiles come with a modification.
pub fn from_policy(policy: &Policy, router: &Name) -> (Contents, Vec<Unsaid>) {
    let (mut out, mut unsaid) = (Contents::default(), BTreeSet::new());
    let mut lose = |section, name: &Name| {
        unsaid.insert(Unsaid { section, name: name.clone() });
    };
    let here = |class: &Class| policy.ports_of(class).any(|(at, _)| at == router);
    for (name, class) in policy.classes.iter().filter(|(_, class)| here(class)) {
        match class_parameters(class) {
            Some(parameters) => drop(out.classes.insert(name.to_string(), parameters)),
            None => lose(Section::Class, name),
        }
    }
    for (name, filter) in &policy.filters {
        let is_here = filter.routers.is_empty() || filter.routers.contains(router);
        let class = filter.class.to_string();
        if !is_here || !out.classes.contains_key(&class) {
            continue;
        }
        match condition(&filter.matches).filter(|_| filter.matches.in_port.is_none()) {
            Some(parameters) => drop(out.class_filters.insert((class, name.to_string()), parameters)),
            None => lose(Section::Filter, name),
        }
    }
    let default = policy.defaults().next();
    for (name, subscriber) in &policy.subscribers {
        let Some(at) = subscriber.at.as_ref().filter(|at| at.router == *router) else { continue };
        let profile =
            policy.slas.get(&subscriber.sla).and_then(|sla| policy.profiles.get(sla.profile.as_ref()?));
        let Some(parameters) = profile.and_then(|profile| profile_parameters(profile, &at.port, default))
        else {
            lose(Section::Subscriber, name);
            continue;
        };
        out.profiles.insert(name.to_string(), parameters);
        for (filter, spec) in profile.into_iter().flat_map(|profile| &profile.filters) {
            match condition(&spec.matches).filter(|_| spec.class.is_none()) {
                Some(parameters) => {
                    drop(out.profile_filters.insert((name.to_string(), filter.to_string()), parameters));
                }
                None => lose(Section::Subscriber, name),
            }
        }
    }
    (out, unsaid.into_iter().collect())
}

/// Reads parameters and collects what is wrong.
struct Read<'a> {
    folder: String,
    parameters: &'a Parameters,
    errors: &'a mut Vec<TreeError>,
}

impl<'a> Read<'a> {
    fn new(folder: String, parameters: &'a Parameters, errors: &'a mut Vec<TreeError>) -> Self {
        Self { folder, parameters, errors }
    }

    fn value<T>(
        &mut self,
        name: &'static str,
        allowed: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = read(self.parameters.get(name).map_or("", String::as_str));
        if value.is_none() {
            self.errors.push(wrong(format!("{}/{name}", self.folder), Fault::Value(allowed)));
        }
        value
    }

    fn number(&mut self, name: &'static str, allowed: &'static str, most: u64) -> u64 {
        self.value(name, allowed, |text| text.parse().ok().filter(|number| *number <= most)).unwrap_or(0)
    }

    /// A number that may be absent: an empty file.
    fn perhaps(&mut self, name: &'static str) -> Option<u64> {
        let read = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        self.value(name, "a number, or nothing", read).flatten()
    }

    fn condition(mut self) -> FilterMatch {
        FilterMatch {
            dst: self.value("dst", "a prefix, or 0", prefix).flatten(),
            dst_ports: self.value("dst_port", "a port, FIRST-LAST, or 0", ports).flatten(),
            src: self.value("src", "a prefix, or 0", prefix).flatten(),
            src_ports: self.value("src_port", "a port, FIRST-LAST, or 0", ports).flatten(),
            protocol: self.value("protocol", "0 to 255", protocol).flatten(),
            dscp: self.value("tos", "an octet, VALUE/MASK, or 0; without the two lowest bits", tos).flatten(),
            ..FilterMatch::default()
        }
    }
}

fn class(read: &mut Read<'_>, on: &[PortPattern]) -> Class {
    let parent = |text: &str| if text == "NULL" { Some(None) } else { Name::new(text).ok().map(Some) };
    let guarantee = Share::Rate(Rate(read.number("bandwidth", "bit/s", Rate::MOST.0)));
    let priority = read.number("priority", "0 to 15", u64::from(FIRST_PRIORITY)) as u8;
    let borrows = read.number("borrow", "0 or 1", 1) == 1;
    let queue = read.number("queue", "packets, or 0", 1_000_000) as u32;
    Class {
        ports: on.to_vec(),
        parent: read.value("parent", "a class, or NULL", parent).flatten(),
        guarantee,
        ceiling: (!borrows).then_some(guarantee),
        tier: FIRST_PRIORITY - priority,
        queue: (queue > 0).then_some(QueueLimit::Packets(queue)),
        ..Class::default()
    }
}

fn class_parameters(class: &Class) -> Option<Parameters> {
    let Share::Rate(rate) = class.guarantee else { return None };
    let borrow = match class.ceiling {
        None => "1",
        Some(ceiling) if ceiling == class.guarantee => "0",
        Some(_) => return None,
    };
    let queue = match class.queue {
        None => 0,
        Some(QueueLimit::Packets(packets)) => packets,
        Some(_) => return None,
    };
    let is_more = class.weight != 1 || class.default || !class.dscp.is_empty() || class.tier > FIRST_PRIORITY;
    let parent = class.parent.as_ref().map_or("NULL".to_owned(), Name::to_string);
    let texts = [
        ("parent", parent),
        ("bandwidth", rate.0.to_string()),
        ("priority", FIRST_PRIORITY.saturating_sub(class.tier).to_string()),
        ("borrow", borrow.to_owned()),
        ("queue", queue.to_string()),
    ];
    (!is_more).then(|| texts.into())
}

/// A profile, and the rate of a contract that lets through what it does.
fn profile(read: &mut Read<'_>) -> (Profile, Rate) {
    let [cir, cbs, pir, pbs] = ["cir", "cbs", "pir", "pbs"].map(|name| read.perhaps(name));
    let bytes = |size: Option<u64>| Bytes(size.unwrap_or(0));
    let meter = match (cir, pir) {
        (None, _) => MeterSpec::None,
        (Some(cir), None) => MeterSpec::TokenBucket { cir: Rate(cir), cbs: bytes(cbs) },
        (Some(cir), Some(pir)) => MeterSpec::Trtcm {
            cir: Rate(cir),
            cbs: bytes(cbs),
            pir: Rate(pir),
            pbs: bytes(pbs),
            aware: false,
        },
    };
    let [green, yellow, red] = ["green", "yellow", "red"].map(|colour| {
        let allowed = "pass, drop, mark OCTET or class CLASS";
        read.value(colour, allowed, action).unwrap_or(Action::Pass)
    });
    (Profile { meter, green, yellow, red, filters: BTreeMap::new() }, Rate::MOST)
}

fn profile_parameters(profile: &Profile, port: &Name, default: Option<&Name>) -> Option<Parameters> {
    let text = |number: u64| number.to_string();
    let [cir, cbs, pir, pbs] = match profile.meter {
        MeterSpec::None => [const { String::new() }; 4],
        MeterSpec::TokenBucket { cir, cbs } => [text(cir.0), text(cbs.0), String::new(), String::new()],
        MeterSpec::Trtcm { cir, cbs, pir, pbs, aware: false } => {
            [text(cir.0), text(cbs.0), text(pir.0), text(pbs.0)]
        }
        _ => return None,
    };
    let texts = [
        ("interface", port.to_string()),
        ("cir", cir),
        ("cbs", cbs),
        ("pir", pir),
        ("pbs", pbs),
        ("green", action_text(&profile.green, default)?),
        ("yellow", action_text(&profile.yellow, default)?),
        ("red", action_text(&profile.red, default)?),
    ];
    Some(texts.into())
}
