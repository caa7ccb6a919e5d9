//! What the table of built-in plug-ins holds.

use std::marker::PhantomData;
use std::sync::Arc;

use kernel::descriptor::{Descriptor, Output, PluginKind};
use kernel::worker::{Code, CodeInfo, Failure, Start, Worker};
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;

use super::worker::Built;
use super::{Environment, ParameterError, parameters};

/// The version of all of them: that of the program they are part of.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the file of a plug-in says about it, and how an instance is made from its parameters.
pub trait Plugin: Worker + Sized + 'static {
    /// How it is named in a flow.
    const ID: &'static str;
    /// Whether it has an input.
    const KIND: PluginKind = PluginKind::Processor;
    /// What it does, for people: one line, and then whatever else they should know.
    const DESCRIPTION: &'static str;
    /// Where it emits to.
    const OUTPUTS: Outputs;
    /// What has to be granted to it.
    const CAPABILITIES: &'static [&'static str] = &[];
    /// Parameters to start from, as JSON, each with what it is an example of.
    const EXAMPLES: &'static [(&'static str, &'static str)];
    /// Its parameters.
    type Parameters: DeserializeOwned + JsonSchema;

    /// An instance. It touches nothing outside yet.
    fn new(parameters: Self::Parameters, environment: &Environment)
    -> Result<Self, ParameterError>;

    /// What is wrong with parameters that could be read, as far as that can be told without a node.
    fn check(_parameters: Self::Parameters) -> Result<(), ParameterError> {
        Ok(())
    }
}

/// Where a built-in plug-in emits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// To these: their names, and what comes out there.
    Named(&'static [(&'static str, &'static str)]),
    /// To these, which need not lead anywhere: what it does happens outside the flow, and then it passes events on.
    Optional(&'static [(&'static str, &'static str)]),
    /// To those that its parameters name.
    OfParameters,
    /// Nowhere: what it does happens outside the flow.
    None,
}

/// A plug-in that is built in.
pub struct BuiltIn {
    id: &'static str,
    kind: PluginKind,
    description: &'static str,
    outputs: Outputs,
    capabilities: &'static [&'static str],
    examples: &'static [(&'static str, &'static str)],
    schema: fn() -> Schema,
    check: fn(&[u8]) -> Result<(), ParameterError>,
    code: fn(&Environment, CodeInfo) -> Arc<dyn Code>,
}

impl BuiltIn {
    /// The line of a plug-in in a table.
    pub const fn of<P: Plugin>() -> Self {
        Self {
            id: P::ID,
            kind: P::KIND,
            description: P::DESCRIPTION,
            outputs: P::OUTPUTS,
            capabilities: P::CAPABILITIES,
            examples: P::EXAMPLES,
            schema: || schema_for!(P::Parameters),
            check: check::<P>,
            code: |environment, info| {
                Arc::new(BuiltInCode::<P> {
                    info,
                    environment: environment.clone(),
                    plugin: PhantomData,
                })
            },
        }
    }

    /// How it is named in a flow.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Whether it has an input.
    pub fn kind(&self) -> PluginKind {
        self.kind
    }

    /// What it does: one line, and then whatever else people should know.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// Where it emits to.
    pub fn outputs(&self) -> Outputs {
        self.outputs
    }

    /// Parameters to start from, as JSON, each with what it is an example of.
    pub fn examples(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.examples.iter().copied()
    }

    /// What it says about itself.
    pub fn descriptor(&self) -> Descriptor {
        let outputs = match self.outputs {
            Outputs::Named(outputs) | Outputs::Optional(outputs) => outputs,
            Outputs::OfParameters | Outputs::None => &[],
        };
        let output = |(name, description): &(&str, &str)| Output {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
        };
        Descriptor {
            name: self.id.to_owned(),
            version: VERSION.to_owned(),
            description: self.description.to_owned(),
            kind: self.kind,
            parameters: Some((self.schema)().to_value()),
            outputs: outputs.iter().map(output).collect(),
            capabilities: self
                .capabilities
                .iter()
                .map(|&text| text.to_owned())
                .collect(),
            language: "rust".to_owned(),
            ..Descriptor::default()
        }
    }

    /// Tells what is wrong with these parameters, which are JSON: also whether its expressions can be understood.
    pub fn check(&self, parameters: &[u8]) -> Result<(), ParameterError> {
        (self.check)(parameters)
    }

    /// Its code for a node that offers this. The parameters come with [`Worker::init`].
    pub fn code(&self, environment: &Environment) -> Arc<dyn Code> {
        let descriptor = self.descriptor();
        let info = CodeInfo {
            name: descriptor.name,
            digest: format!("built-in:{}@{VERSION}", self.id),
            version: descriptor.version,
            native: true,
            kind: self.kind,
            outputs: descriptor
                .outputs
                .into_iter()
                .map(|output| output.name)
                .collect(),
            capabilities: descriptor.capabilities,
        };
        (self.code)(environment, info)
    }
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BuiltIn").field(&self.id).finish()
    }
}

fn check<P: Plugin>(arguments: &[u8]) -> Result<(), ParameterError> {
    P::check(parameters::read(arguments)?)
}

struct BuiltInCode<P> {
    info: CodeInfo,
    environment: Environment,
    plugin: PhantomData<fn() -> P>,
}

impl<P: Plugin> Code for BuiltInCode<P> {
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn takes_values(&self) -> bool {
        true
    }

    fn instantiate(&self, start: &Start) -> Result<Box<dyn Worker>, Failure> {
        let environment = Environment {
            stage: Some(start.address.stage().clone()),
            ..self.environment.clone()
        };
        Ok(Box::new(Built::<P>::new(environment)))
    }
}
