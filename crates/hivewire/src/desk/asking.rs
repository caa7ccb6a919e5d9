//! The same question to several nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{Desk, Refusal, Request};

/// What those said who answered, by their names, and why others did not.
pub(crate) struct Answered<T> {
    pub answers: Vec<(String, T)>,
    pub missing: BTreeMap<String, String>,
}

impl Desk {
    /// Asks these nodes, all at once; the name "" means this one. Other nodes that do not answer are named with the reason; what
    /// this one refuses is refused.
    pub async fn ask_each<T: DeserializeOwned + Send + 'static>(
        self: &Arc<Self>,
        nodes: Vec<String>,
        request: &Request,
    ) -> Result<Answered<T>, Refusal> {
        let mut asking = JoinSet::new();
        for node in nodes {
            let (desk, request) = (self.clone(), request.clone());
            asking.spawn(async move {
                let named = Some(node.as_str()).filter(|node| !node.is_empty());
                let answer = desk.ask::<T>(named, request).await;
                (node, answer)
            });
        }
        let mut answered = Answered {
            answers: Vec::new(),
            missing: BTreeMap::new(),
        };
        while let Some(asked) = asking.join_next().await {
            let (node, answer) = asked.map_err(|error| Refusal::failed(error.to_string()))?;
            match answer {
                Ok(answer) => answered.answers.push((node, answer)),
                Err(refusal) if node.is_empty() || node == self.name => return Err(refusal),
                Err(refusal) => {
                    answered.missing.insert(node, refusal.detail);
                }
            }
        }
        answered.answers.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(answered)
    }
}
