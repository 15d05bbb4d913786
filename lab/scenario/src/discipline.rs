//! The element that orders the packets before a link.

use crate::model::{Discipline, Way};

impl Way {
    /// The graph element of the discipline, with the link's rate, queue and overhead where its text does not set them;
    /// `None` for plain first-in first-out, which the link itself does.
    pub fn discipline_element(&self) -> Option<String> {
        match &self.discipline {
            Discipline::Fifo => None,
            Discipline::Element(text) => Some(with_link(text, self)),
        }
    }
}

fn with_link(text: &str, way: &Way) -> String {
    let (name, arguments) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.trim_end().trim_end_matches(')')),
        None => (text.trim(), ""),
    };
    let has = |key: &str| {
        arguments.split(',').any(|argument| argument.split_once('=').is_some_and(|(k, _)| k.trim() == key))
    };
    let mut all: Vec<String> =
        Some(arguments.trim()).filter(|a| !a.is_empty()).map(str::to_owned).into_iter().collect();
    if let Some(rate) = way.rate.filter(|_| !has("rate")) {
        all.push(format!("rate = {} bit/s", rate.0));
    }
    if !has("limit") {
        all.push(format!("limit = {}", way.queue));
    }
    if way.overhead.get() > 0 && !has("overhead") {
        all.push(format!("overhead = {} B", way.overhead.get()));
    }
    format!("{name}({})", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::{Bytes, QueueLimit, Rate};

    #[test]
    fn what_the_text_does_not_say_is_the_links() {
        let mut way = Way {
            rate: Some(Rate::from_mbit(2)),
            overhead: Bytes(4),
            queue: QueueLimit::Bytes(Bytes(9000)),
            ..Way::default()
        };
        assert_eq!(way.discipline_element(), None);
        way.discipline = Discipline::Element("Red(min = 3 packets, limit = 20 packets)".to_owned());
        let expected = "Red(min = 3 packets, limit = 20 packets, rate = 2000000 bit/s, overhead = 4 B)";
        assert_eq!(way.discipline_element().as_deref(), Some(expected));
        way.discipline = Discipline::Element("Priority".to_owned());
        let expected = "Priority(rate = 2000000 bit/s, limit = 9 kB, overhead = 4 B)";
        assert_eq!(way.discipline_element().as_deref(), Some(expected));
    }
}
