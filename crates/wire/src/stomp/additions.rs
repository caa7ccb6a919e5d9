//! Headers that a Hivewire broker knows beyond the protocol. Other clients can do without them.

/// On RECEIPT: what it is worth, `synced` or `memory`.
pub const ACK_LEVEL: &str = "ack-level";
/// On MESSAGE: how often it was tried before without success, if it was.
pub const TRIES: &str = "hivewire-tries";
/// On SEND and MESSAGE: the header `message-id` of the sender, which means something else here.
pub const SENDERS_MESSAGE_ID: &str = "hivewire-message-id";
/// On ACK, `true`: it stands for this message and all that were delivered before it, whatever the
/// mode of the subscription.
pub const THROUGH: &str = "through";
/// On NACK: what went wrong, for the dead letters.
pub const REASON: &str = "reason";
/// On NACK, `true`: not to be tried again.
pub const DEAD: &str = "dead";
/// On NACK, `true`: nobody looked at the message, so when the subscription ends it is given back as
/// if it had not been delivered. Until then it stays delivered.
pub const UNSEEN: &str = "unseen";
/// On SUBSCRIBE, `true`: of all who subscribe to a queue so only the first is served. When it ends,
/// the next one gets what it had not acknowledged, and then the rest.
pub const IN_TURN: &str = "in-turn";
