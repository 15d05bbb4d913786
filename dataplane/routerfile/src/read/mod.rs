//! From tables to specifications: one file a kind.

mod abr;
mod admission;
mod class;
mod early;
mod filter;
mod port;
mod profile;
mod queue;
mod rest;

pub(crate) use queue::{keeps_short, key_of};

use super::names::{Named, Names};
use super::settings::RouterSettings;
use super::{Declared, MAX_OBJECTS, value};
use perhop_config::{Location, Spanned, TableReader};
use perhop_model::{
    AbrPolicySpec, ClassSpec, DetectorSpec, FilterSpec, Name, Owner, PortSpec, ProfileSpec, RouteSpec,
    SlaSpec,
};
use perhop_units::{Bytes, Dscp};
use std::collections::BTreeMap;

/// Everything a file declares. Objects with errors are there as far as they could be read.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) ports: Vec<Declared<PortSpec>>,
    /// Of these, TUN interfaces of the router's own.
    pub(crate) tun_ports: Vec<Name>,
    pub(crate) classes: Vec<Declared<ClassSpec>>,
    pub(crate) profiles: Vec<Declared<ProfileSpec>>,
    pub(crate) slas: Vec<Declared<SlaSpec>>,
    pub(crate) filters: Vec<Declared<FilterSpec>>,
    pub(crate) routes: Vec<Declared<RouteSpec>>,
    pub(crate) abr: Vec<Declared<AbrPolicySpec>>,
    pub(crate) detector: Option<Declared<DetectorSpec>>,
    /// `detector.calls`: calls that the real-time class is meant for.
    pub(crate) calls: u32,
    /// Something that could not be read at all, so that what seems unused or absent may not be.
    pub(crate) incomplete: bool,
}

/// Reads all sections that declare objects.
pub(super) fn all(root: &mut TableReader<'_>, router: &RouterSettings) -> Declarations {
    let ports = root.named_tables("port");
    let mut classes = root.named_tables("class");
    let profiles = root.named_tables("profile");
    let slas = root.named_tables("sla");
    let filters = optional_names(root, "filter");
    let routes = optional_names(root, "route");
    let abr = optional_names(root, "abr");
    let names = Names::collect(&ports, &mut classes, &profiles, &slas, &filters);
    let count =
        ports.len() + classes.len() + profiles.len() + slas.len() + filters.len() + routes.len() + abr.len();
    if count > MAX_OBJECTS {
        let at = root.document().root_location();
        let d = root.document().error(at, format!("the file declares {count} objects"));
        root.diagnostics().push(d.allowed(format!("at most {MAX_OBJECTS}")));
    }
    let mut out = Declarations::default();
    for (name, mut table) in ports {
        let is_tun = port::is_tun(&mut table, router.mode);
        let spec = port::read(&mut table, router.mode, is_tun);
        let port = declare(name, &table, Some(spec), &mut out.incomplete);
        out.tun_ports.extend(port.iter().filter(|_| is_tun).map(|port| port.name.clone()));
        out.ports.extend(port);
        table.finish();
    }
    for (name, mut table) in classes {
        let spec = class::read(&mut table, &names);
        out.classes.extend(declare(name, &table, spec, &mut out.incomplete));
        table.finish();
    }
    for (name, mut table) in profiles {
        let spec = profile::read(&mut table, &names);
        out.profiles.extend(declare(name, &table, Some(spec), &mut out.incomplete));
        table.finish();
    }
    for (name, mut table) in slas {
        let spec = rest::sla(&mut table);
        out.slas.extend(declare(name, &table, Some(spec), &mut out.incomplete));
        table.finish();
    }
    read_filters(filters, &names, &mut out);
    read_routes(routes, &names, &mut out);
    read_abr(abr, &names, &mut out);
    if let Some(mut table) = root.table("detector") {
        let (spec, calls) = rest::detector(&mut table, &names);
        out.calls = calls;
        let name = optional_name(&mut table, "realtime");
        out.detector = declare(name, &table, spec, &mut out.incomplete);
        table.finish();
    }
    out
}

/// The list order becomes the priority; a filter without a name is called by it.
fn read_filters(filters: Vec<Named<'_>>, names: &Names<'_>, out: &mut Declarations) {
    for (index, (name, mut table)) in filters.into_iter().enumerate() {
        let mut spec = filter::read(&mut table, names);
        spec.priority = (index as u32 + 1) * 10;
        let generated = format!("filter-{:05}", spec.priority);
        let value = if name.value.is_empty() { generated.as_str() } else { name.value };
        let name = Spanned { value, span: name.span };
        out.filters.extend(declare(name, &table, Some(spec), &mut out.incomplete));
        table.finish();
    }
}

/// As filters: the list order becomes the priority, and a policy without a name is called by it.
fn read_abr(policies: Vec<Named<'_>>, names: &Names<'_>, out: &mut Declarations) {
    for (index, (name, mut table)) in policies.into_iter().enumerate() {
        let mut spec = abr::read(&mut table, names);
        spec.priority = (index as u32 + 1) * 10;
        let generated = format!("abr-{:05}", spec.priority);
        let value = if name.value.is_empty() { generated.as_str() } else { name.value };
        let name = Spanned { value, span: name.span };
        out.abr.extend(declare(name, &table, Some(spec), &mut out.incomplete));
        table.finish();
    }
}

/// The policies of a file that has nothing else to declare.
pub(super) fn abr_policies(root: &mut TableReader<'_>, names: &Names<'_>) -> Vec<Declared<AbrPolicySpec>> {
    let tables = optional_names(root, "abr");
    let mut out = Declarations::default();
    read_abr(tables, names, &mut out);
    out.abr
}

/// A route without a name is called by its destination.
fn read_routes(routes: Vec<Named<'_>>, names: &Names<'_>, out: &mut Declarations) {
    for (name, mut table) in routes {
        let spec = rest::route(&mut table, names);
        let generated = spec.as_ref().map_or(String::new(), |s| s.dest.to_string());
        let value = if name.value.is_empty() { generated.as_str() } else { name.value };
        let name = Spanned { value, span: name.span };
        out.routes.extend(declare(name, &table, spec, &mut out.incomplete));
        table.finish();
    }
}

/// Tables whose `name` may be absent (then empty), unique where given.
fn optional_names<'a>(root: &mut TableReader<'a>, key: &'static str) -> Vec<Named<'a>> {
    let mut first: BTreeMap<&str, Location> = BTreeMap::new();
    let mut out = Vec::new();
    for mut table in root.tables(key) {
        let name = optional_name(&mut table, "");
        if !name.value.is_empty() {
            if let Some(&before) = first.get(name.value) {
                let d = table.document().error(name.span, format!("is the name of another {key}"));
                table.diagnostics().push(table.document().with_secondary(d, before, "the first one is here"));
            } else {
                first.insert(name.value, name.span);
            }
        }
        out.push((name, table));
    }
    out
}

/// The key `name`, or `default` at the table's place; an empty name is an error.
fn optional_name<'a>(table: &mut TableReader<'a>, default: &'static str) -> Spanned<&'a str> {
    let given = if table.has("name") { table.required_text("name", "") } else { None };
    given.unwrap_or(Spanned { value: default, span: table.location() })
}

/// A declared thing, if its name is legal and its specification could be read.
fn declare<T>(
    name: Spanned<&str>,
    table: &TableReader<'_>,
    spec: Option<T>,
    incomplete: &mut bool,
) -> Option<Declared<T>> {
    let legal = match value::name(name.value) {
        Ok(name) => Some(name),
        Err(e) => {
            if !name.value.is_empty() {
                let d = table.document().error(name.span, e.message);
                table.diagnostics().push(d.allowed(e.allowed.unwrap_or_default()));
            }
            None
        }
    };
    let declared =
        legal.zip(spec).map(|(name, spec): (Name, T)| Declared { name, at: table.location(), spec });
    *incomplete |= declared.is_none();
    declared
}

/// A size in a range; `default` if absent or wrong.
fn bytes(table: &mut TableReader<'_>, key: &'static str, min: u64, max: u64, default: u64) -> Bytes {
    table.value_in(key, Bytes(min)..=Bytes(max)).map_or(Bytes(default), |b| b.value)
}

fn flag(table: &mut TableReader<'_>, key: &'static str, default: bool) -> bool {
    table.boolean(key).map_or(default, |b| b.value)
}

fn dscp(table: &mut TableReader<'_>, key: &'static str) -> Option<Dscp> {
    table.value(key).map(|d| d.value)
}

/// Who besides the file may change the rate.
fn managed_by(table: &mut TableReader<'_>) -> Option<Owner> {
    table.value_with("managed_by", "an owner", value::owner).map(|o| o.value)
}
