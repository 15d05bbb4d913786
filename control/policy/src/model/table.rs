//! Subscribers as lines of comma-separated values: `name,sla,prefixes,router,port`, prefixes separated by blanks.

use super::text;
use super::{At, Policy, Subscriber};
use perhop_model::Name;
use thiserror::Error;

/// Most lines of a table.
pub const MAX_LINES: usize = 1_000_000;

const HEAD: [&str; 5] = ["name", "sla", "prefixes", "router", "port"];

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LineFault {
    /// The first line does not name the columns.
    #[error("the first line must be: name,sla,prefixes,router,port")]
    Head,
    /// Another number of columns, quotes that do not end, octets that are no text.
    #[error("this is not a line of five columns")]
    Form,
    /// Not a name.
    #[error("column \"{0}\" is not a name: 1 to 128 characters of A-Z a-z 0-9 . _ : / -")]
    Name(&'static str),
    /// Not prefixes.
    #[error("column \"prefixes\" has something else than prefixes, such as 192.0.2.0/24")]
    Prefix,
    /// A router without a port, or a port without a router.
    #[error("\"router\" and \"port\" are given together or not at all")]
    Half,
    /// The name of a line before.
    #[error("there is a line with this name before")]
    Twice,
    /// Beyond [`MAX_LINES`].
    #[error("there are more than {MAX_LINES} lines")]
    TooMany,
}

/// Something wrong with a table, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct TableError {
    /// From 1; the head is one.
    pub line: u64,
    /// What.
    pub fault: LineFault,
}

/// Takes the subscribers of a table into a policy, in the place of those of the same name; what they refer to is checked with
/// the policy. With errors nothing is taken.
///
/// # Errors
/// Everything that is wrong, by line.
pub fn add_subscribers(policy: &mut Policy, table: &[u8]) -> Result<usize, Vec<TableError>> {
    let mut errors = Vec::new();
    let mut read = std::collections::BTreeMap::new();
    let mut rows =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(table);
    for (count, row) in rows.records().enumerate() {
        let line = match &row {
            Ok(row) => row.position().map_or(0, csv::Position::line),
            Err(wrong) => wrong.position().map_or(0, csv::Position::line),
        };
        let wrong = |fault| TableError { line, fault };
        if count > MAX_LINES {
            errors.push(wrong(LineFault::TooMany));
            break;
        }
        let Ok(row) = row else {
            errors.push(wrong(LineFault::Form));
            continue;
        };
        if count == 0 {
            if row.iter().ne(HEAD) {
                errors.push(wrong(LineFault::Head));
                break;
            }
            continue;
        }
        let columns: Vec<&str> = row.iter().collect();
        match columns[..] {
            [name, sla, prefixes, router, port] => match line_of(name, sla, prefixes, router, port) {
                Ok((name, subscriber)) => {
                    if read.insert(name, subscriber).is_some() {
                        errors.push(wrong(LineFault::Twice));
                    }
                }
                Err(fault) => errors.push(wrong(fault)),
            },
            _ => errors.push(wrong(LineFault::Form)),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let count = read.len();
    policy.subscribers.extend(read);
    Ok(count)
}

fn line_of(
    name: &str,
    sla: &str,
    prefixes: &str,
    router: &str,
    port: &str,
) -> Result<(Name, Subscriber), LineFault> {
    let named = |column, text: &str| Name::new(text).map_err(|_| LineFault::Name(column));
    let prefixes = prefixes.split_whitespace().map(text::prefix).collect::<Result<_, _>>();
    let at = match (router, port) {
        ("", "") => None,
        ("", _) | (_, "") => return Err(LineFault::Half),
        (router, port) => Some(At { router: named("router", router)?, port: named("port", port)? }),
    };
    let subscriber =
        Subscriber { sla: named("sla", sla)?, prefixes: prefixes.map_err(|_| LineFault::Prefix)?, at };
    Ok((named("name", name)?, subscriber))
}

/// The subscribers of a policy as a table that [`add_subscribers`] takes.
pub fn subscribers_as_table(policy: &Policy) -> String {
    let mut out = HEAD.join(",");
    out.push('\n');
    for (name, subscriber) in &policy.subscribers {
        let prefixes: Vec<String> = subscriber.prefixes.iter().map(ToString::to_string).collect();
        let (router, port) =
            subscriber.at.as_ref().map_or(("", ""), |at| (at.router.as_str(), at.port.as_str()));
        // Names and prefixes have neither commas nor quotes.
        out.push_str(&format!("{name},{},{},{router},{port}\n", subscriber.sla, prefixes.join(" ")));
    }
    out
}
