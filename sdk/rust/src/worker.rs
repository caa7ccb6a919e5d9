use crate::{Context, Message, Result};

/// The code of a worker. An instance of it sees one batch of messages at a time and shares nothing
/// with others.
///
/// If a function fails, by an error or by a panic, everything that it did through the [`Context`]
/// is undone.
pub trait Worker: Default + 'static {
    /// Called once, before anything else, with the arguments of the deployment.
    fn init(&mut self, args: &[u8], context: &mut Context) -> Result {
        let _ = (args, context);
        Ok(())
    }

    /// Handles one message.
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result;

    /// Handles several messages, in order and of one bucket if the stage is keyed. If it fails, all
    /// of it is undone and the messages come again one by one.
    fn handle(&mut self, messages: &[Message], context: &mut Context) -> Result {
        for message in messages {
            self.receive(message, context)?;
        }
        Ok(())
    }

    /// Everything that the instance keeps in its memory, for this version after a pause or for the
    /// next one. Empty if there is nothing. What is in [`Context::state`] does not belong here.
    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Takes over what was saved by this or the former version.
    fn load(&mut self, snapshot: Vec<u8>) -> Result {
        let _ = snapshot;
        Ok(())
    }

    /// Called before the worker is stopped for good.
    fn stop(&mut self, context: &mut Context) {
        let _ = context;
    }
}

/// Makes a component of a type that is a [`Worker`]. The crate has to be a `cdylib`, and the
/// macro stands there once.
#[macro_export]
macro_rules! worker {
    ($worker:ty) => {
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: $crate::exports::WorkerInstance<$worker> =
                    ::std::default::Default::default();
            }

            struct Exported;

            impl $crate::exports::WorkerExports for Exported {
                fn init(
                    args: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.init(&args))
                }

                fn handle(
                    messages: ::std::vec::Vec<$crate::exports::RawMessage>,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.handle(messages))
                }

                fn handle_bodies(
                    bodies: $crate::exports::Bodies,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.handle_bodies(&bodies))
                }

                fn save() -> ::std::result::Result<::std::vec::Vec<u8>, ::std::string::String> {
                    INSTANCE.with(|instance| instance.save())
                }

                fn load(
                    snapshot: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.load(snapshot))
                }

                fn stop() {
                    INSTANCE.with(|instance| instance.stop())
                }
            }

            // An editor compiles it for its own machine, where nothing is exported.
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = $crate::exports::is_worker::<Exported>();

            #[cfg(target_arch = "wasm32")]
    $crate::exports::export_worker!(Exported with_types_in $crate::exports::worker);
        };
    };
}
