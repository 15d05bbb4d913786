//! `/qos-profiles`.

use super::super::Shared;
use super::asker::{Asker, Body};
use super::place::device;
use super::problem::Problem;
use super::settings::{ProfileStatus, QosProfile, Scope};
use super::shapes::{RetrieveProfiles, check_profile_name};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

/// Addresses below a version.
pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/qos-profiles/{name}", get(one)).route("/retrieve-qos-profiles", post(retrieve))
}

async fn one(
    State(_): State<Shared>,
    asker: Asker,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    asker.may(Scope::Profiles)?;
    let name = name.map(|Path(name)| name).map_err(|e| Problem::argument(e.body_text()))?;
    check_profile_name(&name)?;
    let device = device(&asker.settings, &asker.name, None, |_| true)?;
    let profile = asker.settings.profiles.get(&name);
    let profile = profile.filter(|profile| device.is_none_or(|found| profile.is_for(found.address)));
    let profile = profile.ok_or_else(|| Problem::not_found(format!("there is no profile {name}")))?;
    Ok(Json(shown(&name, profile)).into_response())
}

async fn retrieve(State(_): State<Shared>, asker: Asker, body: Body) -> Result<Response, Problem> {
    asker.may(Scope::Profiles)?;
    let (wanted, _charge) = body.json::<RetrieveProfiles>().await?;
    wanted.device.as_ref().map_or(Ok(()), |device| device.check())?;
    wanted.name.as_deref().map_or(Ok(()), check_profile_name)?;
    let device = device(&asker.settings, &asker.name, wanted.device.as_ref(), |_| true)?;
    let is_wanted = |name: &str, profile: &QosProfile| {
        let is_for = match &device {
            Some(found) => profile.is_for(found.address),
            // What not everybody may use is for those to see who may.
            None => profile.devices.is_empty(),
        };
        is_for
            && wanted.name.as_ref().is_none_or(|wanted| wanted == name)
            && wanted.status.is_none_or(|wanted| wanted == profile.status)
    };
    let profiles = asker.settings.profiles.iter();
    let found = profiles.filter(|(name, profile)| is_wanted(name, profile));
    let found: Vec<Value> = found.map(|(name, profile)| shown(name, profile)).collect();
    Ok(Json(found).into_response())
}

fn shown(name: &str, profile: &QosProfile) -> Value {
    let seconds = |value: u32| json!({ "value": value, "unit": "Seconds" });
    let status: ProfileStatus = profile.status;
    let mut shown = json!({
        "name": name, "status": status,
        "minDuration": seconds(profile.min_duration_s), "maxDuration": seconds(profile.max_duration_s),
    });
    let optional = [
        ("description", profile.description.as_ref().map(|text| json!(text))),
        ("targetMinUpstreamRate", profile.upstream_bps.map(rate)),
        ("targetMinDownstreamRate", profile.downstream_bps.map(rate)),
        ("priority", profile.priority.map(|n| json!(n))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            shown[key] = value;
        }
    }
    shown
}

/// The highest rate that the interface can say, at most this one: whole numbers up to 1,024 of a unit.
fn rate(bps: u64) -> Value {
    let units = ["bps", "kbps", "Mbps", "Gbps", "Tbps"];
    let (mut value, mut unit) = (bps, 0);
    while value > 1_024 && unit + 1 < units.len() {
        value /= 1_000;
        unit += 1;
    }
    json!({ "value": value.min(1_024), "unit": units[unit] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_in_the_finest_unit_that_has_room_and_never_too_high() {
        for (bps, value, unit) in [
            (1, 1, "bps"),
            (1_024, 1_024, "bps"),
            (1_025, 1, "kbps"),
            (64_000, 64, "kbps"),
            (1_500_000, 1, "Mbps"),
            (1_000_000_000_000, 1_000, "Gbps"),
        ] {
            assert_eq!(rate(bps), json!({ "value": value, "unit": unit }), "{bps}");
        }
    }
}
