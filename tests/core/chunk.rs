//! Tests of archive chunks: the evidence that vectors were computed with late chunking, the chunks'
//! positions in the document, and result pages.

mod evidence;
mod layout;
mod pages;
