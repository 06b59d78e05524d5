//! Limits that several policy modules share.

crate::bounds! {
/// Maximum number of attempts to shorten a preview of a text to its token limit before the preview
/// is left out.
pub(crate) const PREVIEW_TRIES_MAX: usize = 16;
}
