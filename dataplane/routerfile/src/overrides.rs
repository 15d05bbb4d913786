//! What a command line says over a router's file: fields of its ports, and the rates of links that it leaves open.

use crate::{LinkOfPort, RouterFile};
use perhop_model::Spec;
use perhop_units::{ParseUnitError, Rate};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// An override of a router file: `port.NAME.rate=8 Mbit/s` or `port.NAME.device=eth1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    port: String,
    field: Field,
    text: String,
}

/// What of a port is overridden.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Rate(Rate),
    Device(String),
}

/// A setting that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// What was given.
    pub given: String,
    /// Why.
    pub why: WhyNot,
}

/// Why a setting cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// There is no `=` in it.
    NoValue,
    /// The path is not one of a port.
    UnknownPath,
    /// A port has no such field to set.
    UnknownField(String),
    /// The rate is none.
    Rate(ParseUnitError),
    /// A device without a name.
    NoDevice,
    /// The file has no such port.
    NoPort {
        /// The port.
        port: String,
        /// Those the file has.
        known: Vec<String>,
    },
}

impl Setting {
    /// Changes the port in the file.
    ///
    /// # Errors
    /// The file has no such port.
    pub fn apply(&self, file: &mut RouterFile) -> Result<(), BadSetting> {
        let mut known = Vec::new();
        for object in &mut file.objects {
            let Spec::Port(port) = &mut object.spec else { continue };
            if object.name.as_str() != self.port {
                known.push(object.name.to_string());
                continue;
            }
            match &self.field {
                Field::Rate(rate) => port.rate = *rate,
                Field::Device(device) => port.device.clone_from(device),
            }
            return Ok(());
        }
        Err(BadSetting { given: self.text.clone(), why: WhyNot::NoPort { port: self.port.clone(), known } })
    }
}

impl FromStr for Setting {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let bad = |why| BadSetting { given: text.to_owned(), why };
        let (path, value) = text.split_once('=').ok_or_else(|| bad(WhyNot::NoValue))?;
        let parts = path.trim().strip_prefix("port.").and_then(|rest| rest.rsplit_once('.'));
        let (port, field) = parts.ok_or_else(|| bad(WhyNot::UnknownPath))?;
        let value = value.trim();
        let field = match field {
            "rate" => Field::Rate(value.parse().map_err(|why| bad(WhyNot::Rate(why)))?),
            "device" if !value.is_empty() => Field::Device(value.to_owned()),
            "device" => return Err(bad(WhyNot::NoDevice)),
            other => return Err(bad(WhyNot::UnknownField(other.to_owned()))),
        };
        Ok(Self { port: port.to_owned(), field, text: text.to_owned() })
    }
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.given, self.why)
    }
}

impl std::error::Error for BadSetting {}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue => f.write_str("it has no ="),
            Self::UnknownPath => f.write_str("such a path is not known"),
            Self::UnknownField(field) => write!(f, "a port has no {field} to set"),
            Self::Rate(why) => why.fmt(f),
            Self::NoDevice => f.write_str("an interface's name is missing"),
            Self::NoPort { port, known } => {
                write!(f, "the file has no port \"{port}\"; it has {}", known.join(", "))
            }
        }
    }
}

/// The rate of a port's link, `PORT=RATE`, for a file that leaves it to its scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRate {
    port: String,
    rate: Rate,
}

/// Why a text is no rate of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotALinkRate {
    /// There is no `=` in it.
    NoValue,
    /// The rate is none.
    Rate(ParseUnitError),
    /// The rate is zero.
    Zero,
}

impl FromStr for LinkRate {
    type Err = NotALinkRate;

    fn from_str(text: &str) -> Result<Self, NotALinkRate> {
        let (port, rate) = text.split_once('=').ok_or(NotALinkRate::NoValue)?;
        match rate.trim().parse().map_err(NotALinkRate::Rate)? {
            Rate::ZERO => Err(NotALinkRate::Zero),
            rate => Ok(Self { port: port.trim().to_owned(), rate }),
        }
    }
}

impl fmt::Display for NotALinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue => f.write_str("it has no =, as in core=\"10 Mbit/s\""),
            Self::Rate(why) => why.fmt(f),
            Self::Zero => f.write_str("a link without a rate carries nothing"),
        }
    }
}

impl std::error::Error for NotALinkRate {}

/// Links of ports that have no rate of their own, and which of them files asked for.
#[derive(Debug)]
pub struct Links<'a> {
    rates: &'a [LinkRate],
    used: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Links<'a> {
    /// The links with these rates.
    pub fn new(rates: &'a [LinkRate]) -> Self {
        Self { rates, used: RefCell::default() }
    }

    /// The link of a port, for [`RouterFile::read_on_links`]. As with other options, the last one given counts.
    pub fn of_port(&self, port: &str) -> Option<LinkOfPort> {
        let link = self.rates.iter().rfind(|link| link.port == port)?;
        self.used.borrow_mut().insert(&link.port);
        Some(LinkOfPort { rate: link.rate, overhead: 0 })
    }

    /// After all files are read: a port that a rate was given for, and that none of them asked for.
    pub fn unused(&self) -> Option<&'a str> {
        self.rates.iter().map(|link| link.port.as_str()).find(|port| !self.used.borrow().contains(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::PortSpec;

    fn edge(links: &Links<'_>) -> RouterFile {
        let text = "[[port]]\nname = \"lan.1\"\n[[port]]\nname = \"wan\"\ndevice = \"eth0\"\n";
        let (file, diagnostics) = RouterFile::read_on_links("edge.toml", text, &|port| links.of_port(port));
        file.unwrap_or_else(|| panic!("{diagnostics}"))
    }

    fn port<'a>(file: &'a RouterFile, name: &str) -> &'a PortSpec {
        let object = file.objects.iter().find(|object| object.name.as_str() == name);
        match object.map(|object| &object.spec) {
            Some(Spec::Port(port)) => port,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn why(text: &str) -> String {
        text.parse::<Setting>().expect_err(text).to_string()
    }

    #[test]
    fn a_setting_changes_one_field_of_one_port() {
        let mut file = edge(&Links::new(&[]));
        let untouched = port(&file, "wan").clone();
        for text in ["port.lan.1.rate = 8 Mbit/s ", "port.lan.1.device=eth7"] {
            text.parse::<Setting>().expect(text).apply(&mut file).expect("there is such a port");
        }
        let changed = port(&file, "lan.1");
        assert_eq!((changed.rate, changed.device.as_str()), (Rate::from_mbit(8), "eth7"));
        assert_eq!(*port(&file, "wan"), untouched);
    }

    #[test]
    fn a_setting_that_is_none_says_why() {
        assert_eq!(why("port.wan.rate"), "port.wan.rate: it has no =");
        assert_eq!(why("class.ef.rate=1"), "class.ef.rate=1: such a path is not known");
        assert_eq!(why("port.rate=1 Mbit/s"), "port.rate=1 Mbit/s: such a path is not known");
        assert_eq!(why("port.wan.mtu=9000"), "port.wan.mtu=9000: a port has no mtu to set");
        assert_eq!(why("port.wan.device= "), "port.wan.device= : an interface's name is missing");
        let rate = "fast".parse::<Rate>().expect_err("no rate");
        assert_eq!(why("port.wan.rate=fast"), format!("port.wan.rate=fast: {rate}"));
    }

    #[test]
    fn a_setting_for_a_port_that_is_not_there_names_those_that_are() {
        let mut file = edge(&Links::new(&[]));
        let setting: Setting = "port.van.device=eth1".parse().expect("a setting");
        let refused = setting.apply(&mut file).expect_err("there is no such port");
        assert_eq!(
            refused.to_string(),
            "port.van.device=eth1: the file has no port \"van\"; it has lan.1, wan"
        );
    }

    #[test]
    fn the_last_rate_of_a_link_counts_and_one_that_nobody_asked_for_is_found() {
        let rates =
            ["wan=1 Mbit/s", " wan = 2 Mbit/s", "core=3 Mbit/s"].map(|text| text.parse().expect(text));
        let links = Links::new(&rates);
        assert_eq!(links.unused(), Some("wan"));
        assert_eq!(port(&edge(&links), "wan").rate, Rate::from_mbit(2));
        assert_eq!(links.unused(), Some("core"));
        assert_eq!(Links::new(&rates[..1]).of_port("lan"), None);
    }

    #[test]
    fn a_rate_of_a_link_that_is_none_says_why() {
        let why = |text: &str| text.parse::<LinkRate>().expect_err(text).to_string();
        assert_eq!(why("core"), "it has no =, as in core=\"10 Mbit/s\"");
        assert_eq!(why("core=0 bit/s"), "a link without a rate carries nothing");
        assert_eq!(why("core=x"), "x".parse::<Rate>().expect_err("no rate").to_string());
    }
}
