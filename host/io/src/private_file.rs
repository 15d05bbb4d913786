//! Files that a privileged program writes where others may write too: for its own user alone, and never through a link.
//!
//! Whoever can put a link in the place of such a file would otherwise have the program overwrite what the link points to,
//! and a file that somebody else has made before can be read by them whatever is written to it later.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A directory that is open: what is made in it is made there, wherever its name leads meanwhile.
#[derive(Debug)]
pub struct OpenDirectory(OwnedFd);

impl OpenDirectory {
    /// Opens a directory; makes it, for this user alone, if there is none.
    ///
    /// # Errors
    /// The operating system's; it is a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self(fd)),
            // Of a link the kernel says that it is no directory.
            Err(_) if path.is_symlink() => Err(link()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file of mode 0600 in place of an older one.
    ///
    /// # Errors
    /// As [`create`].
    pub fn create(&self, name: &str) -> io::Result<File> {
        create_at(&self.0, name.as_ref())
    }
}

/// Makes a file of mode 0600 in place of an older one.
///
/// # Errors
/// The operating system's; a link or something else that is no regular file has the name, or a file of another user.
pub fn create(path: &Path) -> io::Result<File> {
    create_at(CWD, path)
}

fn create_at(directory: impl rustix::fd::AsFd, path: &Path) -> io::Result<File> {
    let new = || {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&directory, path, flags, Mode::RUSR | Mode::WUSR)
    };
    match new() {
        Err(Errno::EXIST) => {}
        made => return Ok(made?.into()),
    }
    let old = rustix::fs::statat(&directory, path, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(old.st_mode) {
        FileType::Symlink => return Err(link()),
        FileType::RegularFile => {}
        _ => return Err(in_the_way("something that is no file has its name; remove it")),
    }
    if old.st_uid != rustix::process::geteuid().as_raw() {
        return Err(in_the_way("a file of another user has its name; remove it"));
    }
    // Not emptied but removed: others may have it open, or it may have another name.
    rustix::fs::unlinkat(&directory, path, AtFlags::empty())?;
    Ok(new()?.into())
}

/// Opens a file to read it and to add to its end, a device too; makes one of mode 0600 if there is none.
///
/// # Errors
/// The operating system's; a symbolic link has the name, or the file has another name too.
pub fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).read(true).mode(0o600);
    let file = match options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path) {
        Err(e) if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Err(link()),
        opened => opened?,
    };
    let meta = file.metadata()?;
    if meta.is_file() && meta.nlink() > 1 {
        return Err(in_the_way("the file has another name too; remove one of them"));
    }
    Ok(file)
}

fn link() -> io::Error {
    in_the_way("a symbolic link has its name; remove it, or name what it points to")
}

fn in_the_way(why: &'static str) -> io::Error {
    io::Error::other(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("perhop-private-{}-{name}", std::process::id()));
            fs::create_dir(&dir).expect("new");
            fs::write(dir.join("victim"), "precious").expect("new");
            Self(dir)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn victim(&self) -> String {
            fs::read_to_string(self.at("victim")).expect("there")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o7777
    }

    #[test]
    fn a_file_takes_the_place_of_an_older_one_and_is_its_owners_alone() {
        let scratch = Scratch::new("new");
        let directory = OpenDirectory::open(&scratch.at("in/side")).expect("made");
        assert_eq!(mode(&scratch.at("in/side")), 0o700);
        let path = scratch.at("in/side/file");
        for text in ["first and long", "second"] {
            directory.create("file").expect("made").write_all(text.as_bytes()).expect("room");
            assert_eq!((mode(&path), fs::read_to_string(&path).expect("there").as_str()), (0o600, text));
            // What others can open is not used again, nor what has another name.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mine");
        }
        fs::hard_link(scratch.at("victim"), scratch.at("hard")).expect("new");
        create(&scratch.at("hard")).expect("made").write_all(b"new").expect("room");
        assert_eq!(scratch.victim(), "precious");
    }

    #[test]
    fn links_are_not_followed() {
        let scratch = Scratch::new("links");
        symlink(scratch.at("victim"), scratch.at("link")).expect("new");
        symlink(&scratch.0, scratch.at("directory")).expect("new");
        fs::hard_link(scratch.at("victim"), scratch.at("hard")).expect("new");
        let refused = [
            create(&scratch.at("link")).err(),
            append(&scratch.at("link")).err(),
            OpenDirectory::open(&scratch.at("directory")).err(),
        ];
        for error in refused {
            assert!(error.expect("refused").to_string().contains("symbolic link"));
        }
        assert!(append(&scratch.at("hard")).is_err());
        assert_eq!(scratch.victim(), "precious");
    }

    #[test]
    fn what_is_there_is_added_to() {
        let scratch = Scratch::new("append");
        for text in ["one ", "two"] {
            append(&scratch.at("log")).expect("mine").write_all(text.as_bytes()).expect("room");
        }
        assert_eq!(fs::read_to_string(scratch.at("log")).expect("there"), "one two");
        assert_eq!(mode(&scratch.at("log")), 0o600);
        assert!(append(Path::new("/dev/full")).is_ok(), "a device");
    }

    #[test]
    fn what_is_no_file_or_another_users_is_left_alone() {
        let scratch = Scratch::new("others");
        fs::create_dir(scratch.at("directory")).expect("new");
        assert!(create(&scratch.at("directory")).is_err());
        // Only root can give a file away.
        if std::os::unix::fs::chown(scratch.at("victim"), Some(12_345), None).is_ok()
            && fs::metadata(scratch.at("victim")).expect("there").uid() == 12_345
        {
            assert!(create(&scratch.at("victim")).is_err());
            assert_eq!(scratch.victim(), "precious");
        }
    }
}
