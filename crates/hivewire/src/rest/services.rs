//! `/api/v1/services`

use super::app::Node;
use super::etag::Tagged;
use crate::services::ServicesShown;

pub(super) async fn show(Node(running): Node) -> Tagged<ServicesShown> {
    Tagged(running.services.shown())
}
