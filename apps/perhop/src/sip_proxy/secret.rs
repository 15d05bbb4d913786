//! The secret by which a proxy knows what it has written itself into Record-Route: 16 octets as hexadecimal digits.

use crate::error::AppError;
use crate::text_file::read_text;
use perhop_io::private_file::create;
use std::io::{self, Read, Write};
use std::path::Path;

/// Octets of a file that are looked at.
const MOST: usize = 4_096;

/// Reads it; makes one for this user alone if there is none.
///
/// # Errors
/// The file cannot be read or made, or has something else in it.
pub fn secret(path: &Path) -> Result<[u8; 16], AppError> {
    if !path.exists() {
        let random = random().map_err(|source| AppError::Read { path: "/dev/urandom".into(), source })?;
        let text: String = random.iter().map(|octet| format!("{octet:02x}")).collect();
        let write =
            || create(path).and_then(|mut file| writeln!(file, "{text}").and_then(|()| file.sync_all()));
        write().map_err(|source| AppError::Write { path: path.to_owned(), source })?;
    }
    let text = read_text(path, MOST)?;
    let wrong = || AppError::Read {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is no secret of 32 hexadecimal digits"),
    };
    octets(text.trim()).ok_or_else(wrong)
}

fn random() -> io::Result<[u8; 16]> {
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

fn octets(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_is_made_once_and_is_its_owners_alone() {
        let path = std::env::temp_dir().join(format!("perhop-secret-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let made = secret(&path).expect("it can be written");
        assert_ne!(made, [0; 16]);
        assert_eq!(secret(&path).expect("it can be read"), made);
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "+0123456789abcdef0123456789abcde\n").expect("it can be written");
        assert!(secret(&path).is_err());
        std::fs::remove_file(&path).expect("it was made above");
    }
}
