//! Router files: reading, and what the router itself says about their objects.

use super::file_owner::FENCE;
use crate::error::AppError;
use crate::file_kind::is_scenario;
use crate::output::progress;
use crate::sockets::check_name;
use crate::text_file::read_text;
use perhop_config::{Diagnostic, Diagnostics, MAX_FILE_BYTES, Severity};
use perhop_contract::{Control, Input, Limits, Output};
use perhop_graph::router::{EdgePort, RouterPlanner, registry};
use perhop_model::{
    Credentials, DEVICE_NAMES, ErrorItem, Mode, Op, Owner, Transaction, TxnId, is_device_name,
};
use perhop_netlink::Netlink;
use perhop_reason::Code;
use perhop_routerfile::RouterFile;
use perhop_routerfile::overrides::{LinkRate, Links, Setting};
use perhop_units::Instant;
use std::path::Path;

/// A router file after `settings`, with everything that is wrong with its text. The file is there if nothing is an error.
///
/// # Errors
/// It cannot be read, or a setting does not fit it.
pub fn read(path: &Path, settings: &[Setting]) -> Result<(Option<RouterFile>, Diagnostics), AppError> {
    read_on(path, settings, &Links::new(&[]))
}

fn read_on(
    path: &Path,
    settings: &[Setting],
    links: &Links<'_>,
) -> Result<(Option<RouterFile>, Diagnostics), AppError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    let (file, diagnostics) =
        RouterFile::read_on_links(&path.display().to_string(), &text, &|port| links.of_port(port));
    let Some(mut file) = file else {
        // Each of its keys would be an error.
        return if is_scenario(&text) {
            Err(AppError::ScenarioFile(path.to_owned()))
        } else {
            Ok((None, diagnostics))
        };
    };
    for setting in settings {
        setting.apply(&mut file)?;
    }
    Ok((Some(file), diagnostics))
}

/// A router file with everything that is wrong with it: in its text, and as the router's own checks find it after
/// `settings`, on these links. The file is there if nothing is an error.
///
/// # Errors
/// It cannot be read, or a setting does not fit it.
pub fn examine(
    path: &Path,
    settings: &[Setting],
    links: &Links<'_>,
) -> Result<(Option<RouterFile>, Diagnostics), AppError> {
    let (file, diagnostics) = read_on(path, settings, links)?;
    let Some(file) = file else { return Ok((None, diagnostics)) };
    let mut refused = refusals(&file);
    refused.extend(ports(&file).iter().filter_map(no_interface));
    let mut found = unusable_settings(&file);
    found.extend(file.diagnose(&refused).sorted());
    let is_good = found.is_empty();
    found.into_iter().for_each(|diagnostic| diagnostics.push(diagnostic));
    Ok((Some(file).filter(|_| is_good), diagnostics))
}

/// Interfaces of the file's ports that are not in this network namespace; none if that cannot be seen. The file may be for
/// another machine, so this is nothing against it.
pub fn not_here(file: &RouterFile) -> Vec<String> {
    let Ok(links) = Netlink::open().and_then(|netlink| netlink.links()) else { return Vec::new() };
    let is_made = |port: &EdgePort| file.tun_ports.iter().any(|tun| tun.as_str() == port.name);
    let devices = ports(file).into_iter().filter(|port| !is_made(port)).map(|port| port.device().to_owned());
    devices.filter(|device| links.iter().all(|link| link.name != *device)).collect()
}

/// Why no interface can have the name of this port's.
fn no_interface(port: &EdgePort) -> Option<ErrorItem> {
    let device = port.device();
    (!is_device_name(device)).then(|| ErrorItem {
        op: None,
        path: format!("port/{}.device", port.name),
        code: Code::OutOfRange,
        message: "cannot be the name of an interface".to_owned(),
        value: Some(device.into()),
        allowed: Some(DEVICE_NAMES.to_owned()),
        limit: None,
        free: None,
    })
}

/// What `[router]` and `[log]` say that no router can start with.
fn unusable_settings(file: &RouterFile) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(Err(AppError::BadName { why, .. })) =
        file.router.name.as_ref().map(|n| check_name(n.as_str()))
    {
        found.push(file.about_setting(Severity::Error, "router.name", "cannot be a router's name").hint(why));
    }
    if let Some(path) = file.log.file.as_deref().map(Path::new) {
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            let error = file.about_setting(Severity::Error, "log.file", "cannot be written");
            found.push(error.hint(format!("there is no directory {}", directory.display())));
        } else if path.is_dir() {
            found.push(file.about_setting(Severity::Error, "log.file", "is a directory"));
        }
    }
    found
}

/// A router file without errors; errors and warnings go to standard error.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn load(path: &Path) -> Result<RouterFile, AppError> {
    load_with(path, &[])
}

/// [`load`] with settings.
///
/// # Errors
/// As [`load`]; a setting does not fit the file.
pub fn load_with(path: &Path, settings: &[Setting]) -> Result<RouterFile, AppError> {
    good(path, examine(path, settings, &Links::new(&[]))?)
}

/// [`load`] for a router whose links have these rates.
///
/// # Errors
/// As [`load`]; a rate is for no port of the file.
pub fn load_on(path: &Path, rates: &[LinkRate]) -> Result<RouterFile, AppError> {
    let links = Links::new(rates);
    let file = good(path, examine(path, &[], &links)?)?;
    all_used(&links).map(|()| file)
}

/// After all files are read: each rate was for a port of one of them.
///
/// # Errors
/// One was not.
pub fn all_used(links: &Links<'_>) -> Result<(), AppError> {
    match links.unused() {
        None => Ok(()),
        Some(port) => Err(AppError::NoPortForRate { port: port.to_owned() }),
    }
}

/// Says what is wrong with a file, and that it is no good.
pub fn bad(path: &Path, errors: Vec<Diagnostic>) -> AppError {
    let count = errors.len();
    let diagnostics = Diagnostics::new();
    errors.into_iter().for_each(|error| diagnostics.push(error));
    progress(diagnostics.to_string().trim_end());
    AppError::BadFile { path: path.to_owned(), errors: count }
}

fn good(path: &Path, (file, diagnostics): (Option<RouterFile>, Diagnostics)) -> Result<RouterFile, AppError> {
    if !diagnostics.is_empty() {
        progress(diagnostics.to_string().trim_end());
    }
    file.ok_or_else(|| AppError::BadFile { path: path.to_owned(), errors: diagnostics.errors() })
}

/// The ports of a file, in the order in which the router numbers them.
pub fn ports(file: &RouterFile) -> Vec<EdgePort> {
    EdgePort::of_objects(&file.objects)
}

/// The transaction that makes the file's objects those of the owner `file`.
pub fn transaction(file: &RouterFile, mode: Mode) -> Transaction {
    Transaction {
        fence: FENCE,
        mode,
        ..Transaction::new(
            TxnId([0; 16]),
            Owner::File,
            vec![Op::replace_owned(&RouterFile::KINDS, file.objects.clone())],
        )
    }
}

/// What a router that starts with this file would refuse.
fn refusals(file: &RouterFile) -> Vec<ErrorItem> {
    let planner = RouterPlanner::new(ports(file), registry())
        .with_workers(file.router.workers)
        .with_adaptive(file.router.adaptive);
    let mut control = Control::new(1, planner, Limits::default());
    let transaction = Box::new(transaction(file, Mode::Check));
    let input = Input::Request { request: 0, who: Credentials::ADMIN, transaction };
    control.handle_input(Instant::ZERO, input);
    while let Some(output) = control.poll_output() {
        if let Output::Reply { reply, .. } = output {
            return reply.errors.clone();
        }
    }
    Vec::new()
}
