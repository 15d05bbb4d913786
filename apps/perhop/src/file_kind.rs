//! Which kind of file a text is, for those who gave one kind where the other belongs.

use perhop_config::Document;

/// Whether this is a scenario, whatever is wrong with it: only those have nodes.
pub fn is_scenario(text: &str) -> bool {
    has(text, "node")
}

/// Whether this is a router file, whatever is wrong with it: only those have ports.
pub fn is_router_file(text: &str) -> bool {
    has(text, "port")
}

fn has(text: &str, table: &str) -> bool {
    let (document, _) = Document::parse("", text);
    document.child(document.root_location(), table).is_some()
}
