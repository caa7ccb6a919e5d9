//! The parts of the path that a route leaves open.

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Asked, Extract, Problem};

/// The open parts of the path: of the route `/users/{id}`, `Path<u64>` is the id. Several are taken as a tuple, in order, or as
/// a structure whose fields are named as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<T>(pub T);

impl<T> Deref for Path<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> Extract for Path<T> {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        let found = {
            let parts = asked.parts_mut();
            let found = pin!(axum::extract::Path::<T>::from_request_parts(parts, &()));
            found.poll(&mut Context::from_waker(Waker::noop()))
        };
        match found {
            Poll::Ready(Ok(found)) => Ok(Self(found.0)),
            Poll::Ready(Err(rejection)) => Err(problem(rejection, asked)),
            Poll::Pending => Err(Problem::new(500, "The path is not known")),
        }
    }
}

fn problem(rejection: PathRejection, asked: &mut Asked) -> Problem {
    let PathRejection::FailedToDeserializePathParams(failed) = rejection else {
        return Problem::new(500, "The service is not complete").detail(rejection.to_string());
    };
    let kind = failed.into_kind();
    let detail = kind.to_string();
    let field = match kind {
        ErrorKind::ParseErrorAtKey { key, .. }
        | ErrorKind::InvalidUtf8InPathParam { key }
        | ErrorKind::DeserializeError { key, .. } => key,
        ErrorKind::ParseErrorAtIndex { index, .. } => index.to_string(),
        ErrorKind::WrongNumberOfParameters { .. } | ErrorKind::UnsupportedType { .. } => {
            return Problem::new(500, "The service is not complete").detail(detail);
        }
        _ => only_name(asked).unwrap_or_else(|| "path".to_owned()),
    };
    Problem::new(400, "The path does not fit")
        .detail(detail)
        .field(field)
}

/// The name of the open part of the path, if there is but one.
fn only_name(asked: &mut Asked) -> Option<String> {
    let found = pin!(RawPathParams::from_request_parts(asked.parts_mut(), &()));
    let found = found.poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(params)) = found else {
        return None;
    };
    let mut names = params.iter().map(|(name, _)| name.to_owned());
    names.next().filter(|_| names.next().is_none())
}

/// The part of the path that the route calls `{id}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathId<K = u64>(pub K);

#[derive(Deserialize)]
struct WithId<K> {
    id: K,
}

impl<K> Deref for PathId<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: DeserializeOwned + Send + 'static> Extract for PathId<K> {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Path::<WithId<K>>::extract(asked).map(|Path(found)| Self(found.id))
    }
}
