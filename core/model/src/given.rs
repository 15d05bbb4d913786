//! Objects as operations bring them. JSON is read here, once; behind it an object is its name and its typed
//! specification.

use crate::{ErrorItem, Key, Kind, Name, Spec, SpecError};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// An object as somebody wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Name.
    pub name: Name,
    /// Specification; its kind is the object's.
    pub spec: Spec,
    /// Soft state: expires after this many ms unless renewed.
    pub ttl_ms: Option<u64>,
}

/// An object as an operation brings it. What cannot be read is an operation all the same, so that the answer says
/// everything that is wrong with a transaction, each at its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, from = "Written")]
#[allow(clippy::large_enum_variant, reason = "nearly all are objects")]
pub enum Given {
    /// It was read.
    Object(Object),
    /// It was not: whoever judges the operation refuses it.
    Unreadable(Box<Unreadable>),
}

/// What is no object of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// What it would be.
    pub key: Key,
    /// Why it is not.
    pub error: SpecError,
    spec: Value,
    ttl_ms: Option<u64>,
}

/// An object as a client writes it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Object))]
#[serde(deny_unknown_fields, expecting = "struct Object")]
pub(crate) struct Written {
    /// Kind.
    kind: Kind,
    /// Name.
    name: Name,
    /// Specification, in the shape of its kind; see [`Spec`].
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    spec: Value,
    /// Soft state: expires after this many ms unless renewed.
    #[serde(default)]
    ttl_ms: Option<u64>,
}

impl Object {
    /// Hard state.
    pub const fn new(name: Name, spec: Spec) -> Self {
        Self { name, spec, ttl_ms: None }
    }

    /// Kind.
    pub const fn kind(&self) -> Kind {
        self.spec.kind()
    }

    /// Identity.
    pub fn key(&self) -> Key {
        Key { kind: self.kind(), name: self.name.clone() }
    }
}

impl Given {
    /// Reads an object's JSON.
    pub fn read(kind: Kind, name: Name, spec: Value, ttl_ms: Option<u64>) -> Self {
        match Spec::from_value(kind, &spec) {
            Ok(spec) => Self::Object(Object { name, spec, ttl_ms }),
            Err(error) => {
                Self::Unreadable(Box::new(Unreadable { key: Key { kind, name }, error, spec, ttl_ms }))
            }
        }
    }

    /// Identity.
    pub fn key(&self) -> Key {
        match self {
            Self::Object(object) => object.key(),
            Self::Unreadable(this) => this.key.clone(),
        }
    }

    /// The object.
    ///
    /// # Errors
    /// It could not be read: what operation `op` is refused with.
    pub fn object(&self, op: usize) -> Result<&Object, ErrorItem> {
        match self {
            Self::Object(object) => Ok(object),
            Self::Unreadable(this) => Err(this.error.item(op, &this.key)),
        }
    }
}

impl SpecError {
    /// Why operation `op` on `key` is refused.
    pub fn item(&self, op: usize, key: &Key) -> ErrorItem {
        let field = if self.path == "." { String::new() } else { format!(".{}", self.path) };
        let path = format!("{}/{}{field}", key.kind, key.name);
        ErrorItem { op: Some(op), allowed: self.allowed(), ..ErrorItem::new(self.code, path, self.message()) }
    }
}

impl From<Object> for Given {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<Written> for Given {
    fn from(Written { kind, name, spec, ttl_ms }: Written) -> Self {
        Self::read(kind, name, spec, ttl_ms)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        write(to, self.kind(), &self.name, &self.spec, self.ttl_ms)
    }
}

impl Serialize for Unreadable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        write(to, self.key.kind, &self.key.name, &self.spec, self.ttl_ms)
    }
}

fn write<S: Serializer>(
    to: S,
    kind: Kind,
    name: &Name,
    spec: &impl Serialize,
    ttl_ms: Option<u64>,
) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_struct("Object", 4)?;
    object.serialize_field("kind", &kind)?;
    object.serialize_field("name", name)?;
    object.serialize_field("spec", spec)?;
    match ttl_ms {
        Some(ttl_ms) => object.serialize_field("ttl_ms", &ttl_ms)?,
        None => object.skip_field("ttl_ms")?,
    }
    object.end()
}

#[cfg(feature = "schema")]
mod schema {
    use super::{Given, Written};
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    impl PartialSchema for Given {
        fn schema() -> RefOr<Schema> {
            Written::schema()
        }
    }
    impl ToSchema for Given {
        fn name() -> std::borrow::Cow<'static, str> {
            Written::name()
        }
        fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            Written::schemas(schemas);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Transaction};
    use serde_json::json;

    #[test]
    fn an_object_is_written_as_it_was_read_and_what_is_none_too() {
        let good = json!({ "kind": "allocation", "name": "a", "spec": { "class": "c", "guarantee": 5 }, "ttl_ms": 7 });
        let given: Given = serde_json::from_value(good).expect("an object");
        let Given::Object(object) = &given else { panic!("{given:?}") };
        assert_eq!((object.kind(), object.ttl_ms), (Kind::Allocation, Some(7)));
        let written = serde_json::to_value(&given).expect("plain data");
        assert_eq!(serde_json::from_value::<Given>(written).expect("an object"), given);
        let bad = json!({ "kind": "allocation", "name": "a", "spec": { "class": "c", "guarantee": "5" } });
        let given: Given = serde_json::from_value(bad.clone()).expect("an operation all the same");
        assert_eq!(serde_json::to_value(&given).expect("plain data"), bad);
        let item = given.object(3).expect_err("it is unreadable");
        assert_eq!((item.op, item.path.as_str()), (Some(3), "allocation/a.guarantee"));
        assert!(
            serde_json::from_value::<Given>(json!({ "kind": "port", "name": "a", "spec": {}, "x": 1 }))
                .is_err()
        );
    }

    #[test]
    fn a_transaction_is_read_whatever_its_objects_are() {
        let put = json!({ "op": "put", "kind": "port", "name": "wan", "spec": { "rate": 5 }, "if_version": 2, "ttl_ms": 9 });
        let all = json!({ "op": "replace_owned", "kinds": ["port"], "objects": [
            { "kind": "port", "name": "lan", "spec": { "rate": -1 } }] });
        let text = json!({ "txn_id": "00000000000000000000000000000001", "owner": "cli", "fence": 0, "mode": "commit",
            "ops": [put, all] });
        let read: Transaction = serde_json::from_value(text).expect("a transaction");
        let Op::Put(put) = &read.ops[0] else { panic!("{:?}", read.ops) };
        assert_eq!((put.if_version, put.given.object(0).expect("a port").ttl_ms), (Some(2), Some(9)));
        let Op::ReplaceOwned { objects, .. } = &read.ops[1] else { panic!("{:?}", read.ops) };
        assert!(objects[0].object(1).is_err());
        let again: Transaction =
            serde_json::from_str(&serde_json::to_string(&read).expect("plain data")).expect("a transaction");
        assert_eq!(again, read);
        let stray = json!({ "op": "put", "kind": "port", "name": "wan", "spec": {}, "drain_ms": 1 });
        assert!(serde_json::from_value::<Op>(stray).is_err());
    }
}
