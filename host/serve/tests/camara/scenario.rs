//! Playing a scenario: what it wants before a request, the request, and what it says of the answer.

use super::gherkin::Scenario;
use super::given::{given, quoted};
use super::schema::Documents;
use super::then::then;
use super::world::{Answer, Event, World, session, token};
use serde_json::{Value, json};

/// A scenario that is being played.
pub struct Play<'d> {
    pub world: World,
    pub documents: &'d Documents,
    /// The document of its operation.
    pub file: &'static str,
    operation: String,
    pub correlator: String,
    pub token: Option<String>,
    pub body: Option<Value>,
    pub parameter: String,
    /// A session that there is, and what it was asked for with.
    pub session: Value,
    pub asked: Value,
    /// Whether a server keeps its prefix when it gets a list.
    pub keeps_prefix: bool,
    pub events_begin: bool,
    pub answer: Answer,
    pub event: Option<Event>,
}

/// Steps that contradict the interface document, which counts.
pub const CONTRADICTED: [(&str, &str); 1] = [(
    r#"the event body property "$.type" is set to "org.camaraproject.qod.v1.qos-status-changed""#,
    "EventQosStatusChanged allows org.camaraproject.quality-on-demand.v1.qos-status-changed only",
)];

impl<'d> Play<'d> {
    fn new(documents: &'d Documents, operation: &str) -> Self {
        let of_profiles = operation.ends_with("QosProfile") || operation.ends_with("QosProfiles");
        Self {
            world: World::new(),
            documents,
            file: if of_profiles { "qos-profiles.yaml" } else { "quality-on-demand.yaml" },
            operation: operation.to_owned(),
            correlator: String::new(),
            token: Some(token("app")),
            body: None,
            parameter: String::new(),
            session: Value::Null,
            asked: Value::Null,
            keeps_prefix: false,
            events_begin: false,
            answer: Answer::default(),
            event: None,
        }
    }

    pub fn body(&mut self) -> &mut Value {
        self.body.get_or_insert_with(|| json!({}))
    }

    /// Sees that a body is what a schema says, or is not: so that a scenario tries what it means to.
    pub fn complies(&mut self, schema: &str, does: bool) {
        let schema = self.documents.schema(self.file, schema);
        let errors = self.documents.errors(schema, self.body.as_ref().expect("a body"));
        assert_eq!(errors.is_empty(), does, "{errors:?}");
    }

    /// A session of the client, unless there is one.
    pub fn default_session(&mut self) {
        if self.session.is_null() {
            self.asked = session();
            self.session = self.world.create(&self.asked);
            self.parameter = self.session["sessionId"].as_str().expect("a number").to_owned();
        }
    }

    pub fn default_session_deleted(&mut self) {
        if let Some(id) = self.session["sessionId"].as_str() {
            let uri = format!("/quality-on-demand/v1/sessions/{id}");
            assert_eq!(self.world.ask_as("app", "DELETE", &uri, None).status, 204);
        }
        self.session = Value::Null;
    }

    pub fn send(&self) -> Answer {
        let (method, uri) = match self.operation.as_str() {
            "createSession" => ("POST", "/quality-on-demand/vwip/sessions".to_owned()),
            "getSession" => ("GET", format!("/quality-on-demand/vwip/sessions/{}", self.parameter)),
            "deleteSession" => ("DELETE", format!("/quality-on-demand/vwip/sessions/{}", self.parameter)),
            "extendQosSessionDuration" => {
                ("POST", format!("/quality-on-demand/vwip/sessions/{}/extend", self.parameter))
            }
            "retrieveSessionsByDevice" => ("POST", "/quality-on-demand/vwip/retrieve-sessions".to_owned()),
            "getQosProfile" => ("GET", format!("/qos-profiles/vwip/qos-profiles/{}", self.parameter)),
            "retrieveQosProfiles" => ("POST", "/qos-profiles/vwip/retrieve-qos-profiles".to_owned()),
            other => panic!("{other}"),
        };
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers =
            vec![("x-correlator", self.correlator.as_str()), ("content-type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        self.world.ask(method, &uri, &headers, self.body.as_ref().map(Value::to_string).as_deref())
    }

    /// Sends it. Whatever comes back is what the operation's document says.
    fn when(&mut self) {
        self.answer = self.send();
        let Answer { status, body, .. } = &self.answer;
        match self.documents.answer(self.file, &self.operation, *status) {
            Some(schema) => assert_eq!(self.documents.errors(schema, body), Vec::<String>::new(), "{body}"),
            None => assert!(body.is_null(), "{body}"),
        }
    }
}

/// Plays one; the error says which step is not so.
pub fn play(documents: &Documents, operation: &str, scenario: &Scenario) {
    let mut play = Play::new(documents, operation);
    let mut sent = false;
    // Nothing is given any more once it is sent.
    for step in &scenario.steps {
        let known = if CONTRADICTED.iter().any(|(contradicted, _)| contradicted == step) {
            true
        } else if step.starts_with("the request \"") && step.ends_with("is sent")
            || step.ends_with("request is sent")
        {
            assert!(!sent && (step.contains("\"POST\"") || quoted(step) == [operation]), "{step}");
            play.when();
            sent = true;
            true
        } else if step == "the QoS status of the session becomes known" {
            sent = true;
            true
        } else if sent {
            then(&mut play, step)
        } else {
            given(&mut play, step)
        };
        assert!(known, "nobody knows what this is: {step}");
    }
    assert!(sent, "nothing was asked");
}
