//! stub
#[derive(Debug, clap::Args)]
pub(super) struct Publish {}
impl Publish { pub fn run(&self, _: &super::Global) -> anyhow::Result<crate::exit::Exit> { anyhow::bail!("stub") } }
