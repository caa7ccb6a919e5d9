//! What can handle requests: functions, and functions one after another.

use std::future::Future;
use std::marker::PhantomData;

use crate::access::{Access, Param};
use crate::extract::Extract;
use crate::outcome::{Effect, NextTick, Outcome};

use super::callback::{Planned, Unbound};

/// What can handle the requests of a route.
///
/// That is any function of up to twelve parameters, each of which is a [`Param`], whose result is an [`Outcome`]. It may block
/// and take long. Beside that it may be an `async` function if all its parameters come out of the request, whose result is an
/// outcome too; and two functions [one after the other](crate::outcome::next_tick), of which the first may be an `async` one.
///
/// An ordinary function that has proven to be short may be called on an I/O thread. So it must not start a runtime of its own
/// (`block_on`): what has to await is an `async` function, or `inline_max` of the [settings](super::Settings) is `Some(0)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot handle requests",
    label = "not a handler",
    note = "a handler is a function of up to 12 parameters that can be shared by threads (`Fn`, `Send`, `Sync`, `'static`)",
    note = "each parameter is state (`Read<T>`, `Write<T>`, `Key<Write<T>, P>`, `Shared<T>`) or comes out of the request (`Path`, `Query`, `Json`, `Form`, `Body`, `Headers`, …); look for one that is neither",
    note = "what it gives back is something that implements axum's `IntoResponse`, or a `Then`"
)]
pub trait Handler<M> {}

/// What a [`Handler`] calls.
pub struct Callbacks {
    pub(super) all: Vec<Box<dyn Unbound>>,
}

/// How handlers of one kind come to be called. It stands beside [`Handler`] so that what is wrong with an `async` function is
/// said of the parameter that is wrong.
pub trait Registered<H> {
    #[doc(hidden)]
    fn registered(handler: H) -> Callbacks;
}

/// A function with its parameters and its result.
pub trait Callable<M>: Send + Sync + 'static {
    #[doc(hidden)]
    type Params: Param + 'static;
    #[doc(hidden)]
    type Out: Outcome;
    #[doc(hidden)]
    fn call(&self, params: <Self::Params as Param>::Item<'_>) -> Self::Out;
}

/// Marks ordinary functions.
pub struct Ordinary<M>(PhantomData<fn() -> M>);
/// Marks `async` functions.
pub struct Async<M>(PhantomData<fn() -> M>);
/// Marks functions that are called one after another.
pub struct Sequence<A, B>(PhantomData<fn() -> (A, B)>);

impl<M: 'static, H: Callable<M>> Handler<Ordinary<M>> for H {}

impl<M: 'static, H: Callable<M>> Registered<H> for Ordinary<M> {
    fn registered(handler: H) -> Callbacks {
        let planned = Planned::<H, M>::new(handler);
        Callbacks {
            all: vec![Box::new(planned)],
        }
    }
}

#[diagnostic::do_not_recommend]
impl<A, B, MA, MB> Handler<Sequence<MA, MB>> for NextTick<A, B>
where
    A: Handler<MA>,
    B: Handler<MB>,
{
}

impl<A, B, MA, MB> Registered<NextTick<A, B>> for Sequence<MA, MB>
where
    MA: Registered<A>,
    MB: Registered<B>,
{
    fn registered(handler: NextTick<A, B>) -> Callbacks {
        let mut callbacks = MA::registered(handler.first);
        callbacks.all.extend(MB::registered(handler.second).all);
        callbacks
    }
}

/// An `async` function, called like others: what it gives back answers later.
struct AsyncFunction<F>(F);

/// What an `async` function gives back: an outcome, later.
pub struct Later<F>(F);

impl<F, R> Outcome for Later<F>
where
    F: Future<Output = R> + Send + 'static,
    R: Outcome,
{
    fn declare(access: &mut Access) {
        R::declare(access);
        access.waits();
    }

    fn effect(self) -> Effect {
        Effect::Later(Box::pin(async move { self.0.await.effect() }))
    }
}

macro_rules! functions {
    ($($param:ident)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl<Function, Out, $($param),*> Callable<fn($($param),*) -> Out> for Function
        where
            Function: Send + Sync + 'static,
            Out: Outcome,
            $($param: Param + 'static,)*
            for<'f> &'f Function: Fn($($param),*) -> Out + Fn($(<$param as Param>::Item<'_>),*) -> Out,
        {
            type Params = ($($param,)*);
            type Out = Out;

            #[inline]
            fn call(&self, ($($param,)*): <Self::Params as Param>::Item<'_>) -> Out {
                // The function is one for parameters of any lifetime. This picks the one of this call.
                fn call_it<Out, $($param),*>(function: impl Fn($($param),*) -> Out, $($param: $param),*) -> Out {
                    function($($param),*)
                }
                call_it(self, $($param),*)
            }
        }

        #[allow(non_snake_case)]
        impl<Function, Waits, Out, $($param),*> Callable<Async<fn($($param),*) -> Waits>> for AsyncFunction<Function>
        where
            Function: Fn($($param),*) -> Waits + Send + Sync + 'static,
            Waits: Future<Output = Out> + Send + 'static,
            Out: Outcome,
            $($param: Extract,)*
        {
            type Params = ($($param,)*);
            type Out = Later<Waits>;

            fn call(&self, ($($param,)*): ($($param,)*)) -> Later<Waits> {
                Later((self.0)($($param),*))
            }
        }

        impl<Function, Waits, $($param),*> Handler<Async<fn($($param),*) -> Waits>> for Function
        where
            Function: Fn($($param),*) -> Waits,
            Waits: Future,
            $($param: Param,)*
        {
        }

        impl<Function, Waits, Out, $($param),*> Registered<Function> for Async<fn($($param),*) -> Waits>
        where
            $($param: Extract,)*
            Function: Fn($($param),*) -> Waits + Send + Sync + 'static,
            Waits: Future<Output = Out> + Send + 'static,
            Out: Outcome + 'static,
        {
            fn registered(handler: Function) -> Callbacks {
                Ordinary::<Async<fn($($param),*) -> Waits>>::registered(AsyncFunction(handler))
            }
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);
functions!(A B C D E);
functions!(A B C D E F);
functions!(A B C D E F G);
functions!(A B C D E F G H);
functions!(A B C D E F G H I);
functions!(A B C D E F G H I J);
functions!(A B C D E F G H I J K);
functions!(A B C D E F G H I J K L);
