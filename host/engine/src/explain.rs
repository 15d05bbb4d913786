//! `explain`: what would become of a packet described in words. A dry run that changes nothing: the question is prepared
//! on the control thread, asked on the packet thread between two batches, and put into words on the control thread.

use perhop_contract::Control;
use perhop_graph::router::{
    Decisions, DescribeError, Described, Explanation, Placement, Probe, RouterPlanner, Worker,
};
use perhop_model::ErrorItem;
use perhop_reason::Code;
use serde_json::Value;

/// A described packet at a port of this router.
pub(crate) struct Question(Probe);

/// What the workers say, by number.
pub(crate) struct Explained {
    probe: Probe,
    decisions: Decisions,
    /// The packet thread that decided, and the last one that was asked for its queues.
    decided: usize,
    asked: Option<usize>,
}

impl Question {
    /// On the control thread.
    pub(crate) fn parse(text: &str, control: &Control<RouterPlanner>) -> Result<Self, ErrorItem> {
        let described = Described::parse(text).map_err(|errors| wrong(&errors))?;
        Probe::new(described, control).map(Self).map_err(|error| wrong(&[error]))
    }

    /// The packet thread that would decide.
    pub(crate) fn decides(&self, placement: &Placement) -> usize {
        placement.decides(&self.0)
    }

    /// On packet thread `decided`, between two batches.
    pub(crate) fn ask(self, worker: &Worker, decided: usize) -> Explained {
        Explained { decisions: worker.decide(&self.0), probe: self.0, decided, asked: None }
    }
}

impl Explained {
    /// The packet thread of `threads` that is to be asked for its queues next, if there is another.
    pub(crate) fn next(&mut self, threads: usize) -> Option<usize> {
        let first = self.asked.map_or(0, |asked| asked + 1);
        self.asked = (first..threads).find(|thread| *thread != self.decided);
        self.asked
    }

    /// On a further packet thread.
    pub(crate) fn and_queues_of(mut self, worker: &Worker) -> Self {
        worker.decide_queues(&self.probe, &mut self.decisions);
        self
    }

    /// On the control thread: numbers become words. Serialises [`Explanation`].
    pub(crate) fn finish(
        self,
        control: &Control<RouterPlanner>,
        notes: &[String],
    ) -> Result<Value, ErrorItem> {
        let mut explanation = Explanation::new(&self.probe, &self.decisions, control);
        // What the kernel might have done instead.
        let route = explanation.steps.iter_mut().find(|step| step.step == "route");
        route.into_iter().for_each(|step| step.details.extend_from_slice(notes));
        serde_json::to_value(explanation)
            .map_err(|e| item(Code::BackendFailed, format!("the explanation cannot be written: {e}")))
    }
}

fn wrong(errors: &[DescribeError]) -> ErrorItem {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    item(Code::Malformed, texts.join("\n"))
}

fn item(code: Code, message: String) -> ErrorItem {
    ErrorItem::new(code, "packet", message)
}
