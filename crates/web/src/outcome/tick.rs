//! Going on with another function, which takes state of its own.

use std::any::Any;

use axum::response::IntoResponse;

use crate::access::{Access, Held, Param, States, Wants};
use crate::extract::{Asked, Problem};

use super::Reply;
use super::effect::{Effect, Outcome};

/// What the first of two functions gives back: an answer, or a value for the second. See [`next_tick`].
pub struct Tick<V> {
    step: Step<V>,
}

enum Step<V> {
    Reply(Reply),
    Next(V),
}

impl<V: Send + 'static> Tick<V> {
    /// Answers now. The second function is not called.
    pub fn reply(reply: impl IntoResponse) -> Self {
        Self {
            step: Step::Reply(reply.into_response()),
        }
    }

    /// Gives this to the second function.
    pub fn next(value: V) -> Self {
        Self {
            step: Step::Next(value),
        }
    }
}

impl<V: Send + 'static> Outcome for Tick<V> {
    fn declare(access: &mut Access) {
        access.carries::<V>();
    }

    fn effect(self) -> Effect {
        match self.step {
            Step::Reply(reply) => Effect::Reply(reply),
            Step::Next(value) => Effect::Next(Box::new(value)),
        }
    }
}

/// What the function before gave. See [`next_tick`].
pub struct Carried<V>(pub V);

impl<V: Send + 'static> Param for Carried<V> {
    type Item<'r> = Carried<V>;
    type Site = ();
    type Prepared = Option<V>;

    fn declare(access: &mut Access) {
        access.is_carried::<V>();
    }

    fn bind(_: &States) {}

    fn wants(_: &(), _: &mut Wants) {}

    fn prepare(_: &(), _: &mut Asked, _: &mut Wants) -> Result<Option<V>, Problem> {
        Ok(None)
    }

    fn carry(prepared: &mut Option<V>, carried: &mut Option<Box<dyn Any + Send>>) {
        let value = carried.take().and_then(|value| value.downcast().ok());
        *prepared = value.map(|value| *value);
    }

    fn fetch<'r>(
        _: &'r (),
        prepared: &'r mut Option<V>,
        _: &'r Held,
    ) -> Result<Carried<V>, Problem> {
        let value = prepared.take();
        Ok(Carried(value.expect("what is carried was checked")))
    }
}

/// Two functions that handle a request one after the other: [`next_tick`].
pub struct NextTick<A, B> {
    pub(crate) first: A,
    pub(crate) second: B,
}

/// Handles a request with two functions, one after the other. The first gives a [`Tick`], the second takes that value as
/// [`Carried`], and each takes whatever else it likes. Locks are taken for each alone, so that others run in between; both are
/// known when the service is built.
///
/// What is taken from the request is checked for both before the first is called.
///
/// ```
/// use web::{Carried, Path, Read, Service, Tick, Write, next_tick};
///
/// struct Stock(u32);
/// struct Sold(u32);
///
/// fn reserve(mut stock: Write<Stock>, Path(count): Path<u32>) -> Tick<u32> {
///     match stock.0.checked_sub(count) {
///         Some(left) => {
///             stock.0 = left;
///             Tick::next(count)
///         }
///         None => Tick::reply("sold out"),
///     }
/// }
///
/// fn sell(Carried(count): Carried<u32>, mut sold: Write<Sold>) -> String {
///     sold.0 += count;
///     format!("{} sold so far", sold.0)
/// }
///
/// let service = Service::new().share(Stock(10)).share(Sold(0));
/// service.post("/buy/{count}", next_tick(reserve, sell)).build().unwrap();
/// ```
///
/// The first may be an `async` function, which asks somebody while no state is locked:
///
/// ```
/// use web::{Carried, Path, Service, Tick, Write, next_tick};
///
/// #[derive(Default)]
/// struct Prices(Vec<u64>);
///
/// async fn ask(Path(item): Path<u64>) -> Tick<u64> {
///     # async fn asked_elsewhere(item: u64) -> Option<u64> { Some(item) }
///     match asked_elsewhere(item).await {
///         Some(price) => Tick::next(price),
///         None => Tick::reply("nobody knows"),
///     }
/// }
///
/// fn note(Carried(price): Carried<u64>, mut prices: Write<Prices>) {
///     prices.0.push(price);
/// }
///
/// Service::new().share(Prices::default()).post("/{item}", next_tick(ask, note)).build().unwrap();
/// ```
pub fn next_tick<A, B>(first: A, second: B) -> NextTick<A, B> {
    NextTick { first, second }
}
