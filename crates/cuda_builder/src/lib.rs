//! Compiles a Rust kernels crate to PTX with rustc's own `nvptx64-nvidia-cuda` target.
//!
//! The name and the call are those of Rust-CUDA's `cuda_builder`:
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! let built = CudaBuilder::new("kernels")
//!     .arch(Arch::Sm90)
//!     .copy_to("host/ptx/ferronorm.sm_90.ptx")
//!     .build()?;
//! println!("{} bytes of PTX by {}", built.text.len(), built.provenance.compiler);
//! # Ok::<(), cuda_builder::BuildError>(())
//! ```
//!
//! What happens in between, one module each: a device compiler is found ([`toolchain`]), run with
//! the flags that keep GPU code right ([`arch`]'s doc says why), and its assembly is finished into
//! the PTX that is shipped (launch bounds written in, comments and the panic handler left out, a
//! header on top: [`finish`]). [`ptx`] reads such text back, for checks on what was compiled;
//! [`ptxas`] assembles it, where NVIDIA's assembler is at hand, for registers and spills.
//!
//! No CUDA toolkit, no nightly toolchain and no linker is needed.

pub mod arch;
mod builder;
mod cargo;
mod error;
pub mod finish;
pub mod provenance;
pub mod ptx;
pub mod ptxas;
mod sources;
pub mod toolchain;

pub use arch::Arch;
pub use builder::{Built, CudaBuilder};
pub use error::BuildError;
pub use provenance::Provenance;
