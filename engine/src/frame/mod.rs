//! Frames before they are sent: templates, and what varies in them.

mod assemble;
mod build;
pub(crate) mod checksum;
mod layer;
mod name;
mod spec;
mod template;
pub mod text;
mod value;

pub use assemble::{AssembleError, Sizes, SizesError};
pub use build::{Macs, build};
pub use layer::{FieldDef, Layer};
pub use name::FieldNameError;
pub use spec::{BuildError, FILL, FrameSpec, Header, MAX_SIZE, MIN_SIZE};
pub use template::{FieldAt, FieldKind, LayerAt, Template};
pub(crate) use value::parse as parse_value;
pub use value::{ValueError, show};

use crate::field::Program;
use crate::stream::FCS;

/// The frames of a stream: one or more variants, and the order in which they take turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    variants: Vec<Variant>,
    schedule: Vec<usize>,
}

/// A template and the program that varies it. Each variant counts for itself: its program
/// advances when it is sent, and only then.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The frame as it is before the program changes it.
    pub template: Template,
    /// What changes from frame to frame.
    pub program: Program,
}

impl Frames {
    /// The same frame again and again.
    #[must_use]
    pub fn constant(template: Template) -> Self {
        Self::varied(template, Program::default())
    }

    /// A template varied by a program.
    #[must_use]
    pub fn varied(template: Template, program: Program) -> Self {
        let variants = vec![Variant { template, program }];
        Self {
            variants,
            schedule: vec![0],
        }
    }

    /// Several variants that take turns: `schedule` names them by number, and starts again after
    /// its end.
    ///
    /// # Panics
    /// The schedule is empty, names a variant that is not there, or leaves one out.
    #[must_use]
    pub fn scheduled(variants: Vec<Variant>, schedule: Vec<usize>) -> Self {
        assert!(
            schedule.iter().all(|&n| n < variants.len()),
            "a schedule names variants"
        );
        assert!(
            (0..variants.len()).all(|n| schedule.contains(&n)) && !schedule.is_empty(),
            "every variant has its turn"
        );
        Self { variants, schedule }
    }

    /// The variants.
    #[must_use]
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The variants, to change.
    pub fn variants_mut(&mut self) -> &mut [Variant] {
        &mut self.variants
    }

    /// The order in which variants take turns, by number.
    #[must_use]
    pub fn schedule(&self) -> &[usize] {
        &self.schedule
    }

    /// The largest frame in bytes, with FCS.
    #[must_use]
    pub fn max_size(&self) -> usize {
        let sizes = self.variants.iter().map(|variant| variant.template.size());
        sizes.max().unwrap_or_default()
    }

    /// The mean frame in bytes, with FCS.
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        let sizes = self.schedule.iter().map(|&n| {
            let variant = &self.variants[n];
            let len = variant.program.mean_len();
            len.map_or(variant.template.size() as f64, |len| len + FCS as f64)
        });
        sizes.sum::<f64>() / self.schedule.len() as f64
    }
}
