//! Why a text is no address that would be followed.

/// Why a text is no address that would be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no URL, or no reference that could be resolved.
    #[error("it is no URL: {0}")]
    Syntax(#[from] url::ParseError),
    /// It is not for HTTP.
    #[error("only http and https addresses can be fetched, and this one begins with `{scheme}:`")]
    Scheme {
        /// What it begins with.
        scheme: String,
    },
    /// It is longer than it may be.
    #[error("it is {bytes} bytes long, and url_bytes_max is {most}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Its path has more segments than it may have.
    #[error("its path has {segments} segments, and path_segments_max is {most}")]
    PathTooDeep {
        /// How many it has.
        segments: usize,
        /// How many it may have.
        most: usize,
    },
    /// A segment of its path occurs more often than it may, as in the endless paths of broken relative links.
    #[error(
        "its path has the segment `{segment}` {times} times, and segment_repeats_max is {most}"
    )]
    SegmentRepeated {
        /// The segment, shortened if it is long.
        segment: String,
        /// How often it occurs.
        times: usize,
        /// How often it may.
        most: usize,
    },
    /// Its query has more parameters than it may have.
    #[error("its query has {parameters} parameters, and query_parameters_max is {most}")]
    TooManyParameters {
        /// How many it has.
        parameters: usize,
        /// How many it may have.
        most: usize,
    },
}

impl AddressError {
    /// The name of the rule that refused it: `syntax`, `scheme`, or the parameter that limits it.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "syntax",
            Self::Scheme { .. } => "scheme",
            Self::TooLong { .. } => "url_bytes_max",
            Self::PathTooDeep { .. } => "path_segments_max",
            Self::SegmentRepeated { .. } => "segment_repeats_max",
            Self::TooManyParameters { .. } => "query_parameters_max",
        }
    }
}
