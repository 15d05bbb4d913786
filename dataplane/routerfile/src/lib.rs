//! The router file: the TOML text from which a router is usually started.
//!
//! It is read in three steps. `names` collects what the file declares, so that references can be resolved and
//! misspelt ones get a suggestion; `read` turns each table into the specification of an object
//! (`perhop-model`), with quantities in units and ranges checked; `check` looks at the whole: link-sharing
//! trees, queues against rates, filters that never match, classes that get no traffic. Every error of the file is
//! reported at once, each at its place. What the file declares becomes the objects of owner `file`
//! ([`RouterFile::objects`], for `replace_owned`); keys have the names of the specification's fields.
//!
//! Sections: `[router]`, `[kernel]`, `[api]`, `[tcapi]`, `[log]`, `[[port]]`, `[[class]]`, `[[profile]]`, `[[sla]]`, `[[filter]]`, `[[route]]`,
//! `[[abr]]`, `[detector]`. The order of `[[filter]]` and of `[[abr]]` tables is their priority: 10, 20, 30, …
#![forbid(unsafe_code)]

mod api;
mod check;
pub mod host;
mod names;
pub mod overrides;
mod read;
mod settings;
pub mod value;

pub use api::{Account, ApiSettings, ClientIs, ClientRule};
pub use settings::{
    KernelSettings, LogFormat, LogLevel, LogSettings, PortIo, RouterSettings, TcapiSettings, Waiting,
};

use perhop_config::{Diagnostic, Diagnostics, Document, Location, Position, Severity};
use perhop_model::{ClassSpec, ErrorItem, Key, Kind, Name, Object, Spec};
use perhop_units::Rate;
use std::collections::BTreeMap;

/// Most objects that a router file declares.
pub const MAX_OBJECTS: usize = 1_000_000;

/// A router file without errors.
#[derive(Debug)]
pub struct RouterFile {
    /// What concerns the program and not an object.
    pub router: RouterSettings,
    /// How it stands to the kernel beside it.
    pub kernel: KernelSettings,
    /// Who may use its socket.
    pub api: ApiSettings,
    /// How programs reserve bandwidth by the traffic-control API; none = they do not.
    pub tcapi: Option<TcapiSettings>,
    /// Where the log goes and how much of it.
    pub log: LogSettings,
    /// The objects of owner `file`, in dependency order.
    pub objects: Vec<Object>,
    /// Ports with `io = "tun"`: TUN interfaces of the router's own. Of a running router only.
    pub tun_ports: Vec<Name>,
    document: Document,
    places: BTreeMap<Key, Location>,
}

/// What a port takes from its link where its file says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOfPort {
    /// Rate of the link.
    pub rate: Rate,
    /// Bytes the link adds to each frame.
    pub overhead: i32,
}

/// A thing the file declares: its name, the place of its table, its specification.
#[derive(Clone, Debug)]
pub(crate) struct Declared<T> {
    pub(crate) name: Name,
    pub(crate) at: Location,
    pub(crate) spec: T,
}

impl RouterFile {
    /// The kinds of objects that a router file declares, for `replace_owned`.
    pub const KINDS: [Kind; 8] = [
        Kind::Port,
        Kind::Class,
        Kind::Profile,
        Kind::Sla,
        Kind::Filter,
        Kind::Route,
        Kind::Detector,
        Kind::AbrPolicy,
    ];

    /// Reads `text`; `file` is the name that messages show. The router file is there if the diagnostics hold no
    /// error; they may hold warnings. O(n log n) in the size of the file, apart from a bounded search for filters
    /// that an earlier one hides.
    pub fn read(file: &str, text: &str) -> (Option<Self>, Diagnostics) {
        Self::read_on_links(file, text, &|_| None)
    }

    /// As [`RouterFile::read`] for a router whose links are known: a port without a rate takes that of its link, and
    /// its overhead too unless it has one. Shares of classes then count from there.
    pub fn read_on_links(
        file: &str,
        text: &str,
        link: &dyn Fn(&str) -> Option<LinkOfPort>,
    ) -> (Option<Self>, Diagnostics) {
        let (document, diagnostics) = Document::parse(file, text);
        let mut root = document.root(&diagnostics);
        let router = settings::router(&mut root);
        let kernel = settings::kernel(&mut root);
        let api = api::api(&mut root);
        let tcapi = settings::tcapi(&mut root);
        let log = settings::log(&mut root);
        let mut declared = read::all(&mut root, &router);
        root.finish();
        for port in declared.ports.iter_mut().filter(|port| port.spec.rate == Rate::ZERO) {
            if let Some(link) = link(port.name.as_str()) {
                port.spec.rate = link.rate;
                if port.spec.overhead == 0 {
                    port.spec.overhead = link.overhead;
                }
            }
        }
        check::all(&document, &diagnostics, &router, &mut declared);
        if diagnostics.errors() > 0 {
            return (None, diagnostics);
        }
        let tun_ports = std::mem::take(&mut declared.tun_ports);
        let (objects, places) = declared.into_objects();
        (Some(Self { router, kernel, api, tcapi, log, objects, tun_ports, document, places }), diagnostics)
    }

    /// Its classes, in its order.
    pub fn classes(&self) -> impl Iterator<Item = (&Name, &ClassSpec)> {
        self.objects.iter().filter_map(|object| match &object.spec {
            Spec::Class(class) => Some((&object.name, class)),
            _ => None,
        })
    }

    /// Where an object, or a field of it (`queue.limit`), is written; the object's table for a default.
    pub fn position(&self, key: &Key, field: &str) -> Option<Position> {
        Some(self.document.position(self.document.lookup(*self.places.get(key)?, field)))
    }

    /// What there is to say about a setting that is no object's, `log.file`: at its place, or at its table's or the
    /// file's beginning when the file leaves it out.
    #[must_use = "push it to the diagnostics"]
    pub fn about_setting(&self, severity: Severity, setting: &str, message: &str) -> Diagnostic {
        let at = self.document.lookup(self.document.root_location(), setting);
        let diagnostic = match severity {
            Severity::Error => self.document.error(at, message),
            Severity::Warning => self.document.warning(at, message),
        };
        if self.document.is_written(self.document.root_location(), setting) {
            return diagnostic;
        }
        Diagnostic { subject: String::new(), ..diagnostic }.key(setting).value("")
    }

    /// What there is to say against an entry of `[[api.clients]]`, at its place.
    #[must_use = "push it to the diagnostics"]
    pub fn about_client(&self, rule: &ClientRule, message: &str) -> Diagnostic {
        rule.error(&self.document, message)
    }

    /// What the router said against the file's objects, at the places of the file. Errors about objects that are not
    /// in the file stand at its start.
    pub fn diagnose(&self, errors: &[ErrorItem]) -> Diagnostics {
        let diagnostics = Diagnostics::new();
        for error in errors {
            let at = self.locate(&error.path);
            let place = at.unwrap_or_else(|| self.document.root_location());
            let mut diagnostic =
                self.document.error(place, error.message.clone()).hint(format!("Refused as {}", error.code));
            if let Some(allowed) = &error.allowed {
                diagnostic = diagnostic.allowed(allowed.clone());
            }
            if at.is_none() {
                diagnostic = diagnostic.key(error.path.clone());
            }
            diagnostics.push(diagnostic);
        }
        diagnostics
    }

    /// The place of a path of the router, `class/wan/ef.queue.limit`: kind, name, field. Both names and fields may
    /// hold dots, so the longest declared name wins.
    fn locate(&self, path: &str) -> Option<Location> {
        let (kind, rest) = path.split_once('/')?;
        let kind: Kind = kind.parse().ok()?;
        let ends = std::iter::once(rest.len()).chain(rest.rmatch_indices('.').map(|(i, _)| i));
        for end in ends {
            let Ok(name) = Name::new(&rest[..end]) else { continue };
            if let Some(&at) = self.places.get(&Key { kind, name }) {
                // A file says how a queue drops beside its limit, not below a key of its own.
                let field = rest[end..].trim_start_matches('.').replacen("queue.kind.", "queue.", 1);
                return Some(self.document.lookup(at, &field));
            }
        }
        None
    }
}

impl read::Declarations {
    fn into_objects(self) -> (Vec<Object>, BTreeMap<Key, Location>) {
        let mut objects = Vec::new();
        let mut places = BTreeMap::new();
        let mut add = |name: Name, at: Location, spec: Spec| {
            let object = Object::new(name, spec);
            places.insert(object.key(), at);
            objects.push(object);
        };
        self.ports.into_iter().for_each(|d| add(d.name, d.at, Spec::Port(d.spec)));
        self.classes.into_iter().for_each(|d| add(d.name, d.at, Spec::Class(d.spec)));
        self.profiles.into_iter().for_each(|d| add(d.name, d.at, Spec::Profile(d.spec)));
        self.slas.into_iter().for_each(|d| add(d.name, d.at, Spec::Sla(d.spec)));
        self.filters.into_iter().for_each(|d| add(d.name, d.at, Spec::Filter(d.spec)));
        self.routes.into_iter().for_each(|d| add(d.name, d.at, Spec::Route(d.spec)));
        self.detector.into_iter().for_each(|d| add(d.name, d.at, Spec::Detector(d.spec)));
        self.abr.into_iter().for_each(|d| add(d.name, d.at, Spec::AbrPolicy(d.spec)));
        (objects, places)
    }
}
