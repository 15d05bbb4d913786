//! The graph language: text → graph → text, errors at their places, no text that makes it fall over.

mod manual;

use crate::random_graphs::{build_cx, registry};
use perhop_element::{Arg, Args};
use perhop_graph::lang::{EdgeDecl, Graph, GraphError, MAX_ERRORS, NodeDecl, build, parse};
use proptest::prelude::*;

/// A graph without the positions of its text.
fn plain(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for node in &mut graph.nodes {
        node.offset = 0;
        node.args.offset = 0;
        node.args.list.iter_mut().for_each(|a| a.offset = 0);
    }
    graph.edges.iter_mut().for_each(|e| e.offset = 0);
    graph
}

fn good(text: &str) -> Graph {
    parse(text).unwrap_or_else(|e| panic!("{text:?}: {e:?}"))
}

/// `line:column: message` of everything wrong with `text`.
fn wrong(text: &str) -> Vec<String> {
    parse(text).expect_err("something is wrong with it").iter().map(GraphError::to_string).collect()
}

fn values(text: &str) -> Vec<(Option<String>, String)> {
    let graph = good(text);
    graph.nodes[0].args.list.iter().map(|a| (a.key.clone(), a.value.clone())).collect()
}

prop_compose! {
    fn name()(s in "[A-Za-z_][A-Za-z0-9_.@]{0,12}") -> String { s }
}

fn arg() -> impl Strategy<Value = Arg> {
    let value =
        prop_oneof!["[a-z0-9 /.:-]{0,10}", "[ -~]{0,14}", "\\PC{0,8}", Just("a \"b, c\" \\ d".to_owned())];
    (prop::option::of("[a-z_]{1,8}"), value).prop_map(|(key, value)| Arg { key, value, offset: 0 })
}

prop_compose! {
    fn graph()(
        nodes in prop::collection::btree_map(name(), (name(), prop::collection::vec(arg(), 0..4)), 1..8),
        edges in prop::collection::vec(((any::<prop::sample::Index>(), 0_u8..4), (any::<prop::sample::Index>(), any::<u8>())), 0..12),
    ) -> Graph {
        let nodes: Vec<NodeDecl> = nodes.into_iter()
            .map(|(name, (type_name, list))| NodeDecl { name, type_name, args: Args { list, offset: 0 }, offset: 0 })
            .collect();
        let mut seen = std::collections::HashSet::new();
        let edges = edges.into_iter()
            .map(|((from, output), (to, input))| EdgeDecl {
                from: from.index(nodes.len()), output, to: to.index(nodes.len()), input, offset: 0,
            })
            .filter(|e| seen.insert((e.from, e.output)))
            .collect();
        Graph { nodes, edges }
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(graph in graph()) {
        let text = graph.to_string();
        let read = good(&text);
        prop_assert_eq!(plain(&read), plain(&graph), "{}", text);
        prop_assert_eq!(read.to_string(), text, "canonical text is its own canonical text");
    }

    #[test]
    fn no_text_makes_it_fall_over(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn nor_does_text_of_its_own_punctuation(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["a", "b :: T", "->", "::", ",", ";", "[", "]", "[1]", "(", ")", "\"", "\\", "=", "//", "/*", "*/", "\n", "é", " "]),
            0..60,
        )
    ) {
        let text = pieces.concat();
        match parse(&text) {
            Ok(graph) => prop_assert_eq!(plain(&good(&graph.to_string())), plain(&graph)),
            Err(errors) => {
                let lines: Vec<&str> = text.split('\n').collect();
                for e in errors {
                    prop_assert!(e.line <= lines.len() && e.column <= lines[e.line - 1].chars().count() + 1, "{}", e);
                }
            }
        }
    }
}

#[test]
fn every_error_has_its_place() {
    let text = "in :: FromPort(0);\n  in -> wram -> out;\nwarm :: Counter();\nin :: Counter();\n\u{e9} out -> ;\n x [300] -> warm";
    let expected = [
        "2:9: there is no element wram; did you mean warm?",
        "2:17: there is no element out",
        "4:1: in is declared already at 1:1",
        "5:1: 'é' means nothing here",
        "5:10: expected an element, found `;`",
        "6:2: there is no element x",
        "6:4: \"[300]\" is not an input or output number; write a number from 0 to 255 in brackets",
    ];
    let found = wrong(text);
    assert_eq!(found, expected);
}

#[test]
fn one_error_does_not_hide_the_next() {
    assert_eq!(wrong("a :: ;\nb -> c;\n").len(), 3);
    assert_eq!(wrong("a :: T(;"), ["1:7: this parenthesis is not closed"]);
    assert_eq!(wrong("a :: T(\"x);"), ["1:7: this argument's quotes have no end"]);
    assert_eq!(wrong("a :: T() /* no end"), ["1:10: this comment has no end"]);
    assert_eq!(
        wrong("lonely;"),
        [
            "1:1: this says nothing about the element; write `name :: Type(…);` to declare or `a -> b;` to connect"
        ]
    );
    let twice = "a, b, c :: T; a -> b; a [0] -> c;";
    assert_eq!(wrong(twice), ["1:32: output [0] of a is connected to b already; use Tee to copy packets"]);
    assert_eq!(wrong("a :: T() b :: T();"), ["1:10: expected `->` or `;`, found b"]);
    assert_eq!(wrong("a, b :: T; [1] a -> b [2];").len(), 2, "numbers that connect nothing");
    let open = wrong("a [1;\nb :: T; c :: U");
    assert!(open[1].starts_with("1:3: \"[1\" is not an input or output number"), "{open:?}");
    assert_eq!(open.len(), 2, "the next statement is read");
}

#[test]
fn a_flood_of_errors_ends() {
    assert_eq!(wrong(&"é".repeat(50_000)).len(), MAX_ERRORS);
    let names: String = (0..50_000).map(|i| format!("unknown{i} -> other{i};")).collect();
    assert_eq!(wrong(&names).len(), MAX_ERRORS);
}

#[test]
fn arguments_are_split_at_their_own_commas() {
    let some = |k: &str, v: &str| (Some(k.to_owned()), v.to_owned());
    let bare = |v: &str| (None, v.to_owned());
    assert_eq!(
        values("a :: T(limit = 30 ms,  rate=10 Mbit/s , 1500 B);"),
        [some("limit", "30 ms"), some("rate", "10 Mbit/s"), bare("1500 B"),]
    );
    assert_eq!(values("a :: T(f(1, 2), [3, 4], {5, 6});"), [bare("f(1, 2)"), bare("[3, 4]"), bare("{5, 6}")]);
    assert_eq!(values(r#"a :: T("a, b) = c", k = "x, y");"#), [bare("a, b) = c"), some("k", "x, y")]);
    assert_eq!(
        values(r#"a :: T("a \"b\" \\", say "x, y" twice, "a" "b");"#),
        [bare(r#"a "b" \"#), bare(r#"say "x, y" twice"#), bare(r#""a" "b""#),]
    );
    assert_eq!(values("a :: T( , , x, \"\" );"), [bare("x"), bare("")]);
    assert_eq!(
        values("a :: T(udp dst port >= 5, x.y@z = 1);"),
        [bare("udp dst port >= 5"), some("x.y@z", "1")]
    );
}

#[test]
fn names_comments_chains_and_anonymous_elements() {
    let graph = good(
        "// a comment\nin.0@x :: T; /* another;\n */ a, b :: U(1);\nin.0@x [1] -> [2] a -> V(3) -> c :: W -> b; V();",
    );
    let names: Vec<&str> = graph.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["in.0@x", "a", "b", "V@4", "c", "V@6"]);
    let edges: Vec<_> = graph.edges.iter().map(|e| (e.from, e.output, e.to, e.input)).collect();
    assert_eq!(edges, [(0, 1, 1, 2), (1, 0, 3, 0), (3, 0, 4, 0), (4, 0, 2, 0)]);
}

#[test]
fn building_tells_types_ports_and_arguments_that_are_wrong_all_at_once() {
    let text = "a :: Cuonter();\nb :: Counter(); c :: Discard();\nb [3] -> [2] c;\nd :: Shaper(10 parsecs);";
    let graph = good(text);
    let errors = match build(text, graph, &registry(), &mut build_cx()) {
        Ok(_) => panic!("it must not build"),
        Err(errors) => errors,
    };
    let found: Vec<_> = errors.iter().map(GraphError::to_string).collect();
    assert_eq!(found[0], "1:1: there is no element type Cuonter; did you mean Counter?");
    assert_eq!(found[1], "2:1: b (Counter) has 1 outputs, number 3 is used");
    assert_eq!(found[2], "2:17: c (Discard) has 1 inputs, number 2 is used");
    assert!(found[3].starts_with("4:13: d (Shaper): "), "{}", found[3]);
    assert_eq!(found.len(), 4);
}

#[test]
fn an_argument_that_is_wrong_is_shown_with_its_place_and_what_is_allowed() {
    let found = |text: &str| match build(text, good(text), &registry(), &mut build_cx()) {
        Ok(_) => panic!("{text} must not build"),
        Err(errors) => errors.iter().map(GraphError::to_string).collect::<Vec<_>>(),
    };
    assert_eq!(found("t :: Tee(40);"), ["1:10: t (Tee): n = 40 is out of range; allowed: 1 to 32"]);
    assert_eq!(
        found("t :: Tee(x);"),
        ["1:10: t (Tee): n = x: invalid digit found in string; allowed: 1 to 32"]
    );
    assert_eq!(
        found("t :: Tee(5,\n  n = 6);"),
        ["2:3: t (Tee): n is given twice: 5 and 6; allowed: one of them"]
    );
    assert_eq!(found("l :: Loss();"), ["1:10: l (Loss): probability is missing; allowed: 0 % to 100 %"]);
    assert_eq!(found("c :: Counter(1);"), ["1:14: c (Counter): unexpected value 1; allowed: no arguments"]);
    assert_eq!(
        found("s :: Shaper(1 Mbit/s, 2 B, 3 B);"),
        ["1:28: s (Shaper): unexpected value 3 B; allowed: rate, burst, discipline, limit, overhead",]
    );
    assert_eq!(
        found("c :: SetClass(a b);"),
        ["1:15: c (SetClass): class = a b is not a class name; allowed: 1 to 128 of A-Z a-z 0-9 . _ : / -"]
    );
}
