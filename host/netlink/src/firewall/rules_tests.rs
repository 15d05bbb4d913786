//! Rules against a packet filter that only keeps them.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Keeps rules as lines, as `-S` lists them.
#[derive(Clone, Default)]
struct Kept {
    lines: Rc<RefCell<Vec<String>>>,
    v6: bool,
    no_comments: bool,
    /// Refuses everything from so many rules on.
    most: Option<usize>,
}

impl Firewall for Kept {
    fn name(&self) -> String {
        "kept".to_owned()
    }
    fn is_v6(&self) -> bool {
        self.v6
    }
    fn run(&self, args: &[String]) -> Result<Result<String, String>, FirewallError> {
        assert_eq!(&args[..2], TABLE);
        let mut lines = self.lines.borrow_mut();
        let rule = format!("-A {}", args[3..].join(" "));
        Ok(match args[2].as_str() {
            "-S" => Ok(lines.join("\n")),
            "-A" if self.no_comments && rule.contains("comment") => Err("no chain/target/match".to_owned()),
            "-A" if self.most.is_some_and(|most| lines.len() >= most) => Err("refused".to_owned()),
            "-A" => {
                lines.push(rule);
                Ok(String::new())
            }
            "-D" => match lines.iter().position(|line| *line == rule) {
                Some(at) => {
                    lines.remove(at);
                    Ok(String::new())
                }
                None => Err("bad rule".to_owned()),
            },
            other => panic!("{other}"),
        })
    }
}

fn selection() -> Selection {
    Selection { queue: 7, ..Selection::default() }
}

fn lines(selection: &Selection, v6: bool) -> Vec<String> {
    selection.rules(v6).unwrap().into_iter().map(|rule| rule.join(" ")).collect()
}

const END: &str = "-j NFQUEUE --queue-num 7 --queue-bypass";

#[test]
fn a_host_queues_what_it_sends_and_receives_but_not_to_itself() {
    let expected = [format!("OUTPUT ! -o lo -p tcp {END}"), format!("INPUT ! -i lo -p tcp {END}")];
    assert_eq!(lines(&selection(), false), expected);
    assert_eq!(lines(&selection(), true), expected);
    // Through FORWARD every packet comes once.
    let forward = Selection { forward: true, ..selection() };
    assert_eq!(lines(&forward, false), [format!("FORWARD -p tcp {END}")]);
}

#[test]
fn rules_are_limited_to_what_is_named() {
    let named = Selection {
        interfaces: vec!["eth0".into()],
        ports: vec![443],
        prefixes: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        ..selection()
    };
    assert_eq!(
        lines(&named, false),
        [
            format!("OUTPUT -o eth0 -p tcp --sport 443 -d 10.0.0.0/8 {END}"),
            format!("OUTPUT -o eth0 -p tcp --dport 443 -d 10.0.0.0/8 {END}"),
            format!("INPUT -i eth0 -p tcp --sport 443 -s 10.0.0.0/8 {END}"),
            format!("INPUT -i eth0 -p tcp --dport 443 -s 10.0.0.0/8 {END}"),
        ]
    );
    let v4 = Selection { prefixes: vec!["10.0.0.0/8".parse().unwrap()], ..selection() };
    assert!(lines(&v4, true).is_empty(), "nothing of IPv6 is named");
    let many = Selection { ports: (1..=65).collect(), ..selection() };
    assert!(matches!(many.rules(false), Err(FirewallError::TooManyRules { given: 260, most: MOST_RULES })));
}

#[test]
fn rules_come_and_go_and_those_of_a_killed_program_too() {
    for no_comments in [false, true] {
        let kept = Kept { no_comments, ..Kept::default() };
        let foreign = "-A OUTPUT -m comment --comment perhop-abr-70 -j MARK --set-mark 1".to_owned();
        kept.lines.borrow_mut().push(foreign.clone());
        let rules = Rules::place(vec![kept.clone()], &selection()).unwrap();
        assert_eq!((rules.count(), kept.lines.borrow().len()), (2, 3));
        // Killed: nobody takes them out.
        std::mem::forget(rules);
        let rules = Rules::place(vec![kept.clone()], &selection()).unwrap();
        assert_eq!(kept.lines.borrow().len(), 3, "{:?}", kept.lines);
        drop(rules);
        assert_eq!(*kept.lines.borrow(), [foreign]);
    }
}

#[test]
fn a_refused_rule_leaves_nothing_behind() {
    let kept = Kept { most: Some(1), ..Kept::default() };
    let refused = Rules::place(vec![kept.clone()], &selection()).map(drop);
    assert!(matches!(refused, Err(FirewallError::Rule { said, .. }) if said == "refused"));
    assert!(kept.lines.borrow().is_empty());
}

#[test]
fn what_is_printed_has_the_same_rules_for_nft() {
    let named = Selection { interfaces: vec!["eth0".into()], ports: vec![443], ..selection() };
    let text = named.printed().unwrap();
    assert!(text.contains("iptables -t mangle -A OUTPUT -o eth0 -p tcp --sport 443 -j NFQUEUE"), "{text}");
    let line = "    meta l4proto tcp iifname \"eth0\" tcp dport 443 queue flags bypass to 7\n";
    assert_eq!(text.matches(line).count(), 1, "one for both versions: {text}");
    let plain = selection().printed().unwrap();
    assert!(plain.contains("meta l4proto tcp oifname != \"lo\" queue flags bypass to 7\n"), "{plain}");
}
