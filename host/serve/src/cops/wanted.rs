//! What a client wants, as a domain is asked for it.

use crate::controller::CreateReservation;
use crate::domain::Packets;
use perhop_broker::ledger::{Refusal, Reserve};
use perhop_reason::Code;
use perhop_tcapi::wire::{Alternative, Direction, Refusal as Nack, Request as Reservation};

/// The request for a domain: class by its name, nodes as scope.
///
/// # Errors
/// It says too little, or what a domain cannot do.
pub(super) fn reserve(key: String, wanted: &Reservation) -> Result<Reserve, Refusal> {
    let wanted = create(key, wanted)?;
    wanted.flow().check().map_err(|why| Refusal::new(Code::OutOfRange, why.to_string()))?;
    Ok(wanted.request())
}

/// The same as every interface has it.
///
/// # Errors
/// It says too little, or what nobody decides on.
pub(super) fn create(key: String, wanted: &Reservation) -> Result<CreateReservation, Refusal> {
    let missing = |what| Refusal::new(Code::Malformed, format!("the request does not say {what}"));
    let class = wanted.class.as_ref().ok_or_else(|| missing("which class"))?;
    if class.name.is_empty() {
        return Err(Refusal::new(Code::BadReference, "a domain knows classes by their names only"));
    }
    let bps = wanted.reservation.ok_or_else(|| missing("how much"))?.rate_bps;
    let scope = wanted.scope.as_ref().ok_or_else(|| missing("between which nodes"))?;
    let packets = wanted.filter.iter().map(packets).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let why = "the type of service cannot be compared: a reservation is known by addresses and ports";
        Refusal::new(Code::Unsupported, why)
    })?;
    Ok(CreateReservation {
        key,
        from: scope.ingress.clone(),
        to: scope.egress.clone(),
        class: class.name.clone(),
        bps,
        back_bps: (wanted.direction == Direction::Both).then_some(bps),
        floor_bps: None,
        priority: 0,
        lifetime_ms: wanted.lifetime_s.filter(|seconds| *seconds > 0).map(|s| u64::from(s) * 1_000),
        packets,
        dscp: class.dscp,
        note: None,
    })
}

/// Packets as a reservation is known by them; none = they are told apart by their type of service, too, which is not compared.
pub fn packets(given: &Alternative) -> Option<Packets> {
    let Alternative { src, dst, protocol, src_ports, dst_ports, tos } = *given;
    tos.is_none().then_some(Packets { src, dst, protocol, src_ports, dst_ports })
}

/// The refusal as a client reads it.
pub(super) fn nack(refusal: Refusal) -> Nack {
    Nack {
        code: refusal.code,
        offset: 0,
        message: refusal.message,
        link: refusal.link,
        class: refusal.class,
        asked_bps: refusal.asked_bps,
        free_bps: refusal.free_bps,
        retry_after_ms: refusal.retry_after_ms,
    }
}
