//! Where tests find the messages of RFC 4475.

/// The message of this name, or `None` with a word where there are none.
pub(crate) fn torture(name: &str) -> Option<Vec<u8>> {
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        eprintln!("SKIPPED {name} of RFC 4475: PERHOP_TEST_DATA unset");
        let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "data"));
        assert!(!required, "RFC 4475 is required by PERHOP_REQUIRE but there is no data");
        return None;
    };
    let path = std::path::Path::new(&data).join("sip-torture").join(format!("{name}.dat"));
    Some(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

pub(crate) mod phone;
pub(crate) mod world;
