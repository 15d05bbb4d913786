//! A decision of COPS-PR is one transaction (RFC 3084 §3.2): all of it is done or nothing.

use super::ber::{Oid, Value};
use super::objects::{Object, read_all, write_all};
use super::{ClassCode, GlobalCode, Malformed};
use crate::wire::{Command, Decision, Opaque, TooLong, Verdict};
use std::collections::BTreeMap;

/// What a decision message wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// A new request state.
    OpenState,
    /// This request state deleted.
    DeleteState,
    /// Instances removed, and installed.
    Change {
        /// Single ones.
        remove: Vec<Oid>,
        /// All that begin so.
        remove_under: Vec<Oid>,
        /// With their attributes; one by the same name takes the place of another.
        install: Vec<(Oid, Vec<Value>)>,
    },
}

impl Transaction {
    /// Reads the decisions of a message. Removals come before installations; a decision on the request state is alone; NULL has
    /// no data, and the others have.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn read(decisions: &[Decision]) -> Result<Self, Malformed> {
        let (mut remove, mut remove_under, mut install) = (Vec::new(), Vec::new(), Vec::new());
        for Decision { context, verdict } in decisions {
            let Verdict { command, flags, named, .. } = verdict;
            let is_state = flags & Verdict::REQUEST_STATE != 0;
            let fits = context.is_configuration()
                && verdict.stateless.is_none()
                && verdict.replacement.is_none()
                && verdict.client_si.is_none()
                && named.is_none() == (is_state || *command == Command::NULL)
                && (!is_state || decisions.len() == 1);
            if !fits {
                return Err(Malformed::Decision);
            }
            match (*command, is_state) {
                (Command::INSTALL, true) => return Ok(Self::OpenState),
                (Command::REMOVE, true) => return Ok(Self::DeleteState),
                (Command::NULL, false) => {}
                (_, true) => return Err(Malformed::Decision),
                (command, false) => {
                    let objects = read_all(named.as_ref().map_or(&[], Opaque::octets))?;
                    if command == Command::INSTALL {
                        install.extend(bindings(objects)?);
                    } else if !install.is_empty() {
                        return Err(Malformed::Decision);
                    } else {
                        removals(objects, &mut remove, &mut remove_under)?;
                    }
                }
            }
        }
        Ok(Self::Change { remove, remove_under, install })
    }
}

/// PRID and EPD by turns.
fn bindings(objects: Vec<Object>) -> Result<Vec<(Oid, Vec<Value>)>, Malformed> {
    let mut all = Vec::new();
    let mut objects = objects.into_iter();
    while let Some(object) = objects.next() {
        match (object, objects.next()) {
            (Object::Prid(oid), Some(Object::Data(values))) => all.push((oid, values)),
            _ => return Err(Malformed::Decision),
        }
    }
    Ok(all)
}

fn removals(
    objects: Vec<Object>,
    remove: &mut Vec<Oid>,
    remove_under: &mut Vec<Oid>,
) -> Result<(), Malformed> {
    for object in objects {
        match object {
            Object::Prid(oid) => remove.push(oid),
            Object::Prefix(oid) => remove_under.push(oid),
            _ => return Err(Malformed::Decision),
        }
    }
    Ok(())
}

/// An error or warning about an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Which.
    pub instance: Oid,
    /// What.
    pub code: ClassCode,
    /// More of it.
    pub sub_code: u16,
}

/// Why nothing of a transaction was done, or what is to be said of one that was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Of no instance.
    pub global: Option<(GlobalCode, u16)>,
    /// Of instances.
    pub instances: Vec<About>,
}

impl Remarks {
    /// As the data of a RPT.
    ///
    /// # Errors
    /// They are more than an object of COPS can hold.
    pub fn to_data(&self) -> Result<Opaque, TooLong> {
        let global = self.global.map(|(code, sub)| Object::Global(code, sub));
        let instances = self.instances.iter().flat_map(|about| {
            [Object::ErrorPrid(about.instance.clone()), Object::Class(about.code, about.sub_code)]
        });
        write_all(&global.into_iter().chain(instances).collect::<Vec<_>>())
    }
}

impl From<Malformed> for Remarks {
    fn from(malformed: Malformed) -> Self {
        Self { global: Some(malformed.global()), instances: Vec::new() }
    }
}

/// The instances of one request state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    all: BTreeMap<Oid, Vec<Value>>,
}

impl Instances {
    /// In the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&Oid, &[Value])> {
        self.all.iter().map(|(oid, values)| (oid, values.as_slice()))
    }

    /// Does all of a change or nothing. `judge` says of each instance that is installed whether it can be; no more than `most`
    /// instances are held. What is removed and installed at once is installed. O(instances that are named, and under prefixes).
    ///
    /// # Errors
    /// What is wrong with it: all instances that `judge` does not take.
    pub fn change(
        &mut self,
        remove: &[Oid],
        remove_under: &[Oid],
        install: &[(Oid, Vec<Value>)],
        most: usize,
        judge: impl Fn(&Oid, &[Value]) -> Result<(), (ClassCode, u16)>,
    ) -> Result<Remarks, Remarks> {
        let wrong = install.iter().filter_map(|(oid, values)| {
            let (code, sub_code) = judge(oid, values).err()?;
            Some(About { instance: oid.clone(), code, sub_code })
        });
        let wrong = Remarks { global: None, instances: wrong.collect() };
        if !wrong.instances.is_empty() {
            return Err(wrong);
        }
        let mut remarks = Remarks::default();
        let mut removed: Vec<(Oid, Vec<Value>)> = Vec::new();
        for prefix in remove_under {
            let under = self.all.range(prefix.clone()..).take_while(|(oid, _)| oid.is_under(prefix));
            let under: Vec<Oid> = under.map(|(oid, _)| oid.clone()).collect();
            removed.extend(under.iter().filter_map(|oid| self.all.remove_entry(oid)));
        }
        for oid in remove {
            match self.all.remove_entry(oid) {
                Some(entry) => removed.push(entry),
                None if removed.iter().any(|(gone, _)| gone == oid) => {}
                // What is not there need not be removed: a warning (§2.3).
                None => {
                    let (instance, code) = (oid.clone(), ClassCode::PRI_INSTANCE_INVALID);
                    remarks.instances.push(About { instance, code, sub_code: 0 });
                }
            }
        }
        let new: std::collections::BTreeSet<&Oid> =
            install.iter().map(|(oid, _)| oid).filter(|oid| !self.all.contains_key(oid)).collect();
        if self.all.len() + new.len() > most {
            self.all.extend(removed);
            return Err(Remarks { global: Some((GlobalCode::MEMORY_EXHAUSTED, 0)), instances: Vec::new() });
        }
        self.all.extend(install.iter().cloned());
        Ok(remarks)
    }
}
