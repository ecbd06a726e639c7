//! Why a program cannot be compiled.

/// Why a program cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A name that no variable has.
    #[error("there is no variable {name:?}")]
    NoVar {
        /// The name.
        name: String,
        /// One that looks like it.
        similar: Option<String>,
    },
    /// Two variables of one name.
    #[error("two variables are called {name:?}")]
    Twice {
        /// The name.
        name: String,
    },
    /// A variable's width is not one.
    #[error("{var}: a width of {width} bytes: 1, 2, 4 and 8 are possible")]
    Width {
        /// The variable.
        var: String,
        /// Its width.
        width: usize,
    },
    /// A range that holds nothing.
    #[error("{var}: {min} is more than {max}")]
    Range {
        /// The variable.
        var: String,
        /// Its smallest value.
        min: u64,
        /// Its largest value.
        max: u64,
    },
    /// A value that the variable's width does not hold.
    #[error("{var}: {value} does not fit {width} bytes")]
    TooWide {
        /// The variable.
        var: String,
        /// The value.
        value: u64,
        /// Its width in bytes.
        width: usize,
    },
    /// A step or a limit of 0, or a list of nothing.
    #[error("{var}: {what} is missing: it never moves")]
    Nothing {
        /// The variable.
        var: String,
        /// What is 0 or empty.
        what: &'static str,
    },
    /// More values than are kept.
    #[error("{var}: {count} values to repeat: at most {most} are possible")]
    TooMany {
        /// The variable.
        var: String,
        /// How many.
        count: u64,
        /// The most.
        most: u64,
    },
    /// The first value is not one of those that follow.
    #[error("{var}: it cannot start with {init}: {near} is a whole number of steps from the end")]
    Init {
        /// The variable.
        var: String,
        /// Its first value.
        init: u64,
        /// The nearest one that is possible.
        near: u64,
    },
    /// A variable follows another one, and one of the two has no order.
    #[error("{next} cannot step when {var} wraps: only counters, lists and repeated values wrap")]
    NoOrder {
        /// The variable.
        var: String,
        /// The one that was to follow.
        next: String,
    },
    /// Variables that step each other in a circle, or one that two others step.
    #[error("{var} is stepped by itself, or by two others")]
    Loop {
        /// The variable.
        var: String,
    },
    /// A write outside the frame.
    #[error("{var}: {width} bytes at {offset} are outside a frame of {len} (without FCS)")]
    Outside {
        /// The variable.
        var: String,
        /// First byte.
        offset: usize,
        /// How many.
        width: usize,
        /// The shortest frame's length, without FCS.
        len: usize,
    },
    /// A write of no bytes, or of more than 8.
    #[error("{var}: a write of {width} bytes: 1 to 8 are possible")]
    WriteWidth {
        /// The variable.
        var: String,
        /// How many bytes.
        width: usize,
    },
    /// A frame longer than its template.
    #[error("{var}: frames of {len} bytes from a template of {most} (without FCS)")]
    TooLong {
        /// The variable.
        var: String,
        /// The longest it asks for.
        len: u64,
        /// The template's length.
        most: usize,
    },
    /// A checksum whose headers are not inside the frame.
    #[error("a checksum at {at} is outside a frame of {len} bytes (without FCS)")]
    NoChecksum {
        /// First byte of the header.
        at: usize,
        /// The shortest frame's length.
        len: usize,
    },
    /// Too many frames, or none, to compute in advance.
    #[error("{frames} frames to compute in advance: 1 to {most} are possible")]
    Cache {
        /// How many.
        frames: u32,
        /// The most.
        most: u32,
    },
}

impl FieldError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NoVar {
                similar: Some(name),
                ..
            } => Some(format!("did you mean {name}?")),
            Self::Init { near, .. } => Some(format!("start with {near}")),
            _ => None,
        }
    }
}
