//! The commands that the pages show, run in the order in which they stand there, in a folder that has what a clone has.

use super::{Scratch, command, root};
use std::collections::BTreeSet;
use std::path::Path;

/// What becomes of a command here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It runs, and ends well.
    Runs,
    /// It needs what a test has not, or takes long: what it says is understood.
    Understood,
    /// A check of the file that it names runs instead.
    FileIsGood,
    /// Not ours: nothing of it is tried.
    Elsewhere,
}

/// Commands of all pages that are not run as they stand, by how they begin, and why.
const TREATED: [(&str, Way, &str); 36] = [
    ("make ", Way::Elsewhere, "the target is looked up in the Makefile"),
    ("curl ", Way::Elsewhere, "asks a running router"),
    ("ip ", Way::Elsewhere, "changes the machine"),
    ("cd ", Way::Elsewhere, "into a result; what follows there is tried where it is made"),
    ("perhop router run", Way::FileIsGood, "forwards until it is stopped"),
    ("perhop agent run", Way::FileIsGood, "decides until it is stopped"),
    ("perhop router reload", Way::Understood, "asks a running router"),
    ("perhop router apply", Way::Understood, "asks a running router"),
    ("perhop router restore", Way::Understood, "changes the machine"),
    ("perhop agent announce", Way::Understood, "asks a running agent"),
    ("perhop agent replay", Way::Understood, "needs the record of an agent"),
    ("perhop abr --host", Way::Understood, "changes the machine"),
    ("perhop router explain --router", Way::Understood, "asks a running router"),
    ("perhop realtime classify", Way::Understood, "reads a capture that the reader has"),
    ("perhop lab record", Way::Understood, "reads captures that the reader has"),
    ("perhop lab compare", Way::Understood, "reads results of runs"),
    ("perhop show", Way::Understood, "asks a running router"),
    ("perhop controller run", Way::Understood, "looks after a domain until it is stopped"),
    ("perhop sip-proxy run", Way::Understood, "passes calls on until it is stopped"),
    ("perhop reserve", Way::Understood, "asks a running controller"),
    ("perhop policy diff", Way::Understood, "asks a running controller"),
    ("perhop policy apply", Way::Understood, "asks a running controller"),
    ("perhop policy confirm", Way::Understood, "asks a running controller"),
    ("perhop policy history", Way::Understood, "asks a running controller"),
    ("perhop policy rollback", Way::Understood, "asks a running controller"),
    ("perhop policy export", Way::Understood, "asks a running controller"),
    ("perhop policy import", Way::Understood, "asks a running controller"),
    ("perhop user", Way::Understood, "asks a running controller"),
    ("perhop status", Way::Understood, "asks a running controller"),
    ("perhop cops request", Way::Understood, "asks a running controller"),
    ("perhop tcapi call", Way::Understood, "asks a running router"),
    ("perhop tcapi serve", Way::Understood, "changes the machine"),
    ("perhop bench", Way::Understood, "takes long"),
    ("perhop demo", Way::Understood, "takes long"),
    ("perhop lab tune", Way::Understood, "takes long"),
    ("perhop lab mix", Way::Understood, "takes long"),
];

/// A command as a page shows it.
#[derive(Debug)]
struct Shown {
    line: usize,
    text: String,
}

/// Writes the files that a page shows and names in the sentence before: "This is `uplink.toml`:".
fn write_shown_files(page: &str, folder: &Path) {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut before = String::new();
    for (at, part) in text.split("```").enumerate() {
        let Some((_, content)) = part.split_once('\n').filter(|_| at % 2 == 1) else {
            before = part.to_owned();
            continue;
        };
        let sentence =
            before.trim_end().rsplit("\n\n").find(|part| !part.starts_with("<!--")).unwrap_or_default();
        let mut named = sentence.split('`').skip(1).step_by(2);
        let is_file =
            |name: &&str| !name.contains('/') && [".toml", ".json"].iter().any(|end| name.ends_with(end));
        if let Some(name) = named.find(is_file).filter(|name| !root().join(name).exists()) {
            std::fs::write(folder.join(name), content).unwrap();
        }
    }
}

/// Commands of a page, from blocks and from sentences, in their order.
fn commands(page: &str) -> Vec<Shown> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let mut note = |text: &str| {
            found.push(Shown { line: number + 1, text: text.to_owned() });
        };
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
        } else if let Some(language) = block {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            if ["", "sh", "console"].contains(&language) && is_command(line) {
                note(line.split("  #").next().unwrap_or(line).trim());
            }
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            spans
                .map(|span| span.strip_prefix("sudo ").unwrap_or(span))
                .filter(|s| is_command(s))
                .for_each(note);
        }
    }
    found
}

fn is_command(text: &str) -> bool {
    text.starts_with("perhop ") || TREATED.iter().any(|(begin, ..)| text.starts_with(begin))
}

/// Words as a shell has them: quotes hold them together.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            (_, c) => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A word that stands for another: `FILE`, `[--json]`, `N`, `…`.
fn is_placeholder(word: &str) -> bool {
    let is_upper = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    word.contains(['[', ']', '|', '…'])
        || word.ends_with("...")
        || word.split(['=', '/', ',', '.']).any(is_upper)
        || ["N", "X"].contains(&word)
}

/// The page says so much of it that it can be run.
fn is_whole(words: &[&str]) -> bool {
    !words.iter().any(|word| is_placeholder(word))
}

/// What is wrong when the command with these words does not end well.
fn ends_well(folder: &Path, words: &[&str]) -> Option<String> {
    let output = command(words).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code() != Some(0)).then_some(said)
}

/// What is wrong with words before the first that is no name of a subcommand, and with their options.
fn understood(folder: &Path, words: &[&str]) -> Option<String> {
    if is_whole(words) {
        return ends_well(folder, &[words, &["--help"]].concat());
    }
    let path = words.iter().copied().take_while(|word| is_name(word));
    let output = command(&path.chain(["--help"]).collect::<Vec<_>>()).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    if output.status.code() != Some(0) {
        return Some("no such command".to_owned());
    }
    let options = words.iter().filter_map(|word| word.trim_matches(['[', ']']).strip_prefix("--"));
    let mut options = options.filter_map(|option| option.split(['=', '[', ']']).next());
    options
        .find(|option| !help.contains(&format!("--{option}")))
        .map(|option| format!("no option --{option}"))
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
}

/// A folder with what a clone has.
fn clone(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let root = root().canonicalize().unwrap();
    for entry in std::fs::read_dir(&root).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if name != "out" && name != "target" {
            std::os::unix::fs::symlink(entry.path(), scratch.0.join(name)).unwrap();
        }
    }
    scratch
}

fn pages() -> Vec<String> {
    let mut pages = super::files("docs", ".md");
    pages.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    pages
}

/// What is wrong with a command of a page.
fn wrong(folder: &Path, way: Way, words: &[&str]) -> Option<String> {
    let arguments = words.get(1..)?;
    match way {
        Way::Elsewhere if words[0] == "make" => {
            let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
            let is_there = makefile.lines().any(|line| line.starts_with(&format!("{}:", words[1])));
            (!is_there).then(|| "no such target".to_owned())
        }
        Way::Elsewhere => None,
        Way::FileIsGood if is_whole(words) && words.len() > 3 => {
            let file = words.iter().find(|word| word.ends_with(".toml"))?;
            ends_well(folder, &[words[1], "check", file]).or_else(|| understood(folder, arguments))
        }
        // Tests of the scenarios run them.
        Way::Runs if !arguments.starts_with(&["lab", "run"]) && is_whole(words) && words.len() > 3 => {
            ends_well(folder, arguments)
        }
        _ => understood(folder, arguments),
    }
}

#[test]
fn every_command_of_the_pages_runs_or_is_understood() {
    let mut unused: BTreeSet<&str> = TREATED.iter().map(|(begin, ..)| *begin).collect();
    let mut all_wrong = String::new();
    for page in pages() {
        let folder = clone(&format!("page-{}", page.replace(['/', '.'], "-")));
        write_shown_files(&page, &folder.0);
        for shown in commands(&page) {
            let treated = TREATED.iter().find(|(begin, ..)| shown.text.starts_with(begin));
            treated.iter().for_each(|(begin, ..)| {
                unused.remove(begin);
            });
            let words = words(&shown.text);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Some(why) = wrong(&folder.0, treated.map_or(Way::Runs, |(_, way, _)| *way), &words) {
                all_wrong += &format!("{page}:{}: {}\n{why}\n", shown.line, shown.text);
            }
        }
    }
    assert!(all_wrong.is_empty(), "{all_wrong}");
    assert!(unused.is_empty(), "no page has a command that begins so: {unused:?}");
}
