//! The agent's file, of which docs/agent-file.md has every key.
//!
//! Settings that cannot be stable are errors at their keys that name the nearest possible ones.

use crate::bandwidth::{BandwidthSettings, read};
use crate::leases::{LeaseSettings, leases};
use crate::unstable;
use perhop_allocate::broker::EmulatedBrokerConfig;
use perhop_allocate::congestion::CongestionConfig;
use perhop_allocate::logarithmic::LogarithmicConfig;
use perhop_allocate::threshold::ThresholdConfig;
use perhop_allocate::window::{Metering, WindowConfig};
use perhop_allocate::{Bounds, Law, Patience, Settings, Stability};
use perhop_config::{Diagnostics, Document, TableReader, TextError};
use perhop_model::Name;
use perhop_units::{Bytes, Duration, Probability, Rate, Share};

/// Seed of the broker's chances.
const DEFAULT_SEED: u64 = 1;
/// How long a lease of a measured class lives unless the file says.
const LEASE: Duration = Duration::from_secs(60);
/// Most classes of one agent.
const MAX_CLASSES: usize = 100_000;

/// What an agent's file says.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFile {
    /// The router's name; none = the only one on this machine.
    pub router: Option<Name>,
    /// The emulated broker, and the seed of its chances.
    pub broker: (EmulatedBrokerConfig, u64),
    /// The broker is the domain's controller instead, and leases of measured classes live so long.
    pub leased_for: Option<Duration>,
    /// The classes, in order of the file.
    pub classes: Vec<ClassSettings>,
    /// Links, and the TCP flows that share them.
    pub bandwidth: Box<BandwidthSettings>,
    /// The controller of the router's domain; none = it is in none.
    pub controller: Option<Box<ControllerSettings>>,
    /// What is decided beside the router; none = nothing.
    pub leases: Option<Box<LeaseSettings>>,
    /// The router gets what the policy of its domain wants of it; none = it does not.
    pub policy: Option<DomainPolicy>,
}

/// How the policy of the domain is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainPolicy {
    /// Where what is known of it is kept; none = beside the agent's file.
    pub journal: Option<String>,
}

/// Where the domain's controller is, and as whom it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The router's node in the domain.
    pub node: String,
    /// `https://HOST:PORT`, or the domain's name where its controller runs on this machine; none = the only one here.
    pub at: Option<String>,
    /// File with the agent's token.
    pub token_file: Option<String>,
    /// Certificate of the authority that the controller is believed by.
    pub authority: Option<String>,
    /// The agent's own certificate and its key.
    pub identity: Option<(String, String)>,
}

/// One class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSettings {
    /// Object name in the router.
    pub class: Name,
    /// Whether the allocation is the ceiling too, or the guarantee alone.
    pub limit: bool,
    /// How often the queue is looked at, if the file says.
    pub poll: Option<Duration>,
    /// How it is allocated; stable.
    pub allocation: Stability,
}

impl AgentFile {
    /// Reads `text`; `file` is the name that messages show. All errors are found at once.
    pub fn read(file: &str, text: &str) -> (Option<Self>, Diagnostics) {
        let (document, diagnostics) = Document::parse(file, text);
        let mut root = document.root(&diagnostics);
        let file = Self::of(&mut root);
        root.finish();
        ((diagnostics.errors() == 0).then_some(file), diagnostics)
    }

    /// Reads its tables of a file that may have others, too. What it returns means something only if there are no errors.
    pub fn of(root: &mut TableReader<'_>) -> Self {
        let (document, diagnostics) = (root.document(), root.diagnostics());
        let router = agent(root);
        let (broker, leased_for) = broker(root);
        let controller = controller(root).map(Box::new);
        let leases = leases(root).map(Box::new);
        let policy = policy(root);
        let tables = root.named_tables("class");
        if tables.len() > MAX_CLASSES {
            let d = document.error(document.root_location(), format!("has {} classes", tables.len()));
            diagnostics.push(d.allowed(format!("at most {MAX_CLASSES}")));
        }
        if tables.is_empty() && !root.has("link") && !root.has("controller") && diagnostics.errors() == 0 {
            let d = root.error("class", "is missing, and so are link and controller");
            diagnostics
                .push(d.hint("An agent looks after a [[class]], a [[link]], or what a [controller] wants"));
        }
        let mut classes = Vec::with_capacity(tables.len());
        for (given, mut table) in tables {
            let name = Name::new(given.value).ok();
            if name.is_none() && !given.value.is_empty() {
                diagnostics.push(document.error(given.span, "is not a name of a class"));
            }
            classes.extend(class(&mut table, name));
            table.finish();
        }
        let bandwidth = Box::new(read::bandwidth(root));
        Self { router, broker, leased_for, classes, bandwidth, controller, leases, policy }
    }

    /// Classes of which readings are needed: those it looks after, and those that links serve before policies.
    pub fn measured(&self) -> impl Iterator<Item = &Name> {
        let above = self.bandwidth.links.iter().flat_map(|link| &link.above);
        self.classes.iter().map(|class| &class.class).chain(above)
    }

    /// How often queues are to be looked at; none = only at the ends of intervals, as no class has congestion control.
    pub fn poll(&self) -> Option<Duration> {
        let of_class = |class: &ClassSettings| {
            let own = class.allocation.settings().congestion?.sampling();
            Some(class.poll.unwrap_or(own))
        };
        self.classes.iter().filter_map(of_class).min()
    }
}

fn agent(root: &mut TableReader<'_>) -> Option<Name> {
    let mut table = root.table("agent")?;
    let router = table.value_with("router", "a name", |text| {
        Name::new(text).map_err(|e| TextError::new(format!("is not a name: {e}")))
    });
    table.finish();
    router.map(|name| name.value)
}

fn controller(root: &mut TableReader<'_>) -> Option<ControllerSettings> {
    let mut table = root.table("controller")?;
    table.require("node", "\"berlin\"");
    let mut text = |key| table.text(key).map(|text| text.value.to_owned());
    let (node, at, token_file, authority) = (text("node"), text("at"), text("token_file"), text("authority"));
    let identity = match (text("certificate"), text("key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let error = table.error("certificate", "and key belong together");
            table.diagnostics().push(error.hint("Write both, or none"));
            None
        }
    };
    if at.as_ref().is_some_and(|at| at.starts_with("https://")) && authority.is_none() {
        let error = table.error("authority", "is missing");
        table.diagnostics().push(error.hint("Name the certificate by which the controller is believed"));
    }
    table.finish();
    Some(ControllerSettings { node: node?, at, token_file, authority, identity })
}

fn policy(root: &mut TableReader<'_>) -> Option<DomainPolicy> {
    if root.has("policy") && !root.has("controller") {
        let error = root.error("policy", "is that of a domain, and there is no controller");
        root.diagnostics().push(error.hint("Add a [controller]"));
    }
    let mut table = root.table("policy")?;
    let journal = table.text("journal").map(|text| text.value.to_owned());
    table.finish();
    Some(DomainPolicy { journal })
}

/// The broker: an emulated one, or for how long the controller's leases live.
fn broker(root: &mut TableReader<'_>) -> ((EmulatedBrokerConfig, u64), Option<Duration>) {
    let mut config =
        EmulatedBrokerConfig { delay: Duration::from_millis(10), ..EmulatedBrokerConfig::default() };
    let has_controller = root.has("controller");
    let Some(mut table) = root.table("broker") else { return ((config, DEFAULT_SEED), None) };
    let is_controller =
        table.choice("kind", &[("emulated", false), ("controller", true)]).is_some_and(|kind| kind.value);
    if is_controller && !has_controller {
        let error = table.error("kind", "is the controller of a domain, and the file has none");
        table.diagnostics().push(error.hint("Write a [controller]"));
    }
    let (own, other): (&[&'static str], _) = match is_controller {
        true => (&["delay", "capacity", "refuse", "partial", "lose", "seed"], "emulated"),
        false => (&["lifetime"], "controller"),
    };
    foreign(&mut table, own, &format!("kind = \"{other}\""));
    let lives = Duration::from_secs(1)..=Duration::from_secs(3_600);
    let lifetime = table.value_in("lifetime", lives).map_or(LEASE, |lifetime| lifetime.value);
    if let Some(delay) = table.value_in("delay", Duration::ZERO..=Duration::from_secs(60)) {
        config.delay = delay.value;
    }
    config.capacity = table.value_in("capacity", Rate::from_kbit(1)..=Rate::MOST).map(|rate| rate.value);
    let mut chance = |key| table.value::<Probability>(key).map_or(Probability::ZERO, |chance| chance.value);
    (config.refuse, config.partial, config.lose) = (chance("refuse"), chance("partial"), chance("lose"));
    let seed = table.integer("seed", 0..=i64::MAX).map_or(DEFAULT_SEED, |seed| seed.value as u64);
    table.finish();
    ((config, seed), is_controller.then_some(lifetime))
}

/// Keys that have no meaning beside what was chosen.
fn foreign(table: &mut TableReader<'_>, keys: &[&'static str], belong: &str) {
    for key in keys {
        if table.has(key) {
            let d = table.error(key, "has no meaning here").hint(format!("It belongs to {belong}"));
            table.diagnostics().push(d);
        }
    }
}

/// Reads one class; `None` if anything about it is wrong, which is reported.
fn class(table: &mut TableReader<'_>, class: Option<Name>) -> Option<ClassSettings> {
    let errors_before = table.diagnostics().errors();
    let mut allocation = Settings::new(Rate::from_kbit(64), Rate::from_mbit(10));
    table.require("least", "\"64 kbit/s\"");
    table.require("most", "\"4 Mbit/s\"");
    allocation.bounds = Bounds {
        least: rate(table, "least", allocation.bounds.least),
        most: rate(table, "most", allocation.bounds.most),
        granularity: rate(table, "granularity", Rate(1)),
    };
    allocation.initial = rate(table, "initial", allocation.bounds.least);
    allocation.window = window(table);
    allocation.law = law(table);
    allocation.patience = patience(table);
    let limit = table.boolean("limit").is_none_or(|limit| limit.value);
    let (congestion, poll) = congestion(table);
    allocation.congestion = congestion;
    match Stability::check(&allocation) {
        Ok(allocation) if table.diagnostics().errors() == errors_before => {
            Some(ClassSettings { class: class?, limit, poll, allocation })
        }
        Ok(_) => None,
        Err(unstable) => {
            unstable::report(table, &allocation, &unstable);
            None
        }
    }
}

fn window(table: &mut TableReader<'_>) -> WindowConfig {
    let default = WindowConfig::default();
    let interval = table.value_in("interval", Duration::from_millis(10)..=Duration::from_secs(60));
    let intervals = table.integer("intervals", 1..=1_000);
    let meterings = [("carried", Metering::Carried), ("offered", Metering::Offered)];
    WindowConfig {
        interval: interval.map_or(default.interval, |interval| interval.value),
        intervals: intervals.map_or(default.intervals, |intervals| intervals.value as u32),
        metering: table.choice("metering", &meterings).map_or(default.metering, |metering| metering.value),
    }
}

/// The law with its own keys; those of the other have no meaning beside it.
fn law(table: &mut TableReader<'_>) -> Law {
    let laws = [("threshold", true), ("logarithmic", false)];
    let threshold = table.choice("law", &laws).is_some_and(|law| law.value);
    let (keys, other): (&[&'static str], _) = match threshold {
        true => (&["gain", "margin", "least_change", "faithful"], "logarithmic"),
        false => (&["increase", "decrease", "lower", "upper"], "threshold"),
    };
    foreign(table, keys, &format!("law = \"{other}\""));
    if threshold {
        let default = ThresholdConfig::default();
        return Law::Threshold(ThresholdConfig {
            increase_ppm: factor(table, "increase", default.increase_ppm),
            decrease_ppm: factor(table, "decrease", default.decrease_ppm),
            lower_ppm: share(table, "lower", default.lower_ppm),
            upper_ppm: share(table, "upper", default.upper_ppm),
        });
    }
    let default = LogarithmicConfig::default();
    Law::Logarithmic(LogarithmicConfig {
        gain: rate(table, "gain", default.gain),
        margin_ppm: share(table, "margin", default.margin_ppm),
        least_change: rate(table, "least_change", default.least_change),
        faithful: table.boolean("faithful").is_some_and(|faithful| faithful.value),
    })
}

fn patience(table: &mut TableReader<'_>) -> Patience {
    let default = Patience::default();
    let mut time = |key, default| {
        let given = table.value_in(key, Duration::from_millis(1)..=Duration::from_secs(3600));
        given.map_or(default, |given| given.value)
    };
    Patience {
        timeout: time("timeout", default.timeout),
        first_retry: time("first_retry", default.first_retry),
        longest_retry: time("longest_retry", default.longest_retry),
    }
}

fn congestion(table: &mut TableReader<'_>) -> (Option<CongestionConfig>, Option<Duration>) {
    let Some(mut table) = table.table("congestion") else { return (None, None) };
    let default = CongestionConfig::default();
    let target = table.value_in("target", Duration::from_micros(10)..=Duration::from_secs(10));
    let margin_ppm = share(&mut table, "margin", default.margin_ppm);
    let guard = table.value_in("guard", Duration::from_millis(1)..=Duration::from_secs(600));
    let mtu = table.value_in("mtu", Bytes(64)..=Bytes(65_536));
    let poll = table.value_in("poll", Duration::from_micros(10)..=Duration::from_secs(1));
    table.finish();
    let config = CongestionConfig {
        target: target.map_or(default.target, |target| target.value),
        margin_ppm,
        guard: guard.map_or(default.guard, |guard| guard.value),
        mtu: mtu.map_or(default.mtu, |mtu| mtu.value),
    };
    (Some(config), poll.map(|poll| poll.value))
}

fn rate(table: &mut TableReader<'_>, key: &'static str, default: Rate) -> Rate {
    table.value_in(key, Rate(1)..=Rate::MOST).map_or(default, |rate| rate.value)
}

/// A factor such as 1.1, in parts per million.
fn factor(table: &mut TableReader<'_>, key: &'static str, default_ppm: u32) -> u32 {
    let given = table.number(key, 0.000_001..=1_000.0);
    given.map_or(default_ppm, |factor| (factor.value * 1e6).round() as u32)
}

/// A share such as `"70 %"`, in parts per million.
pub(crate) fn share(table: &mut TableReader<'_>, key: &'static str, default_ppm: u32) -> u32 {
    let read = table.value_with(key, "a share", |text| match text.parse::<Share>() {
        Ok(Share::Ppm(ppm)) => Ok(ppm),
        Ok(Share::Rate(_)) | Err(_) => {
            Err(TextError::new("is not a share").hint("Write for example \"70 %\""))
        }
    });
    read.map_or(default_ppm, |ppm| ppm.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let (file, diagnostics) = AgentFile::read("agent.toml", text);
        assert!(file.is_none());
        diagnostics.sorted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_a_file_can_say() {
        let text = r#"
            [agent]
            router = "edge"
            [broker]
            kind = "emulated"
            delay = "100 ms"
            capacity = "5 Mbit/s"
            refuse = "10 %"
            lose = "1 %"
            seed = 9
            [[class]]
            name = "wan/ef"
            least = "64 kbit/s"
            most = "4 Mbit/s"
            law = "threshold"
            increase = 1.2
            decrease = 0.8
            limit = false
            [class.congestion]
            target = "30 ms"
            poll = "7.5 ms"
            [[class]]
            name = "wan/af"
            least = "64 kbit/s"
            most = "4 Mbit/s"
            gain = "500 kbit/s"
            metering = "offered"
        "#;
        let (file, diagnostics) = AgentFile::read("agent.toml", text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        assert_eq!(file.router.as_ref().map(Name::as_str), Some("edge"));
        assert_eq!((file.broker.0.delay, file.broker.1), (Duration::from_millis(100), 9));
        let [ef, af] = &file.classes[..] else { panic!("two classes") };
        assert!(!ef.limit && af.limit);
        assert_eq!(ef.poll, Some(Duration::from_micros(7500)));
        let Law::Threshold(law) = ef.allocation.settings().law else { panic!("threshold") };
        assert_eq!((law.increase_ppm, law.decrease_ppm), (1_200_000, 800_000));
        assert!(
            ef.allocation.settings().congestion.is_some() && af.allocation.settings().congestion.is_none()
        );
        let Law::Logarithmic(law) = af.allocation.settings().law else { panic!("logarithmic") };
        assert_eq!(law.gain, Rate::from_kbit(500));
        assert_eq!(af.allocation.settings().window.metering, Metering::Offered);
    }

    #[test]
    fn the_broker_may_be_the_controller() {
        let class = "[[class]]\nname = \"wan/ef\"\nleast = \"64 kbit/s\"\nmost = \"4 Mbit/s\"\n";
        let controller = "[controller]\nnode = \"west\"\n";
        let (file, diagnostics) =
            AgentFile::read("a.toml", &format!("{controller}[broker]\nkind = \"controller\"\n{class}"));
        assert_eq!(file.unwrap_or_else(|| panic!("{diagnostics}")).leased_for, Some(Duration::from_secs(60)));
        let (file, _) = AgentFile::read("a.toml", class);
        assert_eq!(file.expect("it is good").leased_for, None);
        for (text, word) in [
            ("[broker]\nkind = \"controller\"\n".to_owned(), "[controller]"),
            (format!("{controller}[broker]\nkind = \"controller\"\ndelay = \"1 s\"\n"), "\"emulated\""),
            (format!("{controller}[broker]\nlifetime = \"1 min\"\n"), "\"controller\""),
            (format!("{controller}[broker]\nkind = \"controller\"\nlifetime = \"1 ms\"\n"), "1 s"),
        ] {
            let found = errors(&format!("{text}{class}"));
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:#?}");
        }
    }

    #[test]
    fn all_errors_at_once_with_their_places() {
        let found = errors(
            "[agent]\nruter = \"edge\"\n[broker]\ndelay = \"10\"\n[[class]]\nname = \"ef\"\nmost = \"1 Mbit/s\"\n\
             law = \"threshold\"\ngain = \"1 kbit/s\"\n",
        );
        let starts = ["agent.toml:2:1: ", "agent.toml:4:9: ", "agent.toml:5:1: ", "agent.toml:9:8: "];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
        assert!(found[0].contains("did you mean \"router\""), "{}", found[0]);
        assert!(found[3].contains("law = \"logarithmic\""), "{}", found[3]);
    }

    #[test]
    fn what_contradicts_itself_comes_beside_the_other_errors_at_its_own_place() {
        let found = errors(
            "[broker]\ndelay = \"-1 s\"\n[[class]]\nname = \"ef\"\nleast = \"10 Mbit/s\"\nmost = \"1 Mbit/s\"\n\
             initial = \"20 Mbit/s\"\nlaw = \"threshold\"\nincrease = 0.9\ndecrease = 1.1\nlower = \"95 %\"\n\
             upper = \"90 %\"\n[class.congestion]\nguard = \"1 s\"\n",
        );
        let expected = [
            ("2:9", "must not be negative"),
            ("6:8", "most = 1 Mbit/s is below least = 10 Mbit/s"),
            ("7:11", "initial = 20 Mbit/s is outside"),
            ("9:12", "increase = 0.9 is not above 1"),
            ("10:12", "decrease = 1.1 is not below 1"),
            ("11:9", "lower = 95 % is not below upper = 90 %"),
            ("14:9", "congestion.guard = 1 s is shorter than two intervals"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, (place, words)) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("agent.toml:{place}: ")) && found.contains(words), "{found}");
        }
        assert!(!found.iter().any(|text| text.contains("ppm")), "{found:#?}");
        // What depends on a wrong value is not judged.
        let found = errors("[[class]]\nname = \"ef\"\nleast = \"10 Mbit/s\"\nmost = \"1 Mbit\"\n");
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn unstable_settings_are_refused_with_the_nearest_stable_ones() {
        let class = "[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"1 Mbit/s\"\n";
        let found = errors(&format!("{class}law = \"threshold\"\nlower = \"85 %\"\n"));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("agent.toml:6:9: class \"ef\": lower = "), "{}", found[0]);
        assert!(found[0].contains("Use lower = \"80.9999 %\" at most"), "{}", found[0]);
        let found = errors(&format!("{class}margin = \"0 %\"\n"));
        assert!(found.len() == 1 && found[0].contains("margin = \"10 %\""), "{found:#?}");
        let found = errors(&format!("{class}least_change = \"100 kbit/s\"\n"));
        assert!(found[0].contains("never grow on carried load"), "{}", found[0]);
        assert_eq!(errors("").len(), 1);
    }
}
