//! Imports a directory of the form that Anthropic's memory tool keeps under `/memories`.
//!
//! Each file becomes a block that is named after the file's path; a long file becomes an archived
//! document.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::read::{Choice, text_of, too_many};
use vctx_cli::exit::Failure;
use vctx_core::memory::block_path::{MemoryPath, ROOT, place_of};

/// Maximum number of files of an imported directory.
const IMPORT_FILES_MAX: usize = 10_000;
/// Maximum depth of nested directories in an imported directory.
const IMPORT_DEPTH_MAX: usize = 16;

const FILES: &str = "memory files";

/// Reads a directory into the plan. If the directory contains nothing but a directory `memories`,
/// reads `memories` instead.
pub(super) fn read(path: &Path, choice: &Choice, plan: &mut Plan) -> Result<(), Failure> {
    if choice.only.is_some() {
        return Err(Failure::usage("--only does not go with a directory: give the one directory"));
    }
    if !path.is_dir() {
        return Err(Failure::data(format!("{} is no directory", path.display())));
    }
    let inner = path.join("memories");
    // A symbolic link named `memories` does not count as a directory here; `walk` below refuses the
    // link.
    let is_inside = |path: &Path| fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir());
    let root = match listed(path)?.as_slice() {
        [only] if *only == inner && is_inside(&inner) => inner,
        _ => path.to_owned(),
    };
    let mut files = Vec::new();
    walk(&root, &root, 0, choice, plan, &mut files)?;
    for (name, path) in files {
        let content = text_of(&path).map_err(|fault| fault.next(leave(&name)))?;
        let document = format!("memories/{name}");
        match content.trim().is_empty() {
            true => plan.left(FILES, 1, "there is no text in it"),
            false => plan.block(FILES, &block_name(&name), &document, content, None),
        }
    }
    Ok(())
}

/// Returns the name of the block that the tool `memory` uses for a path. If the tool would refuse
/// the path, returns the path itself, which the plan later converts to a valid name.
fn block_name(path: &str) -> String {
    match place_of(&format!("{ROOT}/{path}")) {
        Ok(MemoryPath::Named(name)) => name,
        Ok(MemoryPath::Root) | Err(_) => path.to_owned(),
    }
}

fn leave(name: &str) -> String {
    format!("--leave {name} imports the rest without it")
}

/// Collects the files below a directory, each with its path relative to `root`. Files and
/// directories are visited in the order of their names.
fn walk(
    root: &Path,
    directory: &Path,
    depth: usize,
    choice: &Choice,
    plan: &mut Plan,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), Failure> {
    if depth > IMPORT_DEPTH_MAX {
        return Err(Failure::data(format!(
            "{} is deeper than {IMPORT_DEPTH_MAX} directories",
            directory.display()
        )));
    }
    for path in listed(directory)? {
        let below = path.strip_prefix(root).unwrap_or(&path);
        let Some(name) = below.to_str().map(str::to_owned) else {
            return Err(Failure::data(format!("{} is no UTF-8", path.display())));
        };
        let kind = fs::symlink_metadata(&path)
            .map_err(|error| Failure::reading(path.display(), &error))?;
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if choice.leaves(&name) {
            plan.left(format!("`{name}`"), 1, "left by --leave");
        } else if hidden {
            plan.left(format!("`{name}`"), 1, "hidden; the memory tool does not show hidden files");
        } else if kind.is_dir() {
            walk(root, &path, depth + 1, choice, plan, files)?;
        } else if kind.is_file() {
            files.push((name, path));
        } else {
            let told = format!("{name} is neither a file nor a directory");
            return Err(Failure::data(told).next(leave(&name)));
        }
        if files.len() > IMPORT_FILES_MAX {
            return Err(too_many(&root.display().to_string()));
        }
    }
    Ok(())
}

/// Returns the entries of a directory, sorted by name.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fault = |error: std::io::Error| Failure::reading(directory.display(), &error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(fault)? {
        paths.push(entry.map_err(fault)?.path());
        if paths.len() > IMPORT_FILES_MAX {
            return Err(too_many(&directory.display().to_string()));
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;

    fn planned(files: &[(&str, &[u8])], choice: &Choice) -> Result<Plan, Failure> {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let mut plan = Plan::new(Limits { block_bytes_max: 20 });
        read(directory.path(), choice, &mut plan).map(|()| plan)
    }

    #[test]
    fn files_are_blocks_in_the_order_of_their_names_and_long_ones_documents() {
        let files: [(&str, &[u8]); 4] = [
            ("memories/prefs.md", b"Tea."),
            ("memories/a/plan.md", b"Sail."),
            ("memories/long.md", b"far too long for a block"),
            ("memories/.hidden", b"x"),
        ];
        let plan = planned(&files, &Choice::default()).unwrap();
        let blocks: Vec<&str> = plan.blocks.iter().map(|block| block.id.as_str()).collect();
        assert_eq!(blocks, ["a..plan.md", "prefs.md"]);
        assert_eq!(plan.documents[0].id, "memories/long.md");
        assert_eq!(plan.left[0].what, "`.hidden`");
    }

    #[test]
    fn what_is_no_text_is_refused_by_its_name_unless_it_is_left() {
        let files: [(&str, &[u8]); 2] = [("a.png", b"\xff\xd8"), ("b.md", b"Tea.")];
        let refused = planned(&files, &Choice::default()).unwrap_err();
        assert!(refused.message.contains("a.png line 1 is not UTF-8"), "{}", refused.message);
        let choice = Choice { only: None, leave: vec!["a.png".into()] };
        assert_eq!(planned(&files, &choice).unwrap().blocks.len(), 1);
    }
    #[test]
    fn a_link_is_refused_even_if_it_is_the_directory_of_the_memories() {
        let (elsewhere, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("secret.md"), b"Tea.").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join("memories")).unwrap();
        let mut plan = Plan::new(Limits { block_bytes_max: 20 });
        let refused = read(directory.path(), &Choice::default(), &mut plan).unwrap_err();
        assert!(refused.message.contains("memories is neither"), "{}", refused.message);
        assert!(plan.blocks.is_empty());
    }
}
