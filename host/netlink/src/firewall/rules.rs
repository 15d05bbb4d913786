//! Rules of the kernel's packet filter that send TCP to the queue: what they are, and keeping them there while they are
//! wanted.

use super::error::FirewallError;
use super::tool::Firewall;
use ipnet::IpNet;

/// Most rules of an IP version.
const MOST_RULES: usize = 256;
/// How often a rule without a comment is looked for: it may be there several times.
const MOST_LEFT: usize = 16;
const TABLE: [&str; 2] = ["-t", "mangle"];

/// Which packets go to the queue.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Number of the queue.
    pub queue: u16,
    /// What passes through, instead of what this host sends and receives.
    pub forward: bool,
    /// Only by these interfaces; all but `lo`, where packets would come twice.
    pub interfaces: Vec<String>,
    /// Only with one of these ports, here or there.
    pub ports: Vec<u16>,
    /// Only to and from these.
    pub prefixes: Vec<IpNet>,
}

/// Which end of the packet's way an option is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    From,
    To,
}

impl Selection {
    /// The first of its interfaces that is not among those `known`. `ppp+` stands for all that begin so.
    pub fn missing(&self, known: &[String]) -> Option<&str> {
        let is_there = |given: &String| match given.strip_suffix('+') {
            Some(begin) => known.iter().any(|name| name.starts_with(begin)),
            None => known.contains(given),
        };
        self.interfaces.iter().find(|given| !is_there(given)).map(String::as_str)
    }

    /// Rules are found again by it, those of a program that was killed too.
    fn comment(&self) -> String {
        format!("perhop-abr-{}", self.queue)
    }

    /// Chains, and which end is not this host.
    fn chains(&self) -> &'static [(&'static str, &'static [End])] {
        match self.forward {
            true => &[("FORWARD", &[End::From, End::To])],
            false => &[("OUTPUT", &[End::To]), ("INPUT", &[End::From])],
        }
    }

    /// The rules of an IP version, chain first, without `-A` and comment.
    ///
    /// # Errors
    /// There would be more than 256.
    pub fn rules(&self, v6: bool) -> Result<Vec<Vec<String>>, FirewallError> {
        let prefixes: Vec<&IpNet> =
            self.prefixes.iter().filter(|net| matches!(net, IpNet::V6(_)) == v6).collect();
        if prefixes.is_empty() && !self.prefixes.is_empty() {
            return Ok(Vec::new());
        }
        let mut rules = Vec::new();
        for (chain, ends) in self.chains() {
            let words = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<String>>();
            let mut partial = vec![words(&[chain])];
            let interfaces = self.interfaces.iter().flat_map(|i| ends.iter().map(move |end| (i, *end)));
            let flag = |end| if end == End::From { "-i" } else { "-o" };
            let mut by: Vec<Vec<String>> = interfaces.map(|(i, end)| words(&[flag(end), i])).collect();
            if by.is_empty() && !self.forward {
                by = ends.iter().map(|end| words(&["!", flag(*end), "lo"])).collect();
            }
            partial = product(partial, &by);
            partial = product(partial, &[words(&["-p", "tcp"])]);
            let ports = self.ports.iter().map(ToString::to_string);
            let ports = ports.flat_map(|port| ["--sport", "--dport"].map(|which| words(&[which, &port])));
            partial = product(partial, &ports.collect::<Vec<_>>());
            let nets = prefixes.iter().flat_map(|net| ends.iter().map(move |end| (net.to_string(), *end)));
            let nets = nets.map(|(net, end)| words(&[if end == End::From { "-s" } else { "-d" }, &net]));
            rules.extend(product(partial, &nets.collect::<Vec<_>>()));
        }
        let queue = self.queue.to_string();
        for rule in &mut rules {
            let target = ["-j", "NFQUEUE", "--queue-num", &queue, "--queue-bypass"];
            rule.extend(target.map(str::to_owned));
        }
        if rules.len() > MOST_RULES {
            return Err(FirewallError::TooManyRules { given: rules.len(), most: MOST_RULES });
        }
        Ok(rules)
    }

    /// The rules as commands of a shell, and for nft.
    ///
    /// # Errors
    /// As [`Selection::rules`].
    pub fn printed(&self) -> Result<String, FirewallError> {
        let mut text = String::new();
        for (tool, v6) in [("iptables", false), ("ip6tables", true)] {
            for rule in self.rules(v6)? {
                let comment = self.comment();
                text.push_str(&format!(
                    "{tool} {} -A {} -m comment --comment {comment}\n",
                    TABLE.join(" "),
                    rule.join(" ")
                ));
            }
        }
        text.push_str(&format!("# or, with nft:\ntable inet {} {{\n", self.comment()));
        for (chain, _) in self.chains() {
            let hook = chain.to_lowercase();
            text.push_str(&format!("  chain {hook} {{\n    type filter hook {hook} priority mangle;\n"));
            let mut lines: Vec<String> = Vec::new();
            for rule in self.rules(false)?.iter().chain(&self.rules(true)?).filter(|rule| rule[0] == *chain) {
                let line = nft(rule, self.queue);
                // What does not depend on the version is the same for both.
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            text.push_str(&lines.concat());
            text.push_str("  }\n");
        }
        text.push_str("}\n");
        Ok(text)
    }
}

/// Every rule so far with every choice; without a choice the rules as they are.
fn product(rules: Vec<Vec<String>>, choices: &[Vec<String>]) -> Vec<Vec<String>> {
    if choices.is_empty() {
        return rules;
    }
    rules
        .iter()
        .flat_map(|rule| choices.iter().map(move |c| [rule.as_slice(), c.as_slice()].concat()))
        .collect()
}

/// The same rule in the words of nft.
fn nft(rule: &[String], queue: u16) -> String {
    let mut line = "    meta l4proto tcp".to_owned();
    let mut not = "";
    for pair in rule.windows(2) {
        let family = if pair[1].contains(':') { "ip6" } else { "ip" };
        match pair[0].as_str() {
            "!" => not = "!= ",
            "-i" => line.push_str(&format!(" iifname {not}\"{}\"", pair[1])),
            "-o" => line.push_str(&format!(" oifname {not}\"{}\"", pair[1])),
            "--sport" => line.push_str(&format!(" tcp sport {}", pair[1])),
            "--dport" => line.push_str(&format!(" tcp dport {}", pair[1])),
            "-s" => line.push_str(&format!(" {family} saddr {}", pair[1])),
            "-d" => line.push_str(&format!(" {family} daddr {}", pair[1])),
            _ => {}
        }
    }
    format!("{line} queue flags bypass to {queue}\n")
}

/// Rules in force; taken out when dropped.
#[derive(Debug)]
pub struct Rules<F: Firewall> {
    firewalls: Vec<F>,
    /// Of each rule the program and what it was put in with.
    placed: Vec<(usize, Vec<String>)>,
}

impl<F: Firewall> Rules<F> {
    /// Puts them in; rules that a killed program left for the same queue go first. Nobody else has it: the caller has opened
    /// the queue.
    ///
    /// # Errors
    /// A rule is refused. None is left then.
    pub fn place(firewalls: Vec<F>, selection: &Selection) -> Result<Self, FirewallError> {
        let mut rules = Self { firewalls, placed: Vec::new() };
        for index in 0..rules.firewalls.len() {
            rules.sweep(index, selection)?;
            for rule in selection.rules(rules.firewalls[index].is_v6())? {
                rules.add(index, rule, selection)?;
            }
        }
        Ok(rules)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.placed.len()
    }

    fn add(&mut self, index: usize, rule: Vec<String>, selection: &Selection) -> Result<(), FirewallError> {
        let firewall = &self.firewalls[index];
        let comment = ["-m", "comment", "--comment", &selection.comment()].map(str::to_owned);
        let commented = [rule.as_slice(), comment.as_slice()].concat();
        let refused = firewall.run(&command("-A", &commented))?;
        if refused.is_ok() {
            self.placed.push((index, commented));
            return Ok(());
        }
        // A kernel may lack the comment.
        match firewall.run(&command("-A", &rule))? {
            Ok(_) => {
                self.placed.push((index, rule));
                Ok(())
            }
            Err(said) => {
                let rule = command("-A", &rule).join(" ");
                Err(FirewallError::Rule { tool: firewall.name(), rule, said })
            }
        }
    }

    /// Takes out what a killed program has left: by the comment, and by the rule itself.
    fn sweep(&self, index: usize, selection: &Selection) -> Result<(), FirewallError> {
        let firewall = &self.firewalls[index];
        let listed = firewall
            .run(&[&TABLE[..], &["-S"]].concat().iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())?;
        let listed = listed.map_err(|said| FirewallError::NoTable { tool: firewall.name(), said })?;
        let comment = selection.comment();
        for line in listed.lines() {
            let words: Vec<String> =
                line.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
            let is_ours = words.windows(2).any(|pair| pair[0] == "--comment" && pair[1] == comment);
            if is_ours && words[0] == "-A" {
                drop(firewall.run(&command("-D", &words[1..]))?);
            }
        }
        for rule in selection.rules(firewall.is_v6())? {
            for _ in 0..MOST_LEFT {
                if firewall.run(&command("-D", &rule))?.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self) {
        for (index, rule) in self.placed.drain(..).rev() {
            // Somebody may have been faster; what is left lets packets pass.
            let _ = self.firewalls[index].run(&command("-D", &rule));
        }
    }
}

impl<F: Firewall> Drop for Rules<F> {
    fn drop(&mut self) {
        self.remove();
    }
}

fn command(what: &str, rule: &[String]) -> Vec<String> {
    let head = TABLE.iter().chain([&what]).map(|word| (*word).to_owned());
    head.chain(rule.iter().cloned()).collect()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
