//! What a PEP reports (RFC 2748 §3.3).

use super::asking::too_long;
use super::states::Client as ClientState;
use super::{Pep, Refused};
use crate::wire::{Body, ClientSi, ClientType, Handle, Message, Report, ReportType};
use perhop_units::{Duration, Instant};

impl Pep {
    /// Reports on the oldest decision on a request that was not reported on yet. Every decision of configuration needs it, in
    /// the order in which they came, and none gets two (RFC 2748 §3.3).
    ///
    /// # Errors
    /// There is no such client, request or decision, or no connection.
    pub fn report(
        &mut self,
        now: Instant,
        client_type: ClientType,
        handle: &Handle,
        is_success: bool,
        client_si: Vec<ClientSi>,
    ) -> Result<(), Refused> {
        let report_type = if is_success { ReportType::SUCCESS } else { ReportType::FAILURE };
        let (index, message) = self.report_message(client_type, handle, report_type, client_si, true)?;
        let entry = self.sessions[index].requests.get_mut(handle).ok_or(Refused::NoRequest)?;
        entry.unreported = entry.unreported.checked_sub(1).ok_or(Refused::NothingToReport)?;
        self.send(now, &message);
        Ok(())
    }

    /// Reports, without being asked, that what was in force no longer is.
    ///
    /// # Errors
    /// There is no such client or request, or no connection.
    pub fn report_failure(
        &mut self,
        now: Instant,
        client_type: ClientType,
        handle: &Handle,
        client_si: Vec<ClientSi>,
    ) -> Result<(), Refused> {
        let (_, message) = self.report_message(client_type, handle, ReportType::FAILURE, client_si, false)?;
        self.send(now, &message);
        Ok(())
    }

    /// Reports what a request has used, as often as the PDP wants it at most.
    ///
    /// # Errors
    /// There is no such client or request, no connection, or it is too early.
    pub fn report_accounting(
        &mut self,
        now: Instant,
        client_type: ClientType,
        handle: &Handle,
        client_si: Vec<ClientSi>,
    ) -> Result<(), Refused> {
        let (index, message) =
            self.report_message(client_type, handle, ReportType::ACCOUNTING, client_si, false)?;
        let session = &mut self.sessions[index];
        let entry = session.requests.get_mut(handle).ok_or(Refused::NoRequest)?;
        let too_early = match (session.accounting_s, entry.last_report) {
            (Some(0), _) => true,
            (Some(seconds), Some(last)) => now.since(last) < Duration::from_secs(seconds.into()),
            _ => false,
        };
        if too_early {
            return Err(Refused::TooOften);
        }
        entry.last_report = Some(now);
        self.send(now, &message);
        Ok(())
    }

    fn report_message(
        &self,
        client_type: ClientType,
        handle: &Handle,
        report_type: ReportType,
        client_si: Vec<ClientSi>,
        solicited: bool,
    ) -> Result<(usize, Message), Refused> {
        let index = self.index(client_type)?;
        let session = &self.sessions[index];
        if !session.requests.contains_key(handle) {
            return Err(Refused::NoRequest);
        }
        if session.state != ClientState::Open {
            return Err(Refused::NotOpen);
        }
        let report = Report { handle: handle.clone(), report_type, client_si };
        let message = Message { solicited, ..Message::new(client_type, Body::Report(Box::new(report))) };
        too_long(&message).map(|()| (index, message))
    }
}
