//! Decisions: of a PDP, and of a PEP by itself (RFC 2748 §2.2.6, §2.2.7).

use super::numbers::numbers;
use super::object::{Object, Objects, c_num, put};
use super::{Context, Malformed, Opaque};

numbers! {
    /// What is to be done.
    Command {
        /// Nothing: there is no configuration.
        NULL = 0, "NULL";
        /// The request is admitted, the configuration installed.
        INSTALL = 1, "install";
        /// The request is refused or taken back, the configuration removed.
        REMOVE = 2, "remove";
    }
}

/// C-Types of decisions.
const FLAGS: u8 = 1;
const STATELESS: u8 = 2;
const REPLACEMENT: u8 = 3;
const CLIENT_SI: u8 = 4;
const NAMED: u8 = 5;

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is to be done: one of the three.
    pub command: Command,
    /// Bits; those that do not apply are passed over.
    pub flags: u16,
    /// Data that the PEP applies by itself.
    pub stateless: Option<Opaque>,
    /// Data that take the place of others in a message.
    pub replacement: Option<Opaque>,
    /// Data of the client-type.
    pub client_si: Option<Opaque>,
    /// Configuration.
    pub named: Option<Opaque>,
}

impl Verdict {
    /// Of the flags: whoever signalled is to hear of an error.
    pub const TRIGGER_ERROR: u16 = 1;
    /// Of the flags, in COPS-PR: the command is about the request itself (RFC 3084 §3.2).
    pub const REQUEST_STATE: u16 = 2;

    /// Without flags and data.
    pub const fn of(command: Command) -> Self {
        Self { command, flags: 0, stateless: None, replacement: None, client_si: None, named: None }
    }

    /// Flags, then the others in any order, each once.
    fn read(objects: &mut Objects<'_>, number: u8) -> Result<Self, Malformed> {
        let flags = objects.need(number)?;
        if flags.c_type != FLAGS {
            return Err(match flags.c_type {
                STATELESS..=NAMED => Malformed::Missing { c_num: number, at: flags.at },
                _ => flags.unknown(),
            });
        }
        let (command, bits) = flags.pair()?;
        if Command(command).name().is_none() {
            return Err(flags.wrong());
        }
        let mut verdict = Self { flags: bits, ..Self::of(Command(command)) };
        loop {
            // Flags begin the next decision.
            let before = *objects;
            let Some(object) = objects.take(number)? else { return Ok(verdict) };
            if object.c_type == FLAGS {
                *objects = before;
                return Ok(verdict);
            }
            verdict.put(&object)?;
        }
    }

    fn put(&mut self, object: &Object<'_>) -> Result<(), Malformed> {
        let place = match object.c_type {
            STATELESS => &mut self.stateless,
            REPLACEMENT => &mut self.replacement,
            CLIENT_SI => &mut self.client_si,
            NAMED => &mut self.named,
            _ => return Err(object.unknown()),
        };
        match place.replace(object.opaque()) {
            None => Ok(()),
            Some(_) => Err(Malformed::Unexpected { c_num: object.c_num, at: object.at }),
        }
    }

    fn write(&self, out: &mut Vec<u8>, number: u8) {
        put(out, number, FLAGS, |out| {
            out.extend(self.command.0.to_be_bytes());
            out.extend(self.flags.to_be_bytes());
        });
        let data = [&self.stateless, &self.replacement, &self.client_si, &self.named];
        for (c_type, data) in (STATELESS..).zip(data) {
            if let Some(data) = data {
                put(out, number, c_type, |out| out.extend(data.octets()));
            }
        }
    }
}

/// What a PDP decided, and on which of what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// On what.
    pub context: Context,
    /// What.
    pub verdict: Verdict,
}

impl Decision {
    pub(super) fn read(context: &Object<'_>, objects: &mut Objects<'_>) -> Result<Self, Malformed> {
        Ok(Self { context: Context::read(context)?, verdict: Verdict::read(objects, c_num::DECISION)? })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.context.write(out);
        self.verdict.write(out, c_num::DECISION);
    }
}

/// What a PEP decided by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDecision {
    /// On what; none = what is asked.
    pub context: Option<Context>,
    /// What.
    pub verdict: Verdict,
}

impl LocalDecision {
    /// All that there are.
    pub(super) fn read_all(objects: &mut Objects<'_>) -> Result<Vec<Self>, Malformed> {
        let mut all = Vec::new();
        loop {
            let context = objects.take(c_num::CONTEXT)?.map(|object| Context::read(&object)).transpose()?;
            let before = *objects;
            if context.is_none() && objects.take(c_num::LPDP_DECISION)?.is_none() {
                return Ok(all);
            }
            *objects = before;
            all.push(Self { context, verdict: Verdict::read(objects, c_num::LPDP_DECISION)? });
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if let Some(context) = self.context {
            context.write(out);
        }
        self.verdict.write(out, c_num::LPDP_DECISION);
    }
}
