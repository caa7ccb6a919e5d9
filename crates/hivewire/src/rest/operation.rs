//! What a route takes and gives, read off the signature of its handler, so that the OpenAPI document says
//! what the code does.
//!
//! Every extractor says what it [asks](Asks) for, every answer what it [gives](Answers). What a signature
//! cannot tell (the statuses of refusals, the type of an answer that is no JSON) is added in the table of
//! routes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::handler::Handler as AxumHandler;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::app::{App, Node};
use super::problem::Problem;

pub(super) const JSON: &str = "application/json";

/// Makes the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What one type of content holds; nothing if it is just bytes or text.
pub(super) type Content = (&'static str, Option<SchemaOf>);

/// A handler of one method, and what it takes and gives.
pub struct Handler {
    pub(super) router: MethodRouter<Arc<App>>,
    pub(super) operation: Operation,
}

/// What a route takes and gives.
#[derive(Default)]
pub(super) struct Operation {
    /// Its id, out of the names of its file and its function.
    pub id: String,
    /// The file.
    pub tag: String,
    /// What stands in the braces of the path: one value, or several in order.
    pub path: Option<SchemaOf>,
    /// What may stand behind the question mark: an object.
    pub query: Option<SchemaOf>,
    /// Headers that are understood.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The body of a request, in one of these types.
    pub body: Vec<Content>,
    /// Whether it reads a body.
    pub takes_body: bool,
    /// Whether there must be a body.
    pub needs_body: bool,
    /// Answers by status, if it went well.
    pub answers: BTreeMap<u16, Answer>,
    /// Statuses of refusals, which come with a problem document.
    pub fails: BTreeSet<u16>,
    /// Whether its answer goes on and on.
    pub streams: bool,
    /// Whether it does nothing when the same request comes again.
    pub once: bool,
}

/// An answer.
#[derive(Default)]
pub(super) struct Answer {
    pub content: Vec<Content>,
    pub has_etag: bool,
}

impl Operation {
    fn answer(&mut self, status: u16) -> &mut Answer {
        self.answers.entry(status).or_default()
    }

    /// What every reading of a body can end with.
    pub fn reads_body(&mut self) {
        self.takes_body = true;
        self.fails.extend([400, 408, 413, 503]);
    }

    /// Gives JSON of this type with this status.
    pub fn gives_json<T: JsonSchema>(&mut self, status: u16) {
        let schema: SchemaOf = |generator| generator.subschema_for::<T>();
        self.answer(status).content.push((JSON, Some(schema)));
    }

    /// Its answer carries an ETag, and can be asked for by one.
    pub fn has_etag(&mut self, status: u16) {
        self.answer(status).has_etag = true;
        self.answer(304).has_etag = true;
        self.headers.push((
            "If-None-Match",
            "ETags of answers that are known already: if it is one of them, the answer is 304 without a body",
        ));
    }
}

/// What an extractor asks for.
pub(super) trait Asks {
    /// Adds it.
    fn asks(operation: &mut Operation);
}

/// What an answer gives.
pub(super) trait Answers {
    /// Adds it.
    fn answers(operation: &mut Operation);
}

impl Asks for State<Arc<App>> {
    fn asks(_: &mut Operation) {}
}

impl Asks for Node {
    fn asks(operation: &mut Operation) {
        operation.fails.insert(503);
    }
}

impl Asks for HeaderMap {
    fn asks(_: &mut Operation) {}
}

impl Asks for Body {
    fn asks(operation: &mut Operation) {
        operation.reads_body();
    }
}

impl<T: JsonSchema> Asks for Result<Path<T>, PathRejection> {
    fn asks(operation: &mut Operation) {
        operation.path = Some(T::json_schema);
        operation.fails.extend([400, 404]);
    }
}

impl<T: JsonSchema> Asks for Result<Query<T>, QueryRejection> {
    fn asks(operation: &mut Operation) {
        operation.query = Some(T::json_schema);
        operation.fails.insert(400);
    }
}

impl<T: JsonSchema> Answers for Json<T> {
    fn answers(operation: &mut Operation) {
        operation.gives_json::<T>(200);
    }
}

impl<T: Answers> Answers for Result<T, Problem> {
    fn answers(operation: &mut Operation) {
        T::answers(operation);
    }
}

/// Nothing but the status says that it is done.
impl Answers for StatusCode {
    fn answers(operation: &mut Operation) {
        operation.answer(200);
    }
}

/// It can be anything: the table of routes says what.
impl Answers for Response {
    fn answers(_: &mut Operation) {}
}

/// A handler whose signature says what it takes and gives. `A` are its arguments.
pub(super) trait Described<A> {
    /// Adds what it takes and gives.
    fn describe(operation: &mut Operation);
}

macro_rules! described {
    ($($argument:ident),*) => {
        impl<F, Fut, Out, $($argument),*> Described<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut,
            Fut: Future<Output = Out>,
            Out: Answers,
            $($argument: Asks,)*
        {
            fn describe(operation: &mut Operation) {
                $($argument::asks(operation);)*
                Out::answers(operation);
            }
        }
    };
}

described!();
described!(A1);
described!(A1, A2);
described!(A1, A2, A3);
described!(A1, A2, A3, A4);
described!(A1, A2, A3, A4, A5);
described!(A1, A2, A3, A4, A5, A6);

macro_rules! methods {
    ($($method:ident),*) => {$(
        /// A handler of this method.
        pub(super) fn $method<H, T, A>(handler: H) -> Handler
        where
            H: AxumHandler<T, Arc<App>> + Described<A>,
            T: 'static,
        {
            Handler::new::<H, A>(routing::$method(handler))
        }
    )*};
}

methods!(get, post, put, delete);

impl Handler {
    fn new<H: Described<A>, A>(router: MethodRouter<Arc<App>>) -> Self {
        let mut names = std::any::type_name::<H>().rsplit("::");
        let function = names.next().unwrap_or_default();
        let tag = names.next().unwrap_or_default();
        let mut operation = Operation {
            id: format!("{tag}_{function}"),
            tag: tag.to_owned(),
            ..Operation::default()
        };
        H::describe(&mut operation);
        Self { router, operation }
    }

    /// It may also refuse with these statuses, besides those that follow from its signature.
    pub(super) fn fails(mut self, statuses: &[u16]) -> Self {
        self.operation.fails.extend(statuses);
        self
    }

    /// Its answer is of this type, which is not JSON.
    pub(super) fn gives(mut self, content_type: &'static str) -> Self {
        let answer = self.operation.answer(200);
        answer.content.push((content_type, None));
        self
    }

    /// Its answer may also be JSON of this type.
    pub(super) fn gives_json<T: JsonSchema>(mut self, status: u16) -> Self {
        self.operation.gives_json::<T>(status);
        self
    }

    /// Its answer is lines of JSON of this type, which may go on for as long as anybody listens.
    pub(super) fn streams<T: JsonSchema>(mut self) -> Self {
        let line: SchemaOf = |generator| generator.subschema_for::<T>();
        let answer = self.operation.answer(200);
        answer.content.push(("application/x-ndjson", Some(line)));
        self.operation.streams = true;
        self
    }

    /// Its answer carries an ETag.
    pub(super) fn tagged(mut self) -> Self {
        self.operation.has_etag(200);
        self
    }

    /// It understands this header.
    pub(super) fn header(mut self, name: &'static str, meaning: &'static str) -> Self {
        self.operation.headers.push((name, meaning));
        self
    }

    /// It changes a definition, and does so only to the one that the request names, if it names one.
    pub(super) fn guarded(self) -> Self {
        self.header(
            "If-Match",
            "ETags of definitions: if what is there is none of them, nothing happens and the answer is 412",
        )
        .fails(&[412])
    }

    /// A request that comes again with the same `Idempotency-Key` gets the answer of the first one.
    pub(super) fn once(mut self) -> Self {
        self.operation.once = true;
        self.header(
            "Idempotency-Key",
            "1 to 255 characters of your choice: a request that comes again with the same key gets the answer of the first one, and does nothing",
        )
        .fails(&[400, 409, 422])
    }
}
