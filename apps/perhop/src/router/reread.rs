//! Reading the file of a running router again.

use super::clients;
use super::file;
use super::reloader::{refused, stopping};
use crate::error::AppError;
use perhop_config::{Diagnostic, Diagnostics, Severity};
use perhop_engine::Handle;
use perhop_model::{Credentials, ErrorItem, Mode, Name, Outcome, Owner, Reloaded};
use perhop_reason::Code;
use perhop_routerfile::overrides::Setting;
use perhop_routerfile::{LogSettings, RouterFile, RouterSettings, TcapiSettings};
use perhop_serve::{ClientRule, Clients, open_to};
use std::io;
use std::path::{Path, PathBuf};

/// What of a file holds from the router's start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    router: RouterSettings,
    log: LogSettings,
    tun_ports: Vec<Name>,
    tcapi: Option<TcapiSettings>,
}

impl Fixed {
    /// That of the file of the start.
    pub fn of(file: &RouterFile) -> Self {
        Self {
            router: file.router.clone(),
            log: file.log.clone(),
            tun_ports: file.tun_ports.clone(),
            tcapi: file.tcapi.clone(),
        }
    }

    /// A warning for each setting that the file has otherwise than at the start.
    fn warnings(&self, file: &RouterFile) -> Vec<Diagnostic> {
        let (router, log) = (&self.router, &self.log);
        let changed = [
            ("router.name", router.name != file.router.name),
            ("router.max_flows", router.max_flows != file.router.max_flows),
            ("router.max_abr_connections", router.max_abr_connections != file.router.max_abr_connections),
            ("router.abr_credit", router.abr_credit != file.router.abr_credit),
            ("router.abr_spread", router.abr_spread != file.router.abr_spread),
            ("router.storm_limit", router.storm_limit != file.router.storm_limit),
            ("router.workers", router.workers != file.router.workers),
            ("router.placement", router.adaptive != file.router.adaptive),
            ("router.io", router.io != file.router.io),
            ("router.wait", router.wait != file.router.wait),
            ("port.io", self.tun_ports != file.tun_ports),
            ("tcapi", self.tcapi != file.tcapi),
            ("log.level", log.level != file.log.level),
            ("log.format", log.format != file.log.format),
            ("log.file", log.file != file.log.file),
        ];
        let why = "has changed, which a reload cannot bring into force";
        let warning = |(setting, _): (&'static str, bool)| {
            let diagnostic = file.about_setting(Severity::Warning, setting, why);
            diagnostic.hint("The router goes on as it was started; start it again to change this")
        };
        changed.into_iter().filter(|(_, has_changed)| *has_changed).map(warning).collect()
    }
}

/// Where the router's clients come in.
pub struct Door {
    /// The sockets.
    pub sockets: Vec<PathBuf>,
    /// Who may use it.
    pub clients: Clients,
}

impl Door {
    /// These clients from now on.
    ///
    /// # Errors
    /// The operating system's, and the first socket that could not be opened to them.
    fn admit(&self, rules: Vec<ClientRule>) -> Result<(), (&Path, io::Error)> {
        self.clients.set(rules);
        self.sockets
            .iter()
            .try_for_each(|socket| open_to(socket, &self.clients).map_err(|error| (socket.as_path(), error)))
    }
}

/// Reads the file with its settings and makes the router do what it says, which is waited for. Errors of the text and
/// refusals of the router alike are said at their places in the file, and so is what only a start can change.
pub fn reread(handle: &Handle, path: &Path, settings: &[Setting], fixed: &Fixed, door: &Door) -> Reloaded {
    let (file, diagnostics) = match file::read(path, settings) {
        Ok((Some(file), diagnostics)) => (file, diagnostics),
        Ok((None, diagnostics)) => {
            let mut found = diagnostics.sorted();
            found.retain(|d| d.severity == Severity::Error);
            return Reloaded::refused(found.iter().map(file_error).collect(), texts(&diagnostics));
        }
        Err(error) => return refused(unreadable(path, &error)),
    };
    let rules = match clients::rules(&file) {
        Ok(rules) => rules,
        Err(unknown) => {
            let errors = unknown.iter().map(file_error).collect();
            unknown.into_iter().for_each(|error| diagnostics.push(error));
            return Reloaded::refused(errors, texts(&diagnostics));
        }
    };
    fixed.warnings(&file).into_iter().for_each(|warning| diagnostics.push(warning));
    let mut transaction = file::transaction(&file, Mode::Commit);
    transaction.txn_id = handle.new_txn_id();
    let who = Credentials::writer(Owner::File);
    let Ok(reply) = handle.submit_blocking(who, transaction) else { return stopping() };
    if reply.outcome == Outcome::Rejected {
        for more in file.diagnose(&reply.errors).sorted() {
            diagnostics.push(more);
        }
    } else if let Err((socket, error)) = door.admit(rules) {
        let why = format!("{error}: the socket {} could not be opened to them", socket.display());
        diagnostics.push(file.about_setting(Severity::Warning, "api.clients", &why));
    }
    Reloaded { messages: texts(&diagnostics), reply: Some(reply), ..Reloaded::default() }
}

fn texts(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.sorted().iter().map(ToString::to_string).collect()
}

fn file_error(diagnostic: &Diagnostic) -> ErrorItem {
    let place = diagnostic.position;
    ErrorItem {
        value: Some(diagnostic.value.clone().into()).filter(|_| !diagnostic.value.is_empty()),
        allowed: diagnostic.allowed.clone(),
        ..ErrorItem::new(
            Code::Malformed,
            format!("{}:{}:{}", diagnostic.file, place.line, place.column),
            diagnostic.to_string(),
        )
    }
}

fn unreadable(path: &Path, error: &AppError) -> ErrorItem {
    let code = match error {
        AppError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::NotFound,
        AppError::Read { .. } => Code::BackendFailed,
        AppError::BadSetting(_) => Code::BadReference,
        _ => Code::Malformed,
    };
    ErrorItem::new(code, path.display().to_string(), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(settings: &str) -> RouterFile {
        let text = format!("{settings}\n[[port]]\nname = \"wan\"\n");
        let (file, diagnostics) = RouterFile::read("edge.toml", &text);
        file.unwrap_or_else(|| panic!("{diagnostics}"))
    }

    #[test]
    fn what_a_reload_cannot_change_it_says_at_its_place() {
        let old =
            "[router]\nname = \"edge\"\nmax_flows = 2000\n[log]\nlevel = \"warn\"\nfile = \"/dev/null\"";
        let fixed = Fixed::of(&file(old));
        assert_eq!(fixed.warnings(&file(old)), []);
        let new = "[router]\nname = \"core\"\nmax_flows = 4000\nmax_abr_connections = 99\n[log]\nlevel = \"info\"\nformat = \"json\"";
        let said: Vec<String> = fixed.warnings(&file(new)).iter().map(ToString::to_string).collect();
        let places = ["2:8", "3:13", "4:23", "6:9", "7:10", "5:"].map(|at| format!("edge.toml:{at}"));
        let settings = [
            "name = ",
            "max_flows = ",
            "max_abr_connections = ",
            "level = ",
            "format = ",
            "log.file has changed",
        ];
        assert_eq!(said.len(), places.len(), "{said:?}");
        for ((text, place), setting) in said.iter().zip(places).zip(settings) {
            assert!(text.starts_with(&place) && text.contains(": warning: "), "{place}: {text}");
            assert!(text.contains(setting) && text.contains("start it again"), "{setting}: {text}");
        }
    }
}
