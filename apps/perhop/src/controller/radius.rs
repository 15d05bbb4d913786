//! What a domain's file says of RADIUS: `[radius]` and `[[nas]]`.

use super::ControllerError;
use super::file::address_of;
use perhop_config::{TableReader, TextError};
use perhop_model::Name;
use perhop_radius::Secret;
use perhop_serve::controller::Seat;
use perhop_serve::radius::{AccessServer, MAX_NAS, RadiusDoor, RadiusNews, RadiusSettings};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

/// Reads both. Files of secrets are read at once.
pub(super) fn read(root: &mut TableReader<'_>, folder: &Path) -> RadiusSettings {
    let mut settings = RadiusSettings::default();
    let is_there = root.has("radius");
    if let Some(mut table) = root.table("radius") {
        let mut address = |key| table.value_with(key, "an address", address_of).map(|address| address.value);
        settings.accounting = address("accounting");
        settings.changes = address("changes");
        if settings.accounting.is_none() && settings.changes.is_none() {
            let error = table.error("accounting", "is missing, and so is changes");
            table.diagnostics().push(error.hint("Write for example accounting = \"127.0.0.1:1813\""));
        }
        table.finish();
    }
    let tables = root.tables("nas");
    if tables.len() > MAX_NAS {
        let error = root.error("nas", format!("has {} tables", tables.len())).value("");
        root.diagnostics().push(error.allowed(format!("at most {MAX_NAS}")));
    }
    if !is_there && !tables.is_empty() {
        let error = root.error("nas", "is there without radius").value("");
        root.diagnostics().push(error.hint("Add a [radius] with an address"));
    }
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for mut table in tables {
        if let Some(server) = nas(&mut table, folder) {
            if !names.insert(server.name.clone()) {
                let error = table.error("name", "is that of another access server too");
                table.diagnostics().push(error);
            }
            if !addresses.insert(server.address) {
                let error = table.error("address", "is that of another access server too");
                table.diagnostics().push(error);
            }
            settings.servers.push(server);
        }
        table.finish();
    }
    let mut told = settings.servers.iter().filter_map(|server| server.changes).map(|to| to.is_ipv4());
    let first = told.next();
    if told.any(|other| Some(other) != first) {
        let error = root.error("nas", "has changes for addresses of both families").value("");
        root.diagnostics().push(error.hint("Give all of them addresses of one"));
    }
    settings
}

/// Opens the doors that a file wants.
pub(super) async fn open(settings: &RadiusSettings, seat: &Seat) -> Result<RadiusDoor, ControllerError> {
    let door = RadiusDoor::open(settings, seat.clone(), Arc::new(|news| log(&news))).await?;
    let wanted = [("accounting", settings.accounting), ("changes", settings.changes)];
    let wanted = wanted.into_iter().filter(|(_, address)| address.is_some());
    for ((what, _), at) in wanted.zip(door.addresses()) {
        info!("listening for RADIUS {what} at {at}");
    }
    Ok(door)
}

fn nas(table: &mut TableReader<'_>, folder: &Path) -> Option<AccessServer> {
    table.require("name", "\"west-nas\"");
    table.require("address", "\"192.0.2.1\"");
    table.require("secret_file", "\"west-nas.secret\"");
    let name = table.text("name").map(|name| name.value.to_owned());
    let address = table.value_with("address", "an address", |text| {
        let hint = "Write for example \"192.0.2.1\", without a port";
        text.parse::<IpAddr>().map_err(|_| TextError::new("is not an address").hint(hint))
    });
    let secret = table.value_with("secret_file", "a file", |text| secret(&folder.join(text)));
    let proven = table.boolean("proven").is_some_and(|proven| proven.value);
    let mut place = |key| {
        let name = table.value_with(key, "a name", |text| {
            Name::new(text).map_err(|error| TextError::new(format!("is not a name: {error}")))
        });
        name.map(|name| name.value)
    };
    let place = (place("router"), place("port"));
    if place.0.is_some() != place.1.is_some() {
        let error = table.error("router", "and port belong together");
        table.diagnostics().push(error.hint("Write both, or none of a server that only changes sessions"));
    }
    let changes: Option<SocketAddr> =
        table.value_with("changes", "an address", address_of).map(|address| address.value);
    Some(AccessServer {
        name: name?,
        address: address?.value,
        secret: secret?.value,
        proven,
        place: place.0.zip(place.1),
        changes,
    })
}

/// The first line of a file.
fn secret(path: &Path) -> Result<Secret, TextError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| TextError::new(format!("cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    Secret::new(line.as_bytes())
        .ok_or_else(|| TextError::new("has no secret in its first line").allowed("1 to 256 octets"))
}

/// Logs what a door says.
fn log(news: &RadiusNews) {
    match news {
        RadiusNews::Dropped { from, why, counts } => warn!(
            %from,
            strangers = counts.strangers,
            malformed = counts.malformed,
            unsigned = counts.unsigned,
            incomplete = counts.incomplete,
            stale = counts.stale,
            overload = counts.overload,
            "dropped: {why}"
        ),
        RadiusNews::NotTold { server, session, why } => {
            warn!(server, session, "access server not told of a change: {why}");
        }
    }
}
