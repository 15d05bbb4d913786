//! An agent's file as `perhop agent run` has it: what the agent does, and where it is asked.

use crate::controller::{Cops, cops, doors};
use crate::error::AppError;
use crate::output::progress;
use crate::text_file::read_file;
use perhop_bandwidth::AgentFile;
use perhop_broker::topology::{MAX_CLIENTS, sha256};
use perhop_config::{Diagnostics, Document, TableReader};
use std::collections::BTreeMap;
use std::path::Path;

/// See the module.
#[derive(Clone, Debug)]
pub struct LiveFile {
    /// What the agent does.
    pub agent: AgentFile,
    /// Where it is asked by COPS.
    pub cops: Vec<Cops>,
    /// Who may ask there: names, each with the SHA-256 of a certificate where one has to be shown.
    pub clients: BTreeMap<String, Option<String>>,
}

/// Reads a file and prints what is to be said about it. Paths in it are from its folder.
///
/// # Errors
/// It cannot be read or is wrong.
pub fn read(path: &Path) -> Result<LiveFile, AppError> {
    let file = read_file(path, parse)?;
    for advice in file.agent.advice() {
        progress(format_args!("{}: {advice}", path.display()));
    }
    Ok(file)
}

fn parse(name: &str, text: &str, folder: &Path) -> (Option<LiveFile>, Diagnostics) {
    let (document, diagnostics) = Document::parse(name, text);
    let mut root = document.root(&diagnostics);
    let agent = AgentFile::of(&mut root);
    for key in ["cops", "client"] {
        if root.has(key) && agent.leases.is_none() && diagnostics.errors() == 0 {
            let error = root.error(key, "is for flows that nobody decides on here");
            diagnostics.push(error.hint("Add a [[lease]]: it says of which classes flows are admitted"));
        }
    }
    let cops = doors(&mut root, "cops", |table| cops(table, folder));
    let clients = clients(&mut root);
    root.finish();
    let file = LiveFile { agent, cops, clients };
    ((diagnostics.errors() == 0).then_some(file), diagnostics)
}

fn clients(root: &mut TableReader<'_>) -> BTreeMap<String, Option<String>> {
    let tables = root.named_tables("client");
    if tables.len() > MAX_CLIENTS {
        let error = root.error("client", format!("there are {}", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MAX_CLIENTS}")));
    }
    let client = |(name, mut table): (perhop_config::Spanned<&str>, TableReader<'_>)| {
        let certificate = sha256(&mut table, "certificate");
        table.finish();
        (name.value.to_owned(), certificate)
    };
    tables.into_iter().map(client).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "[controller]\nnode = \"west\"\n[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\n";

    fn errors(text: &str) -> Vec<String> {
        let (file, diagnostics) = parse("agent.toml", text, Path::new("/srv"));
        assert_eq!(file.is_some(), diagnostics.errors() == 0);
        diagnostics.sorted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_agents_file_says_where_it_is_asked_and_by_whom() {
        let digest = "4D1566A1D7DF42A8517456D60EA06ED284E535CFE4C956AA6EE172DBCDF945F7";
        let text = format!(
            "{HEAD}[[cops]]\naddress = \"127.0.0.1:3288\"\n[[client]]\nname = \"phones\"\n[[client]]\nname = \"proxy\"\n\
             certificate = \"{digest}\"\n"
        );
        let (file, diagnostics) = parse("agent.toml", &text, Path::new("/srv"));
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        assert_eq!(file.cops[0].listen.address, "127.0.0.1:3288".parse().expect("an address"));
        assert_eq!(file.clients["phones"], None);
        assert_eq!(file.clients["proxy"], Some(digest.to_lowercase()));
    }

    #[test]
    fn a_door_is_for_flows_that_are_decided_here() {
        let door = "[[cops]]\naddress = \"127.0.0.1:3288\"\n";
        let found = errors(&format!("[controller]\nnode = \"west\"\n{door}"));
        assert!(found.len() == 1 && found[0].contains("[[lease]]"), "{found:?}");
        assert_eq!(errors(&format!("{HEAD}{door}")), Vec::<String>::new());
        let wrong = [
            "[[cops]]\naddress = \"192.0.2.1:3288\"\n",
            "[[client]]\nname = \"a\"\ncertificate = \"12\"\n",
            "[[client]]\nname = \"a\"\n[[client]]\nname = \"a\"\n",
            "[[client]]\nname = \"a\"\nrole = \"proxy\"\n",
        ];
        for wrong in wrong {
            assert_eq!(errors(&format!("{HEAD}{wrong}")).len(), 1, "{wrong}");
        }
    }
}
