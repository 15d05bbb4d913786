//! A domain's file as a controller reads it: what the domain consists of, and where it is asked.

use super::peers::{self, Reached};
use crate::error::AppError;
use crate::text_file::read_file;
use perhop_broker::flow::read_marks;
use perhop_broker::topology::{DomainFile, read as read_domain};
use perhop_config::{Diagnostics, Document, TableReader, TextError};
use perhop_cops::dra::DEFAULT_CLIENT_TYPE;
use perhop_cops::wire::ClientType;
use perhop_serve::Identity;
use perhop_serve::controller::camara::CamaraSettings;
use perhop_serve::domain::Marks;
use perhop_serve::radius::RadiusSettings;
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
    /// Where it is asked by COPS.
    pub cops: Vec<Cops>,
    /// Neighbouring domains.
    pub peers: Vec<Reached>,
    /// What it consists of, and how it decides.
    pub domain: DomainFile,
    /// Code points that packets with a reservation get, by class.
    pub marks: Marks,
    /// What CAMARA's interfaces have.
    pub camara: CamaraSettings,
    /// Where access servers come by RADIUS.
    pub radius: RadiusSettings,
}

/// An address of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// Certificate, key, and the authority whose clients are believed; none = not secured, which only loopback may be.
    pub tls: Option<(Identity, PathBuf)>,
}

/// A door for COPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cops {
    /// Where, and how it is secured.
    pub listen: Listen,
    /// The client type that is spoken.
    pub client_type: ClientType,
    /// Where clients are sent to while another instance leads.
    pub other: Option<SocketAddr>,
}

/// Client types that one may choose: the range for private use (RFC 2748 §2.1).
const PRIVATE: std::ops::RangeInclusive<i64> = 0x4000..=0x7fff;

/// Reads a file and prints what is to be said about it. Paths in it are from its folder.
///
/// # Errors
/// It cannot be read or is wrong.
pub fn read(path: &Path) -> Result<ControllerFile, AppError> {
    read_file(path, parse)
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
    let listeners = doors(&mut root, "listen", |table| listen(table, folder, "127.0.0.1:8080"));
    let cops = doors(&mut root, "cops", |table| cops(table, folder));
    let marks = read_marks(&mut root);
    let domain = read_domain(&mut root);
    let camara = super::camara::read(&mut root, &domain, folder);
    let peers = peers::read(&mut root, &domain.topology, &name, folder);
    let radius = super::radius::read(&mut root, folder);
    root.finish();
    let file = ControllerFile { name, database, listeners, cops, peers, domain, marks, camara, radius };
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

/// Addresses of a kind, each a table.
pub fn doors<T>(
    root: &mut TableReader<'_>,
    key: &'static str,
    read: impl Fn(&mut TableReader<'_>) -> Option<T>,
) -> Vec<T> {
    let tables = root.tables(key);
    if tables.len() > MAX_LISTENERS {
        let error = root.error(key, format!("has {} addresses", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MAX_LISTENERS}")));
    }
    let read = |mut table: TableReader<'_>| {
        let door = read(&mut table);
        table.finish();
        door
    };
    tables.into_iter().filter_map(read).collect()
}

/// The client type that is spoken by COPS.
pub fn client_type(table: &mut TableReader<'_>) -> ClientType {
    let client_type = table.integer("client_type", PRIVATE).and_then(|n| u16::try_from(n.value).ok());
    client_type.map_or(DEFAULT_CLIENT_TYPE, ClientType)
}

/// A door for COPS.
pub fn cops(table: &mut TableReader<'_>, folder: &Path) -> Option<Cops> {
    let listen = listen(table, folder, "127.0.0.1:3288");
    let client_type = client_type(table);
    let other = table.value_with("other", "an address", address_of).map(|other| other.value);
    listen.map(|listen| Cops { listen, client_type, other })
}

/// An address with a port.
pub fn address_of(text: &str) -> Result<SocketAddr, TextError> {
    let why = || TextError::new("is not an address with a port").hint("Write for example \"127.0.0.1:8080\"");
    text.parse().map_err(|_| why())
}

fn listen(table: &mut TableReader<'_>, folder: &Path, example: &str) -> Option<Listen> {
    table.require("address", &format!("\"{example}\""));
    let address = table.value_with("address", "an address", address_of);
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
    fn a_door_for_cops_has_a_client_type_for_private_use() {
        let text = "[[cops]]\naddress = \"127.0.0.1:3288\"\n[[cops]]\naddress = \"[::1]:3289\"\n\
                    client_type = 16384\nother = \"192.0.2.9:3288\"\n";
        let (file, diagnostics) = parse("d.toml", text, Path::new("/srv"));
        let cops = file.unwrap_or_else(|| panic!("{diagnostics}")).cops;
        assert_eq!((cops[0].client_type, cops[0].other), (DEFAULT_CLIENT_TYPE, None));
        assert_eq!((cops[1].client_type, cops[1].other), (ClientType(0x4000), "192.0.2.9:3288".parse().ok()));
    }

    #[test]
    fn a_neighbour_is_a_client_and_is_reached_by_secured_addresses() {
        let domain = "[[node]]\nname = \"south\"\nkind = \"peer\"\n";
        let client = "[[client]]\nname = \"south\"\nkind = \"peer\"\nrole = \"proxy\"\n";
        let peer = "[[peer]]\nname = \"south\"\naddresses = [\"https://127.0.0.1:8443\"]\ncertificate = \"c\"\n\
                    key = \"k\"\nauthority = \"s\"\n";
        assert_eq!(errors(&format!("{domain}{client}{peer}")), Vec::<String>::new());
        for (text, what) in [
            (format!("{domain}{peer}"), "5:8: peer \"south\": name"),
            (format!("{domain}{}{peer}", client.replace("\"peer\"", "\"http\"")), "not a client"),
            (format!("{domain}{client}{}", peer.replace("https", "http")), "10:14"),
            (format!("{domain}{client}{}", peer.replace("\"https://127.0.0.1:8443\"", "")), "0 addresses"),
            (format!("{domain}{client}{}", peer.replace("key = \"k\"\n", "")), "key"),
        ] {
            let found = errors(&text);
            assert!(found.len() == 1 && found[0].contains(what), "{what}: {found:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_camaras_tables_is_said_with_its_place() {
        let domain = "[[node]]\nname = \"a\"\nkind = \"edge\"\n[[node]]\nname = \"c\"\nkind = \"core\"\n\
            [[client]]\nname = \"app\"\nkind = \"camara\"\nrole = \"proxy\"\n";
        let good = "[[network]]\nprefix = \"10.0.0.0/8\"\nnode = \"a\"\n[[qos_profile]]\nname = \"voice\"\n\
            class = \"v\"\nupstream = \"1 Mbit/s\"\n[[consumer]]\nclient = \"app\"\nscopes = [\"qos-profiles:read\"]\n\
            [camara]\nsinks_within = [\"10.0.0.0/8\"]\n";
        assert_eq!(errors(&format!("{domain}{good}")), Vec::<String>::new());
        for (text, what) in [
            ("[[network]]\nprefix = \"10.0.0.1/8\"", "bits beyond its length"),
            ("[[network]]\nprefix = \"10.0.0.0/8\"\nnode = \"c\"", "is a core router"),
            ("[[network]]\nprefix = \"10.0.0.0/8\"\nnode = \"b\"", "not a node of this file"),
            ("[[network]]\nprefix = \"10.0.0.0/8\"\ndevice_prefix = 7", "8 to 32"),
            ("[[network]]\nprefix = \"::/0\"\n[[network]]\nprefix = \"::/0\"", "of another network too"),
            (
                "[[qos_profile]]\nname = \"a b\"\nclass = \"v\"\nupstream = \"1 Mbit/s\"",
                "not a name of a profile",
            ),
            ("[[qos_profile]]\nname = \"abc\"\nclass = \"v\"", "upstream"),
            (
                "[[qos_profile]]\nname = \"abc\"\nclass = \"v\"\nupstream = \"1 Mbit/s\"\nmax_duration = \"25 h\"",
                "out of range",
            ),
            (
                "[[qos_profile]]\nname = \"abc\"\nclass = \"v\"\nupstream = \"1 Mbit/s\"\nmin_duration = \"2 h\"\nmax_duration = \"1 h\"",
                "above max_duration",
            ),
            ("[[consumer]]\nclient = \"ap\"", "not a client of this file"),
            ("[[consumer]]\nclient = \"app\"\nscopes = [\"all\"]", "all"),
            ("[camara]\nallow_http = true", "allow_http"),
        ] {
            let found = errors(&format!("{domain}{text}\n"));
            assert!(found.len() == 1 && found[0].contains(what), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_secured_listens_on_loopback_only() {
        let one = errors("[[listen]]\naddress = \"192.0.2.1:8080\"");
        assert!(one.len() == 1 && one[0].contains("beyond loopback"), "{one:?}");
        assert!(errors("[[listen]]\naddress = \"127.0.0.1:80\"\nkey = \"k\"")[0].contains("only some"));
        for wrong in [
            "[[listen]]",
            "[[cops]]\naddress = \"192.0.2.1:3288\"",
            "[[cops]]\naddress = \"127.0.0.1:3288\"\nclient_type = 32769",
            "[[cops]]\naddress = \"127.0.0.1:3288\"\nother = \"west\"",
            "[[listen]]\naddress = \"80\"",
            "[controller]\ndatabase = \"mysql:x\"",
            "[controller]\nname = \"a/b\"",
            "[controler]",
        ] {
            assert_eq!(errors(wrong).len(), 1, "{wrong}");
        }
    }
}
