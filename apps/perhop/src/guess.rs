//! What somebody meant who writes a word of the command line in another place: `perhop events` for `perhop show events`.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Most commands that are named.
const MOST: usize = 5;

/// The error of the command line, with the commands that an unknown subcommand is a part of elsewhere, if there are any.
pub fn explained(mut error: Error, all: &Command) -> Error {
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word.clone(),
        _ => return error,
    };
    let mut lines = Vec::new();
    find(all, all.get_name(), &word, &mut lines);
    if lines.is_empty() {
        return error;
    }
    let more = if lines.len() > MOST { " and others" } else { "" };
    lines.truncate(MOST);
    // What is the very word is meant rather than one that looks like it.
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = format!("did you mean {}{more}?", lines.join(" or "));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The lines below a command that end in this word: as a subcommand, or as a value of its first argument.
fn find(command: &Command, line: &str, word: &str, lines: &mut Vec<String>) {
    let first = command.get_positionals().next();
    let values = first.into_iter().flat_map(|argument| argument.get_possible_values());
    let named = values.filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned());
    let subcommands = || command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    for name in named.chain(subcommands().map(|subcommand| subcommand.get_name().to_owned())) {
        if is_meant(&name, word) {
            lines.push(format!("`{line} {name}`"));
        }
    }
    for subcommand in subcommands() {
        find(subcommand, &format!("{line} {}", subcommand.get_name()), word, lines);
    }
}

/// Whether a word is this name, or the singular of it.
fn is_meant(name: &str, word: &str) -> bool {
    let singular = |ending| name.strip_suffix(ending) == Some(word);
    name.eq_ignore_ascii_case(word) || singular("s") || singular("es")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn said(words: &[&str]) -> String {
        let error = Cli::try_parse_from([&["perhop"][..], words].concat()).expect_err("no such command");
        explained(error, &Cli::command()).to_string()
    }

    #[test]
    fn a_word_of_elsewhere_leads_there() {
        for (words, line) in [
            (&["events"][..], "`perhop show events`"),
            (&["event"], "`perhop show events`"),
            (&["class"], "`perhop show classes`"),
            (&["explain", "--in", "lan"], "`perhop router explain`"),
            (&["compare", "a", "b"], "`perhop lab compare`"),
            (&["lab", "classes"], "`perhop show classes`"),
            (&["announce"], "`perhop agent announce`"),
            (&["bash"], "`perhop completions bash`"),
        ] {
            let said = said(words);
            assert!(said.contains(&format!("did you mean {line}?")), "{words:?}: {said}");
            assert!(!said.contains("similar"), "{said}");
        }
    }

    #[test]
    fn every_place_of_a_word_is_named() {
        let said = said(&["run"]);
        assert!(said.contains("`perhop router run` or `perhop agent run` or "), "{said}");
        assert!(said.contains("`perhop lab run`"), "{said}");
    }

    #[test]
    fn a_slip_of_the_pen_keeps_the_suggestion_of_what_looks_like_it() {
        let said = said(&["ruoter"]);
        assert!(said.contains("'router'") && !said.contains("did you mean"), "{said}");
    }
}
