//! A domain's file as a controller reads it: what the domain consists of, and where it is asked.

use crate::error::AppError;
use crate::output::progress;
use crate::text_file::read_text;
use perhop_broker::flow::read_marks;
use perhop_broker::topology::{DomainFile, read as read_domain};
use perhop_config::{Diagnostics, Document, MAX_FILE_BYTES, TableReader, TextError};
use perhop_serve::Identity;
use perhop_serve::domain::Marks;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Most addresses at which a controller listens.
const MAX_LISTENERS: usize = 64;

/// See the module.
#[derive(Clone, Debug)]
pub struct ControllerFile {
    /// Name of the domain.
    pub name: String,
    /// Where its rows are kept.
    pub database: String,
    /// Where it is asked, besides its Unix socket.
    pub listeners: Vec<Listen>,
    /// What it consists of, and how it decides.
    pub domain: DomainFile,
    /// Code points that packets with a reservation get, by class.
    pub marks: Marks,
}

/// An address of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// Certificate, key, and the authority whose clients are believed; none = not secured, which only loopback may be.
    pub tls: Option<(Identity, PathBuf)>,
}

/// Reads a file and prints what is to be said about it. Paths in it are from its folder.
///
/// # Errors
/// It cannot be read or is wrong.
pub fn read(path: &Path) -> Result<ControllerFile, AppError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (file, diagnostics) = parse(&path.to_string_lossy(), &text, folder);
    for diagnostic in diagnostics.sorted() {
        progress(diagnostic);
    }
    file.ok_or_else(|| AppError::BadFile { path: path.to_owned(), errors: diagnostics.errors() })
}

/// What a folder without a file is: a domain that consists of nothing yet.
pub fn of_folder(folder: &Path) -> ControllerFile {
    let (file, _) = parse("domain.toml", "", folder);
    file.expect("nothing is wrong with an empty file")
}

fn parse(name: &str, text: &str, folder: &Path) -> (Option<ControllerFile>, Diagnostics) {
    let (document, diagnostics) = Document::parse(name, text);
    let mut root = document.root(&diagnostics);
    let (name, database) = controller(&mut root, folder);
    let listeners = listeners(&mut root, folder);
    let marks = read_marks(&mut root);
    let domain = read_domain(&mut root);
    root.finish();
    let file = ControllerFile { name, database, listeners, domain, marks };
    ((diagnostics.errors() == 0).then_some(file), diagnostics)
}

fn controller(root: &mut TableReader<'_>, folder: &Path) -> (String, String) {
    let own = || format!("sqlite:{}", folder.join("domain.db").display());
    let Some(mut table) = root.table("controller") else { return ("domain".to_owned(), own()) };
    let name = table.value_with("name", "a string", |text| {
        let allowed = "1 to 128 characters of A-Z a-z 0-9 . _ : -, not beginning with a dot";
        let is_name = perhop_model::Name::new(text).is_ok() && !text.contains('/') && !text.starts_with('.');
        if is_name {
            Ok(text.to_owned())
        } else {
            Err(TextError::new("is not a domain's name").allowed(allowed))
        }
    });
    let database = table.value_with("database", "a string", |text| match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(format!("sqlite:{}", folder.join(path).display())),
        _ if text.starts_with("postgres://") || text.starts_with("postgresql://") => Ok(text.to_owned()),
        _ => {
            let hint = "Write \"sqlite:domain.db\" or \"postgres://user@host/database\"";
            Err(TextError::new("is no address of a database").hint(hint))
        }
    });
    table.finish();
    (name.map_or_else(|| "domain".to_owned(), |n| n.value), database.map_or_else(own, |d| d.value))
}

fn listeners(root: &mut TableReader<'_>, folder: &Path) -> Vec<Listen> {
    let tables = root.tables("listen");
    if tables.len() > MAX_LISTENERS {
        let error = root.error("listen", format!("has {} addresses", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MAX_LISTENERS}")));
    }
    tables.into_iter().filter_map(|table| listen(table, folder)).collect()
}

fn listen(mut table: TableReader<'_>, folder: &Path) -> Option<Listen> {
    let address = |text: &str| {
        let why =
            || TextError::new("is not an address with a port").hint("Write for example \"127.0.0.1:8080\"");
        text.parse::<SocketAddr>().map_err(|_| why())
    };
    table.require("address", "\"127.0.0.1:8080\"");
    let address = table.value_with("address", "an address", address);
    let mut path = |key| table.text(key).map(|path| folder.join(path.value));
    let (certificate, key, authority) = (path("certificate"), path("key"), path("authority"));
    let tls = match (certificate, key, authority) {
        (Some(certificate), Some(key), Some(authority)) => Some((Identity { certificate, key }, authority)),
        (None, None, None) => {
            if address.as_ref().is_some_and(|address| !address.value.ip().is_loopback()) {
                let error = table.error("address", "is beyond loopback and not secured");
                let hint = "Add certificate, key and authority: `perhop pki` makes them";
                table.diagnostics().push(error.hint(hint));
            }
            None
        }
        _ => {
            let error = table.error("address", "has only some of certificate, key and authority");
            table.diagnostics().push(error.hint("All three are needed, or none"));
            None
        }
    };
    table.finish();
    address.map(|address| Listen { address: address.value, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let (file, diagnostics) = parse("d.toml", text, Path::new("/srv"));
        assert_eq!(file.is_some(), diagnostics.errors() == 0);
        diagnostics.sorted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_empty_file_is_a_domain_in_its_folder() {
        let file = of_folder(Path::new("/srv"));
        assert_eq!((file.name.as_str(), file.database.as_str()), ("domain", "sqlite:/srv/domain.db"));
        assert!(file.listeners.is_empty() && file.domain.topology.nodes.is_empty());
    }

    #[test]
    fn a_file_says_where_it_is_asked_and_kept() {
        let text = r#"
            [controller]
            name = "north"
            database = "postgres://perhop@/north"
            [[listen]]
            address = "[::1]:8080"
            [[listen]]
            address = "0.0.0.0:8443"
            certificate = "c.pem"
            key = "k.pem"
            authority = "a.pem"
        "#;
        let (file, diagnostics) = parse("d.toml", text, Path::new("/srv"));
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        assert_eq!(file.database, "postgres://perhop@/north");
        assert_eq!(file.listeners[0].tls, None);
        let (identity, authority) = file.listeners[1].tls.clone().expect("it is secured");
        assert_eq!((identity.key, authority), ("/srv/k.pem".into(), "/srv/a.pem".into()));
    }

    #[test]
    fn what_is_not_secured_listens_on_loopback_only() {
        let one = errors("[[listen]]\naddress = \"192.0.2.1:8080\"");
        assert!(one.len() == 1 && one[0].contains("beyond loopback"), "{one:?}");
        assert!(errors("[[listen]]\naddress = \"127.0.0.1:80\"\nkey = \"k\"")[0].contains("only some"));
        for wrong in [
            "[[listen]]",
            "[[listen]]\naddress = \"80\"",
            "[controller]\ndatabase = \"mysql:x\"",
            "[controller]\nname = \"a/b\"",
            "[controler]",
        ] {
            assert_eq!(errors(wrong).len(), 1, "{wrong}");
        }
    }
}
