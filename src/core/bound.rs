//! Declares limits in a form from which a table of all limits is printed.

/// The name of a limit, a function that prints its value, and its documentation.
pub type Bound = (&'static str, fn() -> String, &'static str);

/// Declares the constants of a file of limits, and a list of them. The documentation of a constant
/// is its row in the table that `vctx limits` prints.
#[macro_export]
macro_rules! bounds {
    ($($(#[doc = $doc:literal])+ $vis:vis const $name:ident: $kind:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ $vis const $name: $kind = $value;)+

        /// All limits of this file, for the table of limits.
        pub const ALL: &[$crate::bound::Bound] = &[
            $((stringify!($name), || format!("{:?}", $name), concat!($($doc),+))),+
        ];
    };
}
