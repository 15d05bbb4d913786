//! Trees of directories: the local databases of Pulkkinen's policy control agent (thesis, Helsinki University of Technology 2004,
//! chapter 5), of which a leaf is a file that holds one value.
//!
//! ```text
//! maintenance: what is in force                 modification: what is to change
//!   class/CLASS/PARAMETER                         class/CLASS/PARAMETER
//!   class_filter/CLASS/FILTER/PARAMETER           profile/login/PROFILE/PARAMETER
//!   profile/PROFILE/PARAMETER                     profile/logout/PROFILE
//!   profile_filter/PROFILE/FILTER/PARAMETER       profile_filter/PROFILE/add/FILTER/PARAMETER
//!                                                 profile_filter/PROFILE/remove/FILTER
//! ```
//!
//! The names of parameters are not published; these are ours, as many as the thesis counts:
//!
//! | of | parameters |
//! |---|---|
//! | class | `parent` (`NULL` at the top), `bandwidth` (bit/s), `priority` (larger is first), `borrow` (0, 1), `queue` (packets, 0 = default) |
//! | profile | `interface`, `cir`, `pir` (bit/s), `cbs`, `pbs` (bytes), `green`, `yellow`, `red` |
//! | filter | `dst`, `src` (prefixes), `dst_port`, `src_port` (a number or `FIRST-LAST`), `protocol`, `tos` (octet, `VALUE/MASK`); 0 = any |
//!
//! A profile without `pir` is a token bucket, one without `cir` measures nothing. Actions are `pass`, `drop`, `mark OCTET` and
//! `class CLASS`. Slashes in names are written `%2F`. As in the source, removals of a modification come before additions, and a
//! profile takes its filters along.

mod policy;
mod text;

pub use policy::{Unsaid, from_policy, to_policy};

use std::collections::BTreeMap;
use thiserror::Error;

/// Files that a tree has at most.
pub const MAX_FILES: usize = 10_000_000;

/// A tree: the path of each file, with slashes, and what is in it.
pub type Tree = BTreeMap<String, String>;

/// Parameters by name.
pub type Parameters = BTreeMap<&'static str, String>;

const CLASS: [&str; 5] = ["parent", "bandwidth", "priority", "borrow", "queue"];
const PROFILE: [&str; 8] = ["interface", "cir", "cbs", "pir", "pbs", "green", "yellow", "red"];
const FILTER: [&str; 6] = ["dst", "dst_port", "src", "src_port", "protocol", "tos"];

/// What trees say, without their form. Filters are by the name of what they are of, and their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Classes.
    pub classes: BTreeMap<String, Parameters>,
    /// Filters of classes.
    pub class_filters: BTreeMap<(String, String), Parameters>,
    /// Profiles.
    pub profiles: BTreeMap<String, Parameters>,
    /// Filters of profiles.
    pub profile_filters: BTreeMap<(String, String), Parameters>,
}

/// What is wrong with a file or a folder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// No such path is in such a tree.
    #[error("is not a path of such a tree")]
    Path,
    /// A parameter is missing.
    #[error("has no {0}")]
    Missing(&'static str),
    /// A value is none of its parameter.
    #[error("has something else in it than is allowed: {0}")]
    Value(&'static str),
    /// A filter of a class or profile that is not there.
    #[error("is of something that is not there")]
    Orphan,
    /// Beyond [`MAX_FILES`].
    #[error("is one file too many")]
    TooMany,
}

/// Something wrong with a tree, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path} {fault}")]
pub struct TreeError {
    /// The file or folder.
    pub path: String,
    /// What.
    pub fault: Fault,
}

type Errors = Vec<TreeError>;

fn wrong(path: impl Into<String>, fault: Fault) -> TreeError {
    TreeError { path: path.into(), fault }
}

/// Reads what is in force.
///
/// # Errors
/// Everything that is wrong.
pub fn read_maintenance(tree: &Tree) -> Result<Contents, Errors> {
    let (mut out, mut errors) = (Contents::default(), too_many(tree));
    for (path, value) in tree {
        let pieces: Vec<&str> = path.split('/').collect();
        let known = match pieces[..] {
            ["class", class, parameter] => put(&mut out.classes, own(class), &CLASS, parameter, value),
            ["profile", profile, parameter] => {
                put(&mut out.profiles, own(profile), &PROFILE, parameter, value)
            }
            ["class_filter", of, filter, parameter] => {
                put(&mut out.class_filters, pair(of, filter), &FILTER, parameter, value)
            }
            ["profile_filter", of, filter, parameter] => {
                put(&mut out.profile_filters, pair(of, filter), &FILTER, parameter, value)
            }
            _ => None,
        };
        errors.extend(known.is_none().then(|| wrong(path, Fault::Path)));
    }
    complete(&out, &mut errors);
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

/// Writes what is in force. What is not complete is written as it is.
pub fn write_maintenance(contents: &Contents) -> Tree {
    let mut tree = Tree::new();
    for (class, parameters) in &contents.classes {
        leaves(&mut tree, &format!("class/{}", escaped(class)), parameters);
    }
    for ((of, filter), parameters) in &contents.class_filters {
        leaves(&mut tree, &format!("class_filter/{}/{}", escaped(of), escaped(filter)), parameters);
    }
    for (profile, parameters) in &contents.profiles {
        leaves(&mut tree, &format!("profile/{}", escaped(profile)), parameters);
    }
    for ((of, filter), parameters) in &contents.profile_filters {
        leaves(&mut tree, &format!("profile_filter/{}/{}", escaped(of), escaped(filter)), parameters);
    }
    tree
}

/// Does what a modification says: profiles go with their filters and come, then filters go and come, then classes change. What
/// is to go and is not there is no error. With errors nothing is done.
///
/// # Errors
/// Everything that is wrong.
pub fn modify(contents: &mut Contents, tree: &Tree) -> Result<(), Errors> {
    let (mut out, mut errors) = (contents.clone(), too_many(tree));
    let (mut login, mut add) = (Contents::default(), BTreeMap::new());
    let mut gone = Vec::new();
    for (path, value) in tree {
        let pieces: Vec<&str> = path.split('/').collect();
        let known = match pieces[..] {
            ["class", class, parameter] => put(&mut login.classes, own(class), &CLASS, parameter, value),
            ["profile", "login", profile, parameter] => {
                put(&mut login.profiles, own(profile), &PROFILE, parameter, value)
            }
            ["profile", "logout", profile] => own(profile).map(|profile| {
                out.profiles.remove(&profile);
                out.profile_filters.retain(|(of, _), _| *of != profile);
            }),
            ["profile_filter", of, "add", filter, parameter] => {
                put(&mut add, pair(of, filter), &FILTER, parameter, value)
            }
            // The source has the parameters there too, and does not need them.
            ["profile_filter", of, "remove", filter] | ["profile_filter", of, "remove", filter, _] => {
                pair(of, filter).map(|filter| gone.push(filter))
            }
            _ => None,
        };
        errors.extend(known.is_none().then(|| wrong(path, Fault::Path)));
    }
    out.profiles.extend(login.profiles);
    gone.iter().for_each(|filter| drop(out.profile_filters.remove(filter)));
    out.profile_filters.extend(add);
    for (class, parameters) in login.classes {
        out.classes.entry(class).or_default().extend(parameters);
    }
    complete(&out, &mut errors);
    if errors.is_empty() {
        *contents = out;
        Ok(())
    } else {
        Err(errors)
    }
}

/// The modification that makes of one content another; `None` if none does, as filters of classes never change and classes are
/// never removed.
pub fn modification(before: &Contents, after: &Contents) -> Option<Tree> {
    let stay = before.classes.keys().all(|class| after.classes.contains_key(class));
    if before.class_filters != after.class_filters || !stay {
        return None;
    }
    let mut tree = Tree::new();
    for (class, parameters) in
        after.classes.iter().filter(|(name, now)| before.classes.get(*name) != Some(now))
    {
        leaves(&mut tree, &format!("class/{}", escaped(class)), parameters);
    }
    for profile in before.profiles.keys().filter(|profile| !after.profiles.contains_key(*profile)) {
        tree.insert(format!("profile/logout/{}", escaped(profile)), String::new());
    }
    for (profile, parameters) in
        after.profiles.iter().filter(|(name, now)| before.profiles.get(*name) != Some(now))
    {
        leaves(&mut tree, &format!("profile/login/{}", escaped(profile)), parameters);
    }
    for (of, filter) in before.profile_filters.keys() {
        let is_gone = !after.profile_filters.contains_key(&(of.clone(), filter.clone()));
        if is_gone && after.profiles.contains_key(of) {
            tree.insert(format!("profile_filter/{}/remove/{}", escaped(of), escaped(filter)), String::new());
        }
    }
    for (key, parameters) in &after.profile_filters {
        if before.profile_filters.get(key) != Some(parameters) {
            leaves(
                &mut tree,
                &format!("profile_filter/{}/add/{}", escaped(&key.0), escaped(&key.1)),
                parameters,
            );
        }
    }
    Some(tree)
}

fn too_many(tree: &Tree) -> Errors {
    tree.keys().nth(MAX_FILES).map(|path| wrong(path, Fault::TooMany)).into_iter().collect()
}

/// Puts a value where it belongs; `None` if there is no such parameter, or no such name.
fn put<K: Ord>(
    all: &mut BTreeMap<K, Parameters>,
    key: Option<K>,
    known: &[&'static str],
    parameter: &str,
    value: &str,
) -> Option<()> {
    let parameter = known.iter().find(|name| **name == parameter)?;
    all.entry(key?).or_default().insert(parameter, value.trim().to_owned());
    Some(())
}

fn leaves(tree: &mut Tree, folder: &str, parameters: &Parameters) {
    tree.extend(parameters.iter().map(|(name, value)| (format!("{folder}/{name}"), format!("{value}\n"))));
}

/// That everything has its parameters, and that filters are of something.
fn complete(contents: &Contents, errors: &mut Errors) {
    let mut check = |folder: String, known: &[&'static str], has: &Parameters| {
        let missing = known.iter().filter(|name| !has.contains_key(**name));
        errors.extend(missing.map(|name| wrong(&folder, Fault::Missing(name))));
    };
    for (class, has) in &contents.classes {
        check(format!("class/{}", escaped(class)), &CLASS, has);
    }
    for (profile, has) in &contents.profiles {
        check(format!("profile/{}", escaped(profile)), &PROFILE, has);
    }
    for ((of, filter), has) in &contents.class_filters {
        check(format!("class_filter/{}/{}", escaped(of), escaped(filter)), &FILTER, has);
    }
    for ((of, filter), has) in &contents.profile_filters {
        check(format!("profile_filter/{}/{}", escaped(of), escaped(filter)), &FILTER, has);
    }
    for (of, filter) in contents.class_filters.keys().filter(|(of, _)| !contents.classes.contains_key(of)) {
        errors.push(wrong(format!("class_filter/{}/{}", escaped(of), escaped(filter)), Fault::Orphan));
    }
    for (of, filter) in contents.profile_filters.keys().filter(|(of, _)| !contents.profiles.contains_key(of))
    {
        errors.push(wrong(format!("profile_filter/{}/{}", escaped(of), escaped(filter)), Fault::Orphan));
    }
}

/// A name as a piece of a path: no slash, and neither `.` nor `..`.
fn escaped(name: &str) -> String {
    match name {
        "." | ".." => name.replace('.', "%2E"),
        name => name.replace('/', "%2F"),
    }
}

/// The name of a piece of a path; `None` if it is none.
fn own(piece: &str) -> Option<String> {
    let name = piece.replace("%2F", "/").replace("%2E", ".");
    perhop_model::Name::new(&name).ok().map(|_| name)
}

fn pair(of: &str, name: &str) -> Option<(String, String)> {
    Some((own(of)?, own(name)?))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
