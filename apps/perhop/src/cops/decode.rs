//! `perhop cops decode FILE|HEX`.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use perhop_cops::decode::describe;
use std::io::Read;
use std::path::Path;

/// Most bytes that are read.
const MOST: u64 = 64 << 20;

/// Arguments of `perhop cops decode`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  perhop cops decode 1009000000000008\n  perhop cops decode messages.bin\n\n\
                        A file has the bytes of one direction of a connection, one message after the other; - is standard \
                        input. Exits 1 where something is no message."
)]
pub struct DecodeArgs {
    /// A file, or hexadecimal digits with or without blanks and colons
    #[arg(value_name = "FILE|HEX")]
    what: String,
}

/// The bytes that hexadecimal digits stand for; `None` if they are none.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !matches!(c, ' ' | ':'))
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = !digits.is_empty() && pairs.remainder().is_empty();
    whole.then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn bytes(what: &str) -> Result<Vec<u8>, AppError> {
    let path = Path::new(what);
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let mut from: Box<dyn Read> = match what {
        "-" => Box::new(std::io::stdin()),
        _ if !path.exists() => match hexadecimal(what) {
            Some(bytes) => return Ok(bytes),
            None => Box::new(std::fs::File::open(path).map_err(failed)?),
        },
        _ => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    from.by_ref().take(MOST).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Prints them.
///
/// # Errors
/// The file cannot be read.
pub fn run(args: &DecodeArgs) -> Result<Verdict, AppError> {
    let bytes = bytes(&args.what)?;
    let text = describe(&bytes).to_string();
    let mut out = Output::new();
    out.line(text.trim_end())?;
    out.flush()?;
    Ok(Verdict::failed_if(!perhop_cops::decode::is_whole(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_with_and_without_what_separates_them() {
        assert_eq!(hexadecimal("10 09:0a"), Some(vec![0x10, 9, 10]));
        for none in ["", "1", "1g", "file.bin"] {
            assert_eq!(hexadecimal(none), None, "{none:?}");
        }
    }
}
