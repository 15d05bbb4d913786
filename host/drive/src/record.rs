//! What a machine was told, in a file, and the same told again.
//!
//! A record has one JSON object a line: `{"machine":"agent","now":17,"made":{…}}` where a machine is made, with what it is
//! made of, then `{"machine":"agent","now":18,"input":…}` for every input. Lines are only ever added, and each is with the
//! kernel before the machine has the input, so that a process that is killed leaves all but its last. Several machines, one
//! after the other or together, may share a file.

use crate::machine::Machine;
use perhop_io::private_file;
use perhop_units::Instant;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::Path;
use thiserror::Error;

/// A record grows up to this size: 1 GiB.
pub const RECORD_BYTES: u64 = 1 << 30;

/// Why nothing more is recorded.
#[derive(Debug, Error)]
pub enum RecordEnd {
    /// It is as large as it may be.
    #[error("it has the {0} B that a record may have")]
    Full(u64),
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a record cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not one of a record.
    #[error("line {line}: {source}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// An input comes before the machine was made.
    #[error("line {0}: an input of a machine that was not made")]
    NotMade(u64),
}

/// A line.
#[derive(Serialize, Deserialize)]
struct Line<N, W> {
    machine: N,
    now: Instant,
    #[serde(flatten)]
    what: W,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What<S, I> {
    Made(S),
    Input(I),
}

/// As much of a line as can be read of every machine's.
#[derive(Deserialize)]
struct Head {
    machine: String,
    made: Option<IgnoredAny>,
}

/// Takes down the inputs of one machine. It ends by itself when it is full or cannot be written.
pub struct Record {
    machine: String,
    file: File,
    /// Bytes that there is room for.
    left: u64,
    most: u64,
    /// Told why it has ended; none once it has.
    ended: Option<Box<dyn FnOnce(RecordEnd) + Send>>,
}

impl Record {
    /// Adds to the file at `path` the inputs of a machine that was made of `setup` at `now`. The file is made, for this user alone, if there is
    /// none, and grows up to `most` bytes; `ended` is told when nothing more is recorded.
    ///
    /// # Errors
    /// The file cannot be written, or a symbolic link has its name.
    pub fn open(
        path: &Path,
        most: u64,
        machine: &str,
        now: Instant,
        setup: &impl Serialize,
        ended: impl FnOnce(RecordEnd) + Send + 'static,
    ) -> io::Result<Self> {
        let mut file = private_file::append(path)?;
        let length = file.metadata()?.len();
        if length > 0 && !ends_with_line(&mut file)? {
            // Whoever wrote it was killed.
            file.write_all(b"\n")?;
        }
        let (machine, left) = (machine.to_owned(), most.saturating_sub(length));
        let mut this = Self { machine, file, left, most, ended: Some(Box::new(ended)) };
        this.add(now, &What::<_, ()>::Made(setup));
        Ok(this)
    }

    /// Takes down an input.
    pub fn note(&mut self, now: Instant, input: &impl Serialize) {
        self.add(now, &What::<(), _>::Input(input));
    }

    fn add(&mut self, now: Instant, what: &impl Serialize) {
        if self.ended.is_none() {
            return;
        }
        if let Err(why) = self.write(now, what)
            && let Some(ended) = self.ended.take()
        {
            ended(why);
        }
    }

    fn write(&mut self, now: Instant, what: &impl Serialize) -> Result<(), RecordEnd> {
        let line = Line { machine: self.machine.as_str(), now, what };
        let mut text = serde_json::to_vec(&line).map_err(io::Error::from)?;
        text.push(b'\n');
        self.left = self.left.checked_sub(text.len() as u64).ok_or(RecordEnd::Full(self.most))?;
        Ok(self.file.write_all(&text)?)
    }
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Tells what a record says to the machines called `machine`, each made by `make` of the time and of what it was made of, and
/// gives every output to `output` with the time of its input. How many inputs it was. Lines of other machines are passed over,
/// as is one that was cut off: the last, and the last before another machine was made.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay<M: Machine<Input: DeserializeOwned>, S: DeserializeOwned>(
    mut record: impl BufRead,
    machine: &str,
    mut make: impl FnMut(Instant, S) -> M,
    mut output: impl FnMut(Instant, M::Output),
) -> Result<u64, ReplayError> {
    let (mut running, mut inputs, mut line) = (None::<M>, 0, 0);
    let mut cut = None;
    let mut text = Vec::new();
    loop {
        text.clear();
        if record.by_ref().take(RECORD_BYTES).read_until(b'\n', &mut text)? == 0 {
            return Ok(inputs);
        }
        line += 1;
        let head = match serde_json::from_slice::<Head>(&text) {
            Ok(head) => head,
            Err(source) if cut.is_none() => {
                cut = Some(ReplayError::Line { line, source });
                continue;
            }
            Err(_) => return cut.map_or(Ok(inputs), Err),
        };
        if let Some(cut) = cut.take().filter(|_| head.made.is_none()) {
            return Err(cut);
        }
        if head.machine != machine {
            continue;
        }
        let Line { now, what, .. } = serde_json::from_slice::<Line<String, What<S, M::Input>>>(&text)
            .map_err(|source| ReplayError::Line { line, source })?;
        match what {
            What::Made(setup) => running = Some(make(now, setup)),
            What::Input(input) => {
                inputs += 1;
                running.as_mut().ok_or(ReplayError::NotMade(line))?.handle_input(now, input);
            }
        }
        while let Some(said) = running.as_mut().and_then(Machine::poll_output) {
            output(now, said);
        }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
