//! What is decided beside the router: `[leases]` and `[[lease]]` of an agent's file.

use perhop_broker::lease::{ClassSettings, Model, Settings, SettingsError};
use perhop_config::TableReader;
use perhop_model::Name;
use perhop_units::{Dscp, Duration, Rate};
use std::collections::BTreeMap;

/// Most logical classes with leases.
const MOST_CLASSES: usize = 1_000;

/// Leases of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Where what was admitted is kept; none = beside the agent's file.
    pub journal: Option<String>,
    /// How they are used.
    pub leases: Settings,
    /// By logical class.
    pub classes: BTreeMap<String, LeasedClass>,
}

/// A logical class of which leases are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasedClass {
    /// Classes of the router: those of the ports by which its traffic leaves.
    pub classes: Vec<Name>,
    /// Nodes where its traffic may leave the domain; empty = any.
    pub to: Vec<String>,
    /// Code point that packets of a flow get which does not say.
    pub dscp: Option<Dscp>,
}

/// Reads both; `None` if there are none, or if something about them is wrong, which is reported.
pub(crate) fn leases(root: &mut TableReader<'_>) -> Option<LeaseSettings> {
    let mut settings = Settings::new(BTreeMap::new());
    let mut journal = None;
    let is_there = root.has("leases");
    if let Some(mut table) = root.table("leases") {
        journal = table.text("journal").map(|text| text.value.to_owned());
        let mut time = |key, range, default| {
            table.value_in(key, range).map_or(default, |time: perhop_config::Spanned<Duration>| time.value)
        };
        let (ms, second, hour) =
            (Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(3_600));
        settings.patience = time("patience", ms..=Duration::from_secs(60), settings.patience);
        settings.resend = time("resend", ms..=Duration::from_secs(60), settings.resend);
        settings.lifetime = time("lifetime", second..=hour, settings.lifetime);
        // Of short lives a twelfth, as 5 s are of a minute.
        settings.margin = settings.margin.min(Duration(settings.lifetime.0 / 12));
        table.finish();
    }
    let mut classes = BTreeMap::new();
    let tables = root.named_tables("lease");
    let there_are_none = tables.is_empty();
    if tables.len() > MOST_CLASSES {
        let error = root.error("lease", format!("there are {}", tables.len()));
        root.diagnostics().push(error.allowed(format!("at most {MOST_CLASSES}")));
    }
    for (name, mut table) in tables {
        let (use_of, class) = class(&mut table);
        let name = name.value.to_owned();
        if use_of.minimum > 0 && class.to.is_empty() {
            let error = table.error("minimum", "has no place to go");
            table.diagnostics().push(error.hint("Say in `to` which nodes it is for"));
        }
        let alone = Settings::new(BTreeMap::from([(name.clone(), use_of)]));
        if let Err(error) = alone.check() {
            let key = match &error {
                SettingsError::HighWater { .. } => "high",
                _ => "chunk",
            };
            let error = table.error(key, format!("cannot be: {error}"));
            table.diagnostics().push(error);
        }
        settings.beforehand.insert(name.clone(), class.to.clone());
        settings.classes.insert(name.clone(), use_of);
        classes.insert(name, class);
        table.finish();
    }
    if is_there && there_are_none {
        let error = root.error("leases", "is for no class");
        root.diagnostics().push(error.hint("Add a [[lease]]"));
    }
    if (is_there || !there_are_none) && !root.has("controller") {
        let error = root.error("controller", "is missing");
        root.diagnostics().push(error.hint("Leases are the controller's to give"));
    }
    (!classes.is_empty()).then_some(LeaseSettings { journal, leases: settings, classes })
}

fn class(table: &mut TableReader<'_>) -> (ClassSettings, LeasedClass) {
    let models =
        [("provisioned", Model::Provisioned), ("outsourced", Model::Outsourced), ("mixed", Model::Mixed)];
    let model = table.choice("model", &models).map_or(Model::Provisioned, |model| model.value);
    table.require("classes", "[\"wan/voice\"]");
    let names = table.values_with("classes", "a name of a class", |text| {
        Name::new(text).map_err(|e| perhop_config::TextError::new(format!("is not a name: {e}")))
    });
    let to = table.texts("to").map(|to| to.value.iter().map(|node| node.value.to_owned()).collect());
    let dscp = table.value("dscp").map(|dscp| dscp.value);
    let mut rate = |key, least, default: u64| {
        let given = table.value_in(key, Rate(least)..=Rate::MOST);
        given.map_or(default, |rate| rate.value.0)
    };
    let default = ClassSettings::default();
    let chunk = rate("chunk", 1, default.chunk);
    let low_water = rate("low", 0, chunk);
    let high_water = rate("high", 0, chunk.saturating_add(low_water).min(Rate::MOST.0));
    let minimum = rate("minimum", 0, 0);
    let classes = names.map(|names| names.value.into_iter().map(|name| name.value).collect());
    let class = LeasedClass { classes: classes.unwrap_or_default(), to: to.unwrap_or_default(), dscp };
    (ClassSettings { model, chunk, high_water, low_water, minimum }, class)
}

#[cfg(test)]
mod tests {
    use crate::AgentFile;
    use perhop_broker::lease::Model;

    const HEAD: &str = "[controller]\nnode = \"west\"\n";

    fn errors(text: &str) -> Vec<String> {
        let (file, diagnostics) = AgentFile::read("agent.toml", text);
        assert!(file.is_none());
        diagnostics.sorted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn leases_have_classes_places_and_waters() {
        let text = format!(
            "{HEAD}[leases]\npatience = \"2 s\"\nlifetime = \"12 s\"\n[[lease]]\nname = \"voice\"\n\
             classes = [\"wan/voice\"]\nto = [\"east\"]\nchunk = \"500 kbit/s\"\nminimum = \"1 Mbit/s\"\n\
             dscp = \"EF\"\n[[lease]]\nname = \"video\"\nclasses = [\"wan/video\"]\nmodel = \"outsourced\"\n"
        );
        let (file, diagnostics) = AgentFile::read("agent.toml", &text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        let leases = file.leases.expect("leases");
        assert_eq!(leases.leases.check(), Ok(()));
        assert_eq!(leases.leases.margin.0, 1_000_000_000, "a twelfth of the life");
        let voice = leases.leases.classes["voice"];
        assert_eq!((voice.chunk, voice.low_water, voice.high_water), (500_000, 500_000, 1_000_000));
        assert_eq!((voice.minimum, voice.model), (1_000_000, Model::Provisioned));
        assert_eq!(leases.leases.beforehand["voice"], ["east"]);
        assert_eq!(leases.classes["voice"].dscp.map(|dscp| dscp.to_string()).as_deref(), Some("EF"));
        assert_eq!(leases.leases.classes["video"].model, Model::Outsourced);
    }

    #[test]
    fn what_leases_cannot_be_is_said_at_its_place() {
        let lease = "[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\n";
        let cases = [
            (format!("{HEAD}{lease}minimum = \"1 Mbit/s\"\n"), "6:11"),
            (format!("{HEAD}{lease}high = \"1 kbit/s\"\n"), "6:8"),
            (format!("{HEAD}[[lease]]\nname = \"voice\"\n"), "3:1"),
            (format!("{HEAD}[leases]\n"), ":3:"),
        ];
        for (text, place) in cases {
            let found = errors(&text);
            assert!(found.len() == 1 && found[0].contains(place), "{place}: {found:#?}");
        }
        assert!(errors(lease)[0].contains("controller"), "{:#?}", errors(lease));
    }
}
