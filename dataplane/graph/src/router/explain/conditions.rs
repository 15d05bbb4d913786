//! Words for what the conditioner would do: profile, contract, real-time policer.

use super::Step;
use crate::router::plan::class_rate;
use perhop_contract::Draft;
use perhop_model::{
    ColorAction, DetectorSpec, ExcessPolicy, Kind, MeterSpec, Name, ProfileSpec, SlaPolicy, SlaSpec,
};
use perhop_units::{Bytes, Dscp, Rate};

/// What is known of the packet when it comes to the conditioner; its code point and class change on the way.
pub(super) struct Conditioned {
    pub(super) realtime: bool,
    pub(super) class: Option<String>,
    pub(super) dscp: Dscp,
}

/// The meter's colours and what happens to each.
pub(super) fn profile(name: &Name, spec: &ProfileSpec, packet: &mut Conditioned) -> Step {
    let meter = match spec.meter {
        MeterSpec::None => "everything is green".to_owned(),
        MeterSpec::TokenBucket { cir, cbs } => {
            format!("token bucket of {}, burst {}: green within, red beyond", cir, cbs)
        }
        MeterSpec::Srtcm { cir, cbs, ebs, aware } => {
            let burst = format!("bursts {} and {}", cbs, ebs);
            format!("srTCM of {}, {burst}, {}", cir, awareness(aware))
        }
        MeterSpec::Trtcm { cir, cbs, pir, pbs, aware } => {
            let committed = format!("{} burst {}", cir, cbs);
            format!("trTCM of {committed}, peak {} burst {}, {}", pir, pbs, awareness(aware))
        }
        MeterSpec::Tswtcm { cir, pir, window } => {
            let over = window;
            format!("TSWTCM of {}, peak {}, average over {over}", cir, pir)
        }
    };
    let step = Step::new("profile", format!("{name}: {meter}")).object(Kind::Profile, name);
    let step = step
        .detail(format!("green {}", action(&spec.green)))
        .detail(format!("yellow {}", action(&spec.yellow)))
        .detail(format!("red {}", action(&spec.red)));
    match &spec.green {
        ColorAction::Mark { dscp } => packet.dscp = *dscp,
        ColorAction::Class { class, dscp } => {
            packet.class = Some(class.to_string());
            packet.dscp = dscp.unwrap_or(packet.dscp);
        }
        ColorAction::Pass | ColorAction::Drop => {}
    }
    step.fact("name", name.as_str())
}

fn awareness(aware: bool) -> &'static str {
    if aware { "colour-aware" } else { "colour-blind" }
}

fn action(action: &ColorAction) -> String {
    match action {
        ColorAction::Pass => "passes".to_owned(),
        ColorAction::Drop => "is dropped (policed)".to_owned(),
        ColorAction::Mark { dscp } => format!("is marked {dscp}"),
        ColorAction::Class { class, dscp: None } => format!("goes to class {class}"),
        ColorAction::Class { class, dscp: Some(dscp) } => format!("goes to class {class}, marked {dscp}"),
    }
}

/// What a contract does with the packet. It concerns what is classified or recognised.
pub(super) fn contract(name: &Name, spec: &SlaSpec, from: &str, packet: &mut Conditioned) -> Step {
    let burst = if spec.burst == Bytes(0) { String::new() } else { format!(", burst {}", spec.burst) };
    let says = format!("{name} (by {from}): {}{burst}", spec.rate);
    let step = Step::new("contract", says)
        .object(Kind::Sla, name)
        .fact("name", name.as_str())
        .fact("rate", spec.rate.0)
        .fact("shared_pct", spec.shared_pct)
        .fact("from", from);
    if !packet.realtime && packet.class.is_none() {
        return step
            .detail("does not concern this packet: it is neither recognised nor in a class of its own")
            .fact("concerned", false);
    }
    let step = match spec.shared_pct {
        100.. => step,
        0 => step.detail("shared equally by its live flows"),
        pct => step
            .detail(format!("{pct} % first come, first served; the rest shared equally by its live flows")),
    };
    let beyond = match spec.policy {
        SlaPolicy::Ok => "passes alike",
        SlaPolicy::Drop => "is dropped (sla_policy)",
        SlaPolicy::Demote => "goes to the default class, code point cleared",
    };
    let step = match spec.dscp {
        Some(dscp) => {
            packet.dscp = dscp;
            step.detail(format!("within it: marked {dscp}"))
        }
        None => step.detail("within it: code point unchanged"),
    };
    step.detail(format!("beyond it: {beyond}")).fact("concerned", true)
}

/// What recognised flows are policed to.
pub(super) fn policer(
    name: &Name,
    spec: &DetectorSpec,
    draft: &Draft<'_>,
    packet: &mut Conditioned,
) -> Option<Step> {
    let rate = spec.rate.unwrap_or_else(|| class_rate(draft, spec));
    if !packet.realtime
        || (rate.0 == 0 && spec.flow_rate == Rate::ZERO)
        || packet.class.as_deref() != Some(spec.class.as_str())
    {
        return None;
    }
    let beyond = match spec.excess {
        ExcessPolicy::Drop => "is dropped (policed)",
        ExcessPolicy::Demote => "goes to the default class, code point cleared",
    };
    let says = match rate.0 {
        0 => format!("recognised flows share class {}", spec.class),
        _ => format!("recognised flows share {rate} in class {}", spec.class),
    };
    let step = Step::new("policer", says).object(Kind::Detector, name).fact("rate", rate.0);
    let step = match spec.flow_rate {
        Rate::ZERO => step,
        each => step
            .detail(format!("each has {each}: what is beyond goes to the default class, code point cleared"))
            .fact("flow_rate", each.0),
    };
    let step = match spec.dscp {
        Some(dscp) => {
            packet.dscp = dscp;
            step.detail(format!("within it: marked {dscp}"))
        }
        None => step,
    };
    Some(if rate.0 == 0 { step } else { step.detail(format!("beyond it: {beyond}")) })
}
