//! What is sent to the interfaces. A property that is not named here is an error, at any level; what a schema says beyond
//! types is checked by `check`.

use super::problem::Problem;
use super::settings::ProfileStatus;
use super::time::is_rfc3339;
use axum::http::StatusCode;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroU16, NonZeroU32};

/// Most addresses of a server.
const MOST_ADDRESSES: usize = 16;
/// Longest URL of a sink.
const MOST_SINK: usize = 2_048;
/// Longest token for a sink.
const MOST_TOKEN: usize = 4_096;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CreateSession {
    pub(super) device: Option<Device>,
    pub(super) application_server: ApplicationServer,
    pub(super) device_ports: Option<PortsSpec>,
    pub(super) application_server_ports: Option<PortsSpec>,
    pub(super) qos_profile: String,
    pub(super) sink: Option<String>,
    pub(super) sink_credential: Option<SinkCredential>,
    pub(super) duration: Seconds,
}

/// A number of seconds that an `int32` can be.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "NonZeroU32")]
pub(super) struct Seconds(pub(super) u32);

impl TryFrom<NonZeroU32> for Seconds {
    type Error = &'static str;

    fn try_from(seconds: NonZeroU32) -> Result<Self, Self::Error> {
        match i32::try_from(seconds.get()) {
            Ok(_) => Ok(Self(seconds.get())),
            Err(_) => Err("a duration is 1 to 2147483647 s"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Device {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phone_number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network_access_identifier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ipv4_address: Option<DeviceIpv4>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ipv6_address: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DeviceIpv4 {
    pub(super) public_address: Ipv4Addr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) private_address: Option<Ipv4Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) public_port: Option<NonZeroU16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ApplicationServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip_addresses: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ipv4_address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ipv6_address: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PortsSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranges: Option<Vec<Range>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<NonZeroU16>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: NonZeroU16,
    to: NonZeroU16,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "credentialType", deny_unknown_fields)]
#[allow(dead_code, reason = "some are only looked at for their shape")]
pub(super) enum SinkCredential {
    #[serde(rename = "ACCESSTOKEN", rename_all = "camelCase")]
    AccessToken { access_token: String, access_token_expires_utc: String, access_token_type: TokenType },
    #[serde(rename = "PRIVATE_KEY_JWT", rename_all = "camelCase")]
    PrivateKeyJwt { client_id: Option<String>, token_uri: Option<String>, jwks_uri: Option<String> },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TokenType {
    Bearer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ExtendSession {
    pub(super) requested_additional_duration: Seconds,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetrieveSessions {
    pub(super) device: Option<Device>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetrieveProfiles {
    pub(super) device: Option<Device>,
    pub(super) name: Option<String>,
    pub(super) status: Option<ProfileStatus>,
}

impl Device {
    /// Sees that all that is said of it can be.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if *self == Self::default() {
            return Err(Problem::argument("device: one identifier at least is needed"));
        }
        let is_number = |text: &str| {
            let digits = text.strip_prefix('+').unwrap_or_default().as_bytes();
            (5..=15).contains(&digits.len()) && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit)
        };
        if self.phone_number.as_deref().is_some_and(|text| !is_number(text)) {
            return Err(Problem::argument(
                "device.phoneNumber: + and 5 to 15 digits, the first of them not 0",
            ));
        }
        if self.network_access_identifier.as_ref().is_some_and(|text| text.chars().count() > 2_048) {
            return Err(Problem::argument("device.networkAccessIdentifier: at most 2048 characters"));
        }
        if self
            .ipv4_address
            .as_ref()
            .is_some_and(|v4| v4.private_address.is_none() && v4.public_port.is_none())
        {
            let why = "device.ipv4Address: publicAddress needs privateAddress or publicPort beside it";
            return Err(Problem::argument(why));
        }
        self.ipv6().map(drop)
    }

    pub(super) fn ipv6(&self) -> Result<Option<Ipv6Addr>, Problem> {
        let read = |text: &String| text.parse::<Ipv6Addr>();
        let wrong = |_| Problem::argument("device.ipv6Address: this is no IPv6 address");
        self.ipv6_address.as_ref().map(read).transpose().map_err(wrong)
    }
}

impl ApplicationServer {
    /// The prefixes that it has.
    pub(super) fn prefixes(&self) -> Result<Vec<IpNet>, Problem> {
        let wrong = |why: &str| Problem::argument(format!("applicationServer{why}"));
        let Some(list) = &self.ip_addresses else {
            let v4 = self.ipv4_address.as_deref().map(|text| {
                prefix::<Ipv4Addr>(text, 32).and_then(|(a, n)| Ipv4Net::new(a, n).ok()).map(IpNet::V4)
            });
            let v6 = self.ipv6_address.as_deref().map(|text| {
                prefix::<Ipv6Addr>(text, 128).and_then(|(a, n)| Ipv6Net::new(a, n).ok()).map(IpNet::V6)
            });
            let nets: Option<Vec<IpNet>> = [v4, v6].into_iter().flatten().collect();
            return match nets {
                None => Err(wrong(": an address or prefix is not of its family")),
                Some(nets) if nets.is_empty() => {
                    Err(wrong(": ipAddresses, ipv4Address or ipv6Address is needed"))
                }
                Some(nets) => Ok(nets.into_iter().map(|net| net.trunc()).collect()),
            };
        };
        if self.ipv4_address.is_some() || self.ipv6_address.is_some() {
            return Err(wrong(": either ipAddresses, or ipv4Address and ipv6Address"));
        }
        if !(1..=MOST_ADDRESSES).contains(&list.len()) {
            return Err(wrong(&format!(".ipAddresses: 1 to {MOST_ADDRESSES} addresses")));
        }
        let read: Option<Vec<IpAddr>> = list.iter().map(|text| text.parse().ok()).collect();
        let read = read.ok_or_else(|| wrong(".ipAddresses: each is a single IPv4 or IPv6 address"))?;
        if read.iter().collect::<HashSet<_>>().len() != read.len() {
            return Err(wrong(".ipAddresses: an address is there twice"));
        }
        Ok(read.into_iter().map(IpNet::from).collect())
    }
}

fn prefix<A: std::str::FromStr>(text: &str, whole: u8) -> Option<(A, u8)> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, n)| (a, Some(n)));
    let length =
        length.map_or(Some(whole), |n| n.parse().ok().filter(|_| n.len() <= 3 && !n.starts_with('+')));
    Some((address.parse().ok()?, length?))
}

impl PortsSpec {
    /// Its ports as ranges, ascending and with gaps between them.
    pub(super) fn ranges(&self, what: &str) -> Result<Vec<(u16, u16)>, Problem> {
        let wrong = |why: &str| Problem::argument(format!("{what}{why}"));
        if self.ranges.as_ref().is_some_and(Vec::is_empty) || self.ports.as_ref().is_some_and(Vec::is_empty) {
            return Err(wrong(": an empty list says nothing"));
        }
        let ranges = self.ranges.iter().flatten().map(|range| (range.from.get(), range.to.get()));
        let ports = self.ports.iter().flatten().map(|port| (port.get(), port.get()));
        let mut all: Vec<(u16, u16)> = ranges.chain(ports).collect();
        if all.is_empty() {
            return Err(wrong(": ranges or ports are needed"));
        }
        if all.iter().any(|(from, to)| from > to) {
            return Err(wrong(".ranges: a range ends before it begins"));
        }
        all.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (from, to) in all {
            match merged.last_mut().filter(|last| u32::from(from) <= u32::from(last.1) + 1) {
                Some(last) => last.1 = last.1.max(to),
                None => merged.push((from, to)),
            }
        }
        Ok(merged)
    }
}

/// Sees that a name can be a profile's.
pub(super) fn check_profile_name(name: &str) -> Result<(), Problem> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (3..=256).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    Err(Problem::argument("the name of a profile has 3 to 256 characters of A-Z a-z 0-9 _ . -"))
}

impl CreateSession {
    /// What can be said of it by itself; the token for its sink.
    pub(super) fn check(&self) -> Result<Option<String>, Problem> {
        self.device.as_ref().map_or(Ok(()), Device::check)?;
        check_profile_name(&self.qos_profile)?;
        if self.sink.as_ref().is_some_and(|sink| sink.len() > MOST_SINK) {
            return Err(Problem::argument(format!("sink: at most {MOST_SINK} characters")));
        }
        match &self.sink_credential {
            None => Ok(None),
            Some(SinkCredential::PrivateKeyJwt { .. }) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "PRIVATE_KEY_JWT_NOT_CONFIGURED",
                "sinkCredential: this controller has no key for PRIVATE_KEY_JWT; use ACCESSTOKEN",
            )),
            Some(SinkCredential::AccessToken { access_token, access_token_expires_utc, .. }) => {
                if !is_rfc3339(access_token_expires_utc) {
                    let why = "sinkCredential.accessTokenExpiresUtc: this is no time with a zone (RFC 3339)";
                    return Err(Problem::argument(why));
                }
                let legal = access_token.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
                if !legal || !(1..=MOST_TOKEN).contains(&access_token.len()) {
                    let why = format!(
                        "sinkCredential.accessToken: 1 to {MOST_TOKEN} printable characters, no blanks"
                    );
                    return Err(Problem::argument(why));
                }
                Ok(Some(access_token.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn create(change: impl FnOnce(&mut Value)) -> Result<CreateSession, String> {
        let mut body = json!({ "applicationServer": { "ipv4Address": "10.2.0.0/24" }, "qosProfile": "voice", "duration": 60 });
        change(&mut body);
        serde_json::from_value(body).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_named_is_an_error_at_any_level() {
        assert!(create(|_| {}).is_ok());
        for (path, value) in [
            ("/x", json!(1)),
            ("/applicationServer/x", json!(1)),
            ("/devicePorts", json!({ "ports": [1], "x": 1 })),
            ("/devicePorts", json!({ "ranges": [{ "from": 1, "to": 2, "x": 3 }] })),
            ("/device", json!({ "ipv4Address": { "publicAddress": "1.2.3.4", "publicPort": 1, "x": 1 } })),
            ("/sinkCredential", json!({ "credentialType": "PRIVATE_KEY_JWT", "x": 1 })),
            ("/devicePorts", json!({ "ports": [0] })),
            ("/devicePorts", json!({ "ports": [65_536] })),
            ("/duration", json!(0)),
            ("/duration", json!(2_147_483_648_u64)),
            ("/duration", json!(1.5)),
        ] {
            let place = |body: &mut Value| {
                let (parent, key) = path.rsplit_once('/').expect("a path");
                body.pointer_mut(parent).expect("it is there")[key] = value.clone();
            };
            assert!(create(place).is_err(), "{path} {value}");
        }
    }

    #[test]
    fn ports_are_merged() {
        let spec = |text| serde_json::from_value::<PortsSpec>(text).expect("ports");
        let many = spec(
            json!({ "ports": [7, 5, 6, 20], "ranges": [{ "from": 8, "to": 10 }, { "from": 9, "to": 12 }] }),
        );
        assert_eq!(many.ranges("p").expect("ranges"), [(5, 12), (20, 20)]);
        let whole = spec(json!({ "ranges": [{ "from": 1, "to": 65_535 }], "ports": [65_535] }));
        assert_eq!(whole.ranges("p").expect("ranges"), [(1, 65_535)]);
        for wrong in [json!({}), json!({ "ports": [] }), json!({ "ranges": [{ "from": 2, "to": 1 }] })] {
            assert!(spec(wrong.clone()).ranges("p").is_err(), "{wrong}");
        }
    }

    #[test]
    fn servers_are_addresses_or_prefixes() {
        let of = |value: Value| {
            let server: ApplicationServer = serde_json::from_value(value).expect("a server");
            server.prefixes().map(|nets| nets.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let good = of(json!({ "ipv4Address": "10.2.0.9/24", "ipv6Address": "2001:db8::1" })).expect("good");
        assert_eq!(good, ["10.2.0.0/24", "2001:db8::1/128"]);
        let good = of(json!({ "ipAddresses": ["10.2.0.9", "2001:db8::1"] })).expect("good");
        assert_eq!(good, ["10.2.0.9/32", "2001:db8::1/128"]);
        for wrong in [
            json!({}),
            json!({ "ipv4Address": "10.2.0.9/33" }),
            json!({ "ipv4Address": "10.2.0.9/" }),
            json!({ "ipv4Address": "10.2.0.9/+8" }),
            json!({ "ipv4Address": "2001:db8::1" }),
            json!({ "ipAddresses": [] }),
            json!({ "ipAddresses": ["10.2.0.0/24"] }),
            json!({ "ipAddresses": ["::1", "0::1"] }),
            json!({ "ipAddresses": ["10.2.0.9"], "ipv4Address": "10.2.0.9" }),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
