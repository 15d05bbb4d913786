//! A class of an interface, as a person writes it: `voice=1 Mbit/s` or `voice=1 Mbit/s@ef`.

use perhop_engine::ShapedClass;
use std::str::FromStr;
use thiserror::Error;

/// Why a text is no class.
#[derive(Debug, Error)]
#[error("{text:?} is not NAME=GUARANTEE or NAME=GUARANTEE@DSCP, as \"voice=1 Mbit/s@ef\": {why}")]
pub struct ClassError {
    text: String,
    why: String,
}

/// A class.
#[derive(Clone, Debug)]
pub struct Class(pub ShapedClass);

impl FromStr for Class {
    type Err = ClassError;

    fn from_str(text: &str) -> Result<Self, ClassError> {
        let wrong = |why: String| ClassError { text: text.to_owned(), why };
        let (name, rest) = text.split_once('=').ok_or_else(|| wrong("there is no \"=\"".to_owned()))?;
        let (rate, dscp) = rest.split_once('@').map_or((rest, None), |(rate, dscp)| (rate, Some(dscp)));
        Ok(Self(ShapedClass {
            name: name.trim().parse().map_err(|e| wrong(format!("{e}")))?,
            guarantee: rate.trim().parse().map_err(|e| wrong(format!("{e}")))?,
            dscp: dscp
                .map(|dscp| dscp.trim().parse())
                .transpose()
                .map_err(|e: <perhop_units::Dscp as FromStr>::Err| wrong(e.to_string()))?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::{Dscp, Rate};

    #[test]
    fn classes_are_read_as_they_are_written() {
        let read =
            |text: &str| text.parse::<Class>().map(|c| (c.0.name.to_string(), c.0.guarantee, c.0.dscp));
        let voice = |dscp| ("voice".to_owned(), Rate::from_mbit(1), dscp);
        assert_eq!(read("voice=1 Mbit/s").expect("one"), voice(None));
        assert_eq!(read("voice = 1 Mbit/s @ ef").expect("one"), voice(Some(Dscp::EF)));
        for wrong in ["voice", "voice=", "voice=1", "voice=1 Mbit/s@64", "a b=1 Mbit/s"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
