//! Errors of form: what is reported, and that the rest of the file is still read.

use perhop_config::Document;
use proptest::prelude::*;

/// The messages about form, and `key@line` of each top-level key that was still read.
fn read(text: &str) -> (String, Vec<String>) {
    let (document, diagnostics) = Document::parse("f", text);
    let keys = perhop_config::Diagnostics::new();
    document.root(&keys).finish();
    (
        diagnostics.to_string(),
        keys.sorted().iter().map(|d| format!("{}@{}", d.key, d.position.line)).collect(),
    )
}

fn check(text: &str, messages: &[&str], keys: &[&str]) {
    let (found, read) = read(text);
    let first_lines: Vec<&str> = found.lines().filter(|l| !l.starts_with(' ')).collect();
    assert_eq!(first_lines, messages, "{text}");
    assert_eq!(read, keys, "{text}");
}

#[test]
fn key_without_equals() {
    check("a = 1\nfoo\nb = 2\n[t]\n", &["f:2:1: foo is a key without a value;"], &["a@1", "b@3", "t@4"]);
}

#[test]
fn quantities_without_quotes() {
    check(
        "limit = 900 B\nrate = 10 Mbit/s # fast\n",
        &["f:1:9: limit = 900 B is not in quotes;", "f:2:8: rate = 10 Mbit/s is not in quotes;"],
        &["limit@1", "rate@2"],
    );
}

#[test]
fn quotes_of_books_are_named_as_such() {
    let hint = |text: &str| read(text).0;
    let whole = hint("rate = “10 Mbit/s”\nb = 2\n");
    assert_eq!(
        whole,
        "f:1:8: rate = “10 Mbit/s” is in typographic quotes;\n  Write \"10 Mbit/s\", with straight quotes.\n"
    );
    assert!(hint("dscp = [“EF”, „AF41“]\n").matches("is in typographic quotes").count() == 2);
    assert!(hint("a = ‘x’\n").contains("Write \"x\", with straight quotes."));
    for text in ["a = \"10 Mbit/s”\nb = 2\n", "“a” = 1\n", "a = ”10 Mbit/s\"\n", "a = '10 Mbit/s’\n"]
    {
        assert!(hint(text).contains("straight"), "{text}: {}", hint(text));
    }
    assert!(hint("a = \"“quoted”\"\n").is_empty(), "in a string they are characters");
}

#[test]
fn unclosed_array_ends_where_the_next_statement_begins() {
    let message = &["f:1:5: a is an array that is never closed;"];
    check("a = [1, 2\nb = 3\n[t]\nc = [4]\n", message, &["a@1", "b@2", "t@3"]);
    check("a = [\n  \"x\", # ]\n  \"y\",\n[[t]]\nc=1\n", message, &["a@1", "t@4"]);
    check("a = [[1], [2\nb = 1\n", message, &["a@1", "b@2"]);
}

#[test]
fn unclosed_inline_table() {
    check("a = { x = 1, y = 2\nb = 3\n", &["f:1:5: a is a table that is never closed;"], &["a@1", "b@2"]);
}

#[test]
fn unclosed_headers() {
    check(
        "[t\na = 1\n[[class]\nname = 1\n[[class\nname = 2\n[u]\n",
        &[
            "f:1:1: [t is a header that is never closed;",
            "f:3:1: [[class] is a header that is never closed;",
            "f:5:1: [[class is a header that is never closed;",
        ],
        &["t@1", "class@3", "u@7"],
    );
}

#[test]
fn unclosed_strings() {
    check("a = \"abc\nb = 2\n", &["f:1:9: a is a string that is never closed;"], &["a@1", "b@2"]);
    check(
        "a = \"\"\"abc\nb = 2\n[t]\n",
        &["f:1:5: a is a string that is never closed;"],
        &["a@1", "b@2", "t@3"],
    );
    check("a = '''abc\nb = 2\n", &["f:1:5: a is a string that is never closed;"], &["a@1", "b@2"]);
}

#[test]
fn duplicates_point_to_the_first() {
    let (found, _) = read("[[class]]\nname = 1\nx.name = 2\nname = 3\n[t]\n[t]\n");
    assert_eq!(
        found,
        "f:4:1: class[1]: name is given twice.\n  f:2:1: it is first given here.\n\
         f:6:2: t is given twice.\n  f:5:1: it is first given here.\n"
    );
}

#[test]
fn single_table_after_an_array_of_the_same_name_does_not_replace_it() {
    let text = "[[class]]\nname = \"a\"\n[class]\nname = \"b\"\n[t]\n";
    let (document, diagnostics) = Document::parse("f", text);
    assert_eq!(diagnostics.errors(), 1);
    assert_eq!(document.root(&diagnostics).named_tables("class").len(), 1);
}

#[test]
fn several_kinds_in_one_file_are_all_found() {
    let text = "a = [1\nb\nc = \"x\nd = 1 2\ne = True\nf =\n[g\nh = { i = 1\nj = 1..2\n";
    let (found, _) = read(text);
    let lines: Vec<&str> = found.lines().filter_map(|l| l.strip_prefix("f:")?.split(':').next()).collect();
    assert_eq!(lines, ["1", "2", "3", "4", "5", "6", "7", "8", "9"], "{found}");
}

#[test]
fn brackets_without_end_do_not_exhaust_the_stack() {
    for piece in [
        "[",
        "[\n",
        "{a=",
        "{a=1\nb=",
        "a = {\n[[b]]\nc = { d = 1\n",
        "a = [}\n]",
        "a={b=[}],",
        "[a.b\n",
        "\"\"\"\n[",
    ] {
        let (_, diagnostics) = Document::parse("f", &format!("a = {}", piece.repeat(20_000)));
        assert!(diagnostics.errors() > 0, "{piece}");
        let (_, diagnostics) = Document::parse("f", &piece.repeat(20_000));
        assert!(diagnostics.errors() > 0, "{piece}");
    }
}

/// Pieces of TOML that, thrown together, reach the recovery code.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ".",
        ",",
        "\"",
        "\"\"\"",
        "'''",
        "'",
        "#",
        "\n",
        "\r\n",
        "\t",
        " ",
        "a",
        "b",
        "name",
        "class",
        "1",
        "0x",
        "1.5",
        "true",
        "é",
        "😀",
        "\\",
        "\\u",
        "2020-01-01",
        "\u{feff}",
        "\r",
        "\0",
        "\n[[class]]\n",
        "\nname = \"x\"\n",
        "\n[class]\n",
        "\na = [",
        "\nq = { a = ",
        "\nk\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|v| v.concat())
}

fn survives(text: &str) {
    let (document, diagnostics) = Document::parse("f", text);
    let mut root = document.root(&diagnostics);
    for (_, mut class) in root.named_tables("class") {
        let _ = class.texts("a");
        let _ = class.value::<std::net::IpAddr>("b");
        class.finish();
    }
    if let Some(table) = root.table("q") {
        table.finish();
    }
    let _ = root.integer("a", 0..=1);
    root.finish();
    let lines = text.matches('\n').count() as u32 + 1;
    for d in diagnostics.sorted() {
        let position = d.position;
        assert!((1..=lines).contains(&position.line), "{d} in {text:?}");
        let line = text.split('\n').nth(position.line as usize - 1).unwrap_or("");
        assert!(
            position.column >= 1 && position.column as usize <= line.chars().count() + 1,
            "{d} in {text:?}"
        );
        assert!(!d.fields().is_empty());
    }
    assert!(text.trim().is_empty() || diagnostics.to_string().len() < 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// No text makes the reader panic, and every position lies in the text.
    #[test]
    fn arbitrary_pieces(text in pieces()) {
        survives(&text);
    }

    /// The same for arbitrary characters.
    #[test]
    fn arbitrary_text(text in "\\PC{0,80}") {
        survives(&text);
    }

    /// Cutting a good file anywhere, or removing a byte's character, is survived and never silent about lost keys.
    #[test]
    fn damaged_good_file(cut in 0usize..200, remove in prop::bool::ANY) {
        let good = "name = \"edgé\"\n[[class]]\nname = \"voice\"\nrate = \"1 Mbit/s\"\nqueue = { limit = [1, 2], t = 'x' }\n\n[class.red]\nmin = \"\"\"1\n2\"\"\"\n[[class]]\nname = \"b\"\n";
        let characters: Vec<char> = good.chars().collect();
        let cut = cut % characters.len();
        let text: String = if remove {
            characters.iter().enumerate().filter(|(i, _)| *i != cut).map(|(_, c)| c).collect()
        } else {
            characters[..cut].iter().collect()
        };
        survives(&text);
    }

    /// An error in line `n` of an otherwise good file is reported in line `n`, and nothing else is.
    #[test]
    fn position_of_a_single_error(before in 0usize..30, after in 0usize..30, indent in "[ \t]{0,5}", crlf: bool) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = String::new();
        (0..before).for_each(|i| text.push_str(&format!("žk{i} = 'é'{end}").replace('ž', "k")));
        text.push_str(&format!("{indent}\"klíč\" = 'é' oops{end}"));
        (0..after).for_each(|i| text.push_str(&format!("n{i} = 1{end}")));
        let (_, diagnostics) = Document::parse("f", &text);
        let found = diagnostics.sorted();
        prop_assert_eq!(found.len(), 1, "{}", diagnostics);
        prop_assert_eq!(found[0].position.line as usize, before + 1);
        prop_assert_eq!(found[0].position.column as usize, indent.len() + "'klíč' = 'é' o".chars().count());
    }
}
