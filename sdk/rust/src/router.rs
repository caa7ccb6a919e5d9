pub use crate::bindings::router::hivewire::worker::routing::Candidate;

use crate::{Message, Result};

/// The code of one's own router: says which workers of a stage get a message.
///
/// ```
/// use hivewire_sdk::{Candidate, Message, Result, Router};
///
/// #[derive(Default)]
/// struct FirstIdle;
///
/// impl Router for FirstIdle {
///     fn select(&mut self, _: &Message, workers: &[Candidate]) -> Result<Vec<u32>> {
///         let idle = workers.iter().position(|worker| worker.waiting == 0);
///         Ok(vec![idle.unwrap_or(0) as u32])
///     }
/// }
///
/// hivewire_sdk::router!(FirstIdle);
/// ```
pub trait Router: Default + 'static {
    /// The places in `workers` of those that get the message: one or several.
    fn select(&mut self, message: &Message, workers: &[Candidate]) -> Result<Vec<u32>>;
}

/// Makes a component of a type that is a [`Router`]. The crate has to be a `cdylib`, and the macro
/// stands there once.
#[macro_export]
macro_rules! router {
    ($router:ty) => {
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: $crate::exports::RouterInstance<$router> =
                    ::std::default::Default::default();
            }

            struct Exported;

            impl $crate::exports::RouterExports for Exported {
                fn select(
                    message: $crate::exports::RawMessage,
                    workers: ::std::vec::Vec<$crate::Candidate>,
                ) -> ::std::result::Result<::std::vec::Vec<u32>, ::std::string::String> {
                    INSTANCE.with(|instance| instance.select(message, &workers))
                }
            }

            // An editor compiles it for its own machine, where nothing is exported.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = $crate::exports::is_router::<Exported>();

            #[cfg(target_arch = "wasm32")]
    $crate::exports::export_router!(Exported with_types_in $crate::exports::router);
        };
    };
}
