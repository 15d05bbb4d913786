//! Records of calls: a line of JSON each, written by a thread of its own, so that a disk that is slow holds up no call.

use crate::error::AppError;
use perhop_io::clock;
use perhop_io::private_file::append;
use perhop_sip::quality::{Ending, Record};
use perhop_units::Instant;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tracing::error;

/// Records that wait to be written; more are lost.
const WAITING: usize = 65_536;

enum Message {
    Line(String),
    /// Opens the file again: somebody may have moved it away.
    Reopen,
}

/// The way into the file.
#[derive(Clone)]
pub struct Records(SyncSender<Message>);

/// The thread that writes; it ends with the last of the ways.
pub struct Writing(JoinHandle<()>);

impl Records {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be opened now.
    pub fn open(path: &Path) -> Result<(Self, Writing), AppError> {
        let file = append(path).map_err(|source| AppError::Write { path: path.to_owned(), source })?;
        let (to, from) = sync_channel(WAITING);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("records".to_owned());
        let writing = thread.spawn(move || write(&path, file, &from)).map_err(AppError::Runtime)?;
        Ok((Self(to), Writing(writing)))
    }

    /// Writes one, unless too many wait.
    pub fn put(&self, record: &Record) -> bool {
        self.0.try_send(Message::Line(format!("{}\n", shown(record)))).is_ok()
    }

    /// Opens the file again.
    pub fn reopen(&self) {
        let _ = self.0.try_send(Message::Reopen);
    }
}

impl Writing {
    /// Waits until all is written.
    pub fn end(self) {
        let _ = self.0.join();
    }
}

fn write(path: &Path, mut file: File, from: &Receiver<Message>) {
    let mut is_failing = false;
    for message in from {
        let done = match message {
            Message::Line(line) => file.write_all(line.as_bytes()),
            Message::Reopen => append(path).map(|opened| file = opened),
        };
        if let (Err(why), false) = (&done, is_failing) {
            error!("{}: records of calls are lost: {why}", path.display());
        }
        is_failing = done.is_err();
    }
}

fn shown(record: &Record) -> Value {
    // What the wall's clock says now is close enough to what it said then.
    let zero = clock::real_minus_monotonic();
    let ms = |at: Instant| at.0.saturating_add(zero) / 1_000_000;
    let (ending, code) = ending(record.ending);
    let reserved: Vec<Value> = record
        .reserved
        .iter()
        .map(|part| json!({ "from": part.from, "to": part.to, "bps": part.rate.0, "back_bps": part.back.0 }))
        .collect();
    json!({
        "call_id": record.call_id,
        "caller": record.caller,
        "callee": record.callee,
        "begun_ms": ms(record.begun),
        "answered_ms": record.answered.map(ms),
        "ended_ms": ms(record.ended),
        "bps": record.rate.0,
        "reserved": reserved,
        "ending": ending,
        "code": code,
    })
}

fn ending(ending: Ending) -> (&'static str, Option<&'static str>) {
    match ending {
        Ending::Bye => ("bye", None),
        Ending::Unanswered => ("unanswered", None),
        Ending::OtherAnswered => ("other_answered", None),
        Ending::Refused(code) => ("refused", Some(code.name())),
        Ending::Taken(code) => ("taken", Some(code.name())),
        Ending::NotRefreshed => ("not_refreshed", None),
        Ending::Silent => ("silent", None),
        Ending::TooLong => ("too_long", None),
        Ending::NoMedia => ("no_media", None),
    }
}
