//! Router files: reading, and what the router itself says about their objects.

use super::file_owner::FENCE;
use crate::error::AppError;
use crate::output::progress;
use crate::remote::check_name;
use perhop_config::{Diagnostic, Diagnostics, MAX_FILE_BYTES, Severity};
use perhop_contract::{Control, Input, Limits, Output};
use perhop_graph::router::{EdgePort, RouterPlanner, registry};
use perhop_model::{
    Credentials, DEVICE_NAMES, ErrorItem, Kind, Mode, Object, Op, Owner, Spec, Transaction, TxnId,
    is_device_name,
};
use perhop_reason::Code;
use perhop_routerfile::{LinkOfPort, RouterFile};
use perhop_units::{Instant, ParseUnitError, Rate};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file of at most `most` bytes; no more of it is read.
///
/// # Errors
/// It cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path, most: usize) -> Result<String, AppError> {
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_long = bytes.len() > most;
    match String::from_utf8(bytes) {
        // Where reading stopped, a character may be cut.
        Err(e) if !is_long || e.utf8_error().error_len().is_some() => {
            Err(AppError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
        }
        Ok(text) if !is_long => Ok(text),
        _ => {
            let why = format!("the file is longer than {most} bytes");
            Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, why)))
        }
    }
}

/// An override of a router file: `port.NAME.rate=8 Mbit/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    port: String,
    field: Field,
    text: String,
}

/// What of a port is overridden.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Rate(Rate),
    Device(String),
}

impl Setting {
    /// Reads one.
    ///
    /// # Errors
    /// The path is not known, or the value does not fit it.
    pub fn parse(text: &str) -> Result<Self, AppError> {
        let bad = |why: String| AppError::BadSetting { text: text.to_owned(), why };
        let (path, value) = text.split_once('=').ok_or_else(|| bad("it has no =".to_owned()))?;
        let parts = path.trim().strip_prefix("port.").and_then(|rest| rest.rsplit_once('.'));
        let (port, field) = parts.ok_or_else(|| bad("such a path is not known".to_owned()))?;
        let value = value.trim();
        let field = match field {
            "rate" => Field::Rate(value.parse().map_err(|e: ParseUnitError| bad(e.to_string()))?),
            "device" if !value.is_empty() => Field::Device(value.to_owned()),
            "device" => return Err(bad("an interface's name is missing".to_owned())),
            other => return Err(bad(format!("a port has no {other} to set"))),
        };
        Ok(Self { port: port.to_owned(), field, text: text.to_owned() })
    }

    fn apply(&self, objects: &mut [Object]) -> Result<(), AppError> {
        let port = objects.iter_mut().find_map(|object| match &mut object.spec {
            Spec::Port(spec) if object.name.as_str() == self.port => Some(spec),
            _ => None,
        });
        let Some(port) = port else {
            let ports = objects.iter().filter(|o| o.kind() == Kind::Port).map(|o| o.name.as_str());
            let why = format!(
                "the file has no port \"{}\"; it has {}",
                self.port,
                ports.collect::<Vec<_>>().join(", ")
            );
            return Err(AppError::BadSetting { text: self.text.clone(), why });
        };
        match &self.field {
            Field::Rate(rate) => port.rate = *rate,
            Field::Device(device) => port.device.clone_from(device),
        }
        Ok(())
    }
}

/// The rate of a port's link, `PORT=RATE`, for a file that leaves it to its scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRate {
    port: String,
    rate: Rate,
}

impl LinkRate {
    /// Reads one.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (port, rate) = text.split_once('=').ok_or("it has no =, as in core=\"10 Mbit/s\"")?;
        let rate: Rate = rate.trim().parse().map_err(|e| format!("{e}"))?;
        if rate == Rate::ZERO {
            return Err("a link without a rate carries nothing".to_owned());
        }
        Ok(Self { port: port.trim().to_owned(), rate })
    }
}

/// Links of ports that have no rate of their own, and which of them a file asked for.
#[derive(Debug)]
pub struct Links<'a> {
    rates: &'a [LinkRate],
    used: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Links<'a> {
    /// The links with these rates.
    pub fn new(rates: &'a [LinkRate]) -> Self {
        Self { rates, used: RefCell::default() }
    }

    fn of_port(&self, port: &str) -> Option<LinkOfPort> {
        // As with other options, the last one counts.
        let link = self.rates.iter().rfind(|link| link.port == port)?;
        self.used.borrow_mut().insert(&link.port);
        Some(LinkOfPort { rate: link.rate, overhead: 0 })
    }

    /// After all files are read: each rate was for a port of one of them.
    ///
    /// # Errors
    /// One was not.
    pub fn all_used(&self) -> Result<(), AppError> {
        match self.rates.iter().find(|link| !self.used.borrow().contains(link.port.as_str())) {
            None => Ok(()),
            Some(link) => Err(AppError::NoPortForRate { port: link.port.clone() }),
        }
    }
}

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
    let Some(mut file) = file else { return Ok((None, diagnostics)) };
    for setting in settings {
        setting.apply(&mut file.objects)?;
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
    links.all_used().map(|()| file)
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
