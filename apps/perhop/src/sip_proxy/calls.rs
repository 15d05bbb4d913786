//! How calls are reserved for: what `[reserve]` says of calls, `[[rule]]`, `[[codec]]` and `[rates]`.

use perhop_config::{TableReader, TextError, did_you_mean};
use perhop_sip::quality::{Ask, Edge, Mode, OnRefusal, Rule, Settings};
use perhop_sip::sdp::{Codec, CodecTable, Kind};
use perhop_units::{Duration, Rate};

/// Stands for the edge router of phones that are behind none: nothing can be reserved there.
pub(super) const NO_EDGE: &str = "-";
/// Most rules, codecs and priorities.
const MOST: usize = 10_000;

const MODES: [(&str, Mode); 2] = [("uni", Mode::Uni), ("bi", Mode::Bi)];
const ASKS: [(&str, Ask); 2] = [("own", Ask::Own), ("far", Ask::Far)];
const REFUSALS: [(&str, OnRefusal); 3] = [
    ("best-effort", OnRefusal::BestEffort),
    ("488", OnRefusal::Refuse(488)),
    ("580", OnRefusal::Refuse(580)),
];
const KINDS: [(&str, Kind); 3] = [("audio", Kind::Audio), ("video", Kind::Video), ("other", Kind::Other)];

/// Nobody gets reservations.
pub(super) fn nobody() -> Rule {
    Rule { caller: "*".into(), callee: "*".into(), reserve: false }
}

/// What `[reserve]` says of calls.
pub(super) fn settings(table: &mut TableReader<'_>, mut settings: Settings, networks: &[Edge]) -> Settings {
    if let Some(realm) = table.value_with("realm", "a name", token) {
        settings.realm = realm.value;
    }
    if let Some(edge) = table.text("edge") {
        let known = || networks.iter().map(|network| network.er.as_str());
        if !known().any(|name| name == edge.value) {
            let error = table.document().error(edge.span, "is no [[edge]] of this file");
            table.diagnostics().push(error.meant(did_you_mean(edge.value, known())));
        }
        settings.er = edge.value.to_owned();
    }
    let class = table.required_text("class", "\"voice\"").map(|class| class.value.to_owned());
    settings.class = class.unwrap_or_default();
    if let Some(mode) = table.choice("mode", &MODES) {
        settings.mode = mode.value;
    }
    if let Some(ask) = table.choice("ask", &ASKS) {
        settings.ask = ask.value;
    }
    if let Some(early) = table.boolean("early") {
        settings.early = early.value;
    }
    if let Some(refusal) = table.choice("on_refusal", &REFUSALS) {
        settings.on_refusal = refusal.value;
    }
    if let Some(kinds) = table.choices("kinds", &KINDS) {
        settings.kinds = kinds.value.into_iter().map(|kind| kind.value).collect();
    }
    let mut time = |key, least, most, into: &mut Duration| {
        if let Some(time) = table.value_in(key, least..=most) {
            *into = time.value;
        }
    };
    let (ms, day) = (Duration::from_millis, Duration::from_secs(86_400));
    time("patience", ms(10), ms(10_000), &mut settings.patience);
    time("lifetime", ms(2_000), day, &mut settings.lifetime);
    time("longest", Duration::from_secs(60), day.saturating_mul(365), &mut settings.longest);
    let priorities = table.named_values::<Priority>("priorities");
    settings.priorities = priorities.into_iter().map(|(name, of)| (name.to_owned(), of.value.0)).collect();
    settings
}

/// How important a call is.
struct Priority(u8);

impl std::str::FromStr for Priority {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Self, TextError> {
        text.parse().map(Self).map_err(|_| TextError::new("is no priority").allowed("0 to 255"))
    }
}

/// A word that a header of SIP takes as a parameter.
fn token(text: &str) -> Result<String, TextError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
    if (1..=128).contains(&text.len()) && text.bytes().all(legal) {
        return Ok(text.to_owned());
    }
    let allowed = "1 to 128 characters of A-Z a-z 0-9 - . ! % * _ + ` ' ~";
    Err(TextError::new("cannot be written into a header of SIP").allowed(allowed))
}

/// `user@domain`, `*@domain` or `*`.
fn pattern(text: &str) -> Result<String, TextError> {
    let is_one = text == "*"
        || text.rsplit_once('@').is_some_and(|(user, domain)| !user.is_empty() && !domain.is_empty());
    if is_one {
        return Ok(text.to_owned());
    }
    Err(TextError::new("is nobody").hint("Write \"user@domain\", \"*@domain\" or \"*\""))
}

/// `[[rule]]`.
pub(super) fn rules(root: &mut TableReader<'_>) -> Vec<Rule> {
    let tables = root.tables("rule");
    limit(root, "rule", tables.len());
    let read = |mut table: TableReader<'_>| {
        let mut who =
            |key| table.value_with(key, "somebody", pattern).map_or_else(|| "*".to_owned(), |who| who.value);
        let (caller, callee) = (who("caller"), who("callee"));
        table.require("reserve", "false");
        let reserve = table.boolean("reserve").is_none_or(|reserve| reserve.value);
        table.finish();
        Rule { caller, callee, reserve }
    };
    tables.into_iter().map(read).collect()
}

fn limit(root: &mut TableReader<'_>, key: &'static str, count: usize) {
    if count > MOST {
        let error = root.error(key, format!("has {count} tables")).value("");
        root.diagnostics().push(error.allowed(format!("at most {MOST}")));
    }
}

/// `[[codec]]` and `[rates]`: codecs of the file count before those that are built in.
pub(super) fn codecs(root: &mut TableReader<'_>) -> CodecTable {
    let mut all = CodecTable::default();
    let tables = root.tables("codec");
    limit(root, "codec", tables.len());
    let own: Vec<Codec> = tables.into_iter().filter_map(codec).collect();
    all.codecs.splice(0..0, own);
    let Some(mut table) = root.table("rates") else { return all };
    let mut rate = |key, into: &mut u64| {
        if let Some(rate) = table.value_in(key, Rate(1)..=Rate::MOST) {
            *into = rate.value.0;
        }
    };
    rate("audio", &mut all.audio_bps);
    rate("video", &mut all.video_bps);
    rate("other", &mut all.other_bps);
    let mut bytes = |key, into: &mut u16| {
        if let Some(bytes) = table.bytes_in(key, 0..=1_000).and_then(|b| u16::try_from(b.value).ok()) {
            *into = bytes;
        }
    };
    bytes("link_overhead", &mut all.link_bytes);
    bytes("srtp_tag", &mut all.srtp_bytes);
    table.finish();
    all
}

fn codec(mut table: TableReader<'_>) -> Option<Codec> {
    let name = table.required_text("name", "\"opus\"").map(|name| name.value.to_owned());
    let clock = table.integer("clock", 0..=1_000_000).map_or(0, |clock| clock.value);
    table.require("frame", "\"20 ms\"");
    let (least, second) = (Duration::from_micros(125), Duration::from_secs(1));
    let frame = table.value_in::<Duration>("frame", least..=second).map(|time| time.value.0 / 1_000);
    table.require("frame_size", "160");
    let size = table.bytes_in("frame_size", 0..=65_535).map(|size| size.value);
    let packet = table.value_in::<Duration>("packet", Duration::from_millis(1)..=second);
    table.finish();
    let frame_us = u32::try_from(frame?).ok()?;
    let otherwise = u16::try_from(frame_us.div_ceil(1_000)).ok()?.max(20);
    let ptime_ms = packet.and_then(|time| u16::try_from(time.value.0 / 1_000_000).ok()).unwrap_or(otherwise);
    let (clock, frame_bytes) = (u32::try_from(clock).ok()?, u32::try_from(size?).ok()?);
    Some(Codec { name: name?, clock, frame_us, frame_bytes, ptime_ms })
}
