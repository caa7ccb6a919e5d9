//! stub
#[derive(Debug, clap::Args)]
pub(super) struct Subscribe {}
impl Subscribe { pub fn run(&self, _: &super::Global) -> anyhow::Result<crate::exit::Exit> { anyhow::bail!("stub") } }
