//! What a kind of file needs beyond keys and values: names of objects, and paths.

/// What messages and paths must know about a kind of file.
#[derive(Debug)]
pub struct Form {
    /// Top-level tables whose keys are names that the file gives: of `[link.core]` messages speak as `link "core"`. No
    /// path adds a name to them. With `variants` among them the file has variants: what `[variants.NAME.set]` sets, by
    /// path, makes another configuration of it.
    pub named: &'static [&'static str],
    /// Keys whose value is another file, into which paths go on.
    pub files: &'static [FileKeys],
    /// What is said about a path that leads nowhere, as a predicate.
    pub unknown_path: &'static str,
}

/// Keys of the tables of one section of which one holds another file: by its name, or its text.
#[derive(Debug)]
pub struct FileKeys {
    /// The section, of [`Form::named`].
    pub section: &'static str,
    /// The keys. The first stands for all in messages.
    pub keys: &'static [&'static str],
    /// What such a file is, with an article: `a router file`.
    pub what: &'static str,
}

impl Form {
    /// Objects in arrays of tables, no files inside.
    pub const PLAIN: Self = Self { named: &[], files: &[], unknown_path: "is not a path of this file" };
}
