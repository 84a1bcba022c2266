//! The shapes of the 16-byte accesses, written once: `mem` and `shared` name the instruction and the
//! kind of address.

/// Loads four words by `$instruction` from `$address`, a register of class `$class`.
macro_rules! load {
    ($instruction:literal, $class:ident $address:expr $(, $option:ident)*) => {{
        let (a, b, c, d);
        core::arch::asm!(
            concat!($instruction, " {{{}, {}, {}, {}}}, [{}];"),
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($class) $address,
            options(nostack $(, $option)*)
        );
        [a, b, c, d]
    }};
}

/// As [`load`], or zeros and no access if `$skip`.
///
/// A predicated load: a branch around it would keep ptxas from scheduling loads together, and the
/// compiler would hold in registers what both arms need.
macro_rules! load_unless {
    ($instruction:literal, $skip:expr, $class:ident $address:expr $(, $option:ident)*) => {{
        let (a, b, c, d);
        core::arch::asm!(
            "{{",
            ".reg .pred skip;",
            "setp.ne.u32 skip, {skip}, 0;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "mov.b32 {c}, 0;",
            "mov.b32 {d}, 0;",
            concat!("@!skip ", $instruction, " {{{a}, {b}, {c}, {d}}}, [{address}];"),
            "}}",
            skip = in(reg32) $skip as u32, address = in($class) $address,
            a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
            options(nostack $(, $option)*)
        );
        [a, b, c, d]
    }};
}

/// Stores four words by `$instruction` to `$address`, a register of class `$class`.
macro_rules! store {
    ($instruction:literal, $class:ident $address:expr, $value:expr) => {{
        let [a, b, c, d] = $value;
        core::arch::asm!(
            concat!($instruction, " [{}], {{{}, {}, {}, {}}};"),
            in($class) $address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack)
        );
    }};
}

pub(crate) use {load, load_unless, store};
