//! Native code that gives and takes values.

use std::sync::Arc;

use kernel::descriptor::PluginKind;
use kernel::worker::{Code, CodeInfo, Failure, Start, Worker};

/// Code whose workers look at values, of which a function makes the instances from their numbers.
struct ValueCode<F> {
    info: CodeInfo,
    make: F,
}

impl<F, W> Code for ValueCode<F>
where
    F: Fn(u32) -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn takes_values(&self) -> bool {
        true
    }

    fn instantiate(&self, start: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new((self.make)(start.address.worker())))
    }
}

/// The code of a worker without input, made from its number in the stage.
pub(super) fn provider<F, W>(make: F) -> Arc<dyn Code>
where
    F: Fn(u32) -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    code(PluginKind::Provider, make)
}

/// The code of a worker with an input.
pub(super) fn processor<F, W>(make: F) -> Arc<dyn Code>
where
    F: Fn() -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    code(PluginKind::Processor, move |_| make())
}

fn code<F, W>(kind: PluginKind, make: F) -> Arc<dyn Code>
where
    F: Fn(u32) -> W + Send + Sync + 'static,
    W: Worker + 'static,
{
    let name = std::any::type_name::<W>();
    let info = CodeInfo {
        name: name.to_owned(),
        version: "1".to_owned(),
        digest: format!("{name}@1"),
        native: true,
        kind,
        outputs: Vec::new(),
        capabilities: Vec::new(),
    };
    Arc::new(ValueCode { info, make })
}
