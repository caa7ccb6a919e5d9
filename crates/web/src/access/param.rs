//! What can be a parameter of a handler.

use std::any::Any;

use crate::extract::{Asked, Extract, Problem};
use crate::locks::Want;

use super::declare::Access;
use super::states::States;
use super::storage::Held;

/// What one callback wants to lock.
#[derive(Default)]
pub struct Wants {
    all: Vec<Want>,
}

impl Wants {
    pub(super) fn add(&mut self, want: Want) {
        self.all.push(want);
    }

    pub(crate) fn all(&self) -> &[Want] {
        &self.all
    }

    pub(crate) fn extend(&mut self, wants: &[Want]) {
        self.all.extend_from_slice(wants);
    }
}

/// A parameter of a handler: state of the service, or something that comes out of the request.
///
/// To take something of your own from requests, implement [`Extract`]; every such type is a parameter too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not a parameter of a handler",
    note = "a handler takes state (`Read`, `Write`, `Key`, `Shared`) and parts of the request (`Path`, `Query`, `Json`, `Form`, `Body`, `Headers`, …)",
    note = "implement `web::Extract` for a type of your own that comes out of requests"
)]
pub trait Param {
    /// The parameter as one call gets it.
    type Item<'r>;
    /// Where it comes from: found once, when the service is built.
    type Site: Send + Sync + 'static;
    /// What is made of a request before anything is locked.
    type Prepared: Send + 'static;

    /// Says what will be taken.
    fn declare(access: &mut Access);
    /// Finds it among the states of the service.
    fn bind(states: &States) -> Self::Site;
    /// Says what has to be locked for every request.
    fn wants(site: &Self::Site, wants: &mut Wants);
    /// Takes from a request what is needed, and says which keys have to be locked for it.
    fn prepare(
        site: &Self::Site,
        asked: &mut Asked,
        wants: &mut Wants,
    ) -> Result<Self::Prepared, Problem>;
    /// Takes what the callback before gave.
    fn carry(_prepared: &mut Self::Prepared, _carried: &mut Option<Box<dyn Any + Send>>) {}
    /// Makes the parameter, when all is locked.
    fn fetch<'r>(
        site: &'r Self::Site,
        prepared: &'r mut Self::Prepared,
        held: &'r Held,
    ) -> Result<Self::Item<'r>, Problem>;
    /// The handler panicked while it had the parameter.
    fn panicked(_site: &Self::Site, _held: &mut Held, _by: &str) {}
}

impl<T: Extract> Param for T {
    type Item<'r> = T;
    type Site = ();
    type Prepared = Option<T>;

    fn declare(access: &mut Access) {
        if T::READS_BODY {
            access.reads_body();
        }
    }

    fn bind(_states: &States) {}

    fn wants(_site: &(), _wants: &mut Wants) {}

    #[inline]
    fn prepare(_site: &(), asked: &mut Asked, _wants: &mut Wants) -> Result<Option<T>, Problem> {
        T::extract(asked).map(Some)
    }

    #[inline]
    fn fetch<'r>(
        _site: &'r (),
        prepared: &'r mut Option<T>,
        _held: &'r Held,
    ) -> Result<T, Problem> {
        Ok(prepared.take().expect("each parameter is fetched once"))
    }
}

macro_rules! parameters {
    ($($param:ident $site:ident $prepared:ident)*) => {
        #[allow(unused_variables, clippy::unused_unit)]
        impl<$($param: Param),*> Param for ($($param,)*) {
            type Item<'r> = ($($param::Item<'r>,)*);
            type Site = ($($param::Site,)*);
            type Prepared = ($($param::Prepared,)*);

            fn declare(access: &mut Access) {
                $(
                    access.next_parameter();
                    $param::declare(access);
                )*
            }

            fn bind(states: &States) -> Self::Site {
                ($($param::bind(states),)*)
            }

            fn wants(($($site,)*): &Self::Site, wants: &mut Wants) {
                $($param::wants($site, wants);)*
            }

            #[inline]
            fn prepare(
                ($($site,)*): &Self::Site,
                asked: &mut Asked,
                wants: &mut Wants,
            ) -> Result<Self::Prepared, Problem> {
                Ok(($($param::prepare($site, asked, wants)?,)*))
            }

            #[inline]
            fn carry(
                ($($prepared,)*): &mut Self::Prepared,
                carried: &mut Option<Box<dyn Any + Send>>,
            ) {
                $($param::carry($prepared, carried);)*
            }

            #[inline]
            fn fetch<'r>(
                ($($site,)*): &'r Self::Site,
                ($($prepared,)*): &'r mut Self::Prepared,
                held: &'r Held,
            ) -> Result<Self::Item<'r>, Problem> {
                Ok(($($param::fetch($site, $prepared, held)?,)*))
            }

            fn panicked(($($site,)*): &Self::Site, held: &mut Held, by: &str) {
                $($param::panicked($site, held, by);)*
            }
        }
    };
}

parameters!();
parameters!(A a a1);
parameters!(A a a1 B b b1);
parameters!(A a a1 B b b1 C c c1);
parameters!(A a a1 B b b1 C c c1 D d d1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1 H h h1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1 H h h1 I i i1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1 H h h1 I i i1 J j j1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1 H h h1 I i i1 J j j1 K k k1);
parameters!(A a a1 B b b1 C c c1 D d d1 E e e1 F f f1 G g g1 H h h1 I i i1 J j j1 K k k1 L l l1);
