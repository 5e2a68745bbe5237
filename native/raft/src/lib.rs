//! The crate raft behind few calls a turn: many groups of one node, no thread, socket, file or clock.
//!
//! README.md says what a turn is. log.rs is what the crate reads, group.rs one group, frame.rs what comes from other nodes.

// Only Python calls all of it.
#![cfg_attr(not(feature = "python"), allow(dead_code))]

mod frame;
mod group;
mod log;
#[cfg(feature = "python")]
mod engine;

#[cfg(feature = "python")]
use pyo3::prelude::*;

#[cfg(feature = "python")]
#[pymodule]
fn leveret_raft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    engine::keep_panics_quiet();
    module.add_class::<engine::Engine>()?;
    module.add_class::<engine::Ready>()?;
    module.add_class::<engine::Status>()?;
    module.add("EngineFailed", module.py().get_type::<engine::EngineFailed>())?;
    module.add("DESCRIPTOR_BYTES", log::DESCRIPTOR_BYTES)?;
    module.add("FRAME_BYTES_MAX", frame::FRAME_BYTES_MAX)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
