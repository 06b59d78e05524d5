//! A disk rebuilt from a trace of system calls: each file and directory is a list of changes, some
//! of which a sync made durable.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::trace::{self, Call};

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

/// The fate of unsynced changes in a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All unsynced changes are lost.
    Dropped,
    /// The first unsynced changes survive, and the last of them is truncated.
    Torn,
    /// Each page of a file may keep a different number of the unsynced changes.
    Reordered,
    /// All unsynced changes survive.
    Kept,
}

fn disk_entry(nodes: &[Node], directory: usize, name: &str) -> Option<usize> {
    nodes[directory].entries.get(name).copied()
}

enum Change {
    Write { offset: u64, data: Vec<u8> },
    SetLength(u64),
    Add { name: String, node: usize },
    Remove { name: String },
    Rename { from: String, to: String },
}

struct Dated {
    begin: usize,
    end: usize,
    change: Change,
}

#[derive(Default)]
struct Node {
    is_directory: bool,
    changes: Vec<Dated>,
    /// Lines of the trace where each sync began and ended.
    syncs: Vec<(usize, usize)>,
    length: u64,
    entries: HashMap<String, usize>,
}

struct Open {
    node: usize,
    offset: u64,
    append: bool,
}

/// The history of a directory: all changes to its files, and the child's answers (lines that
/// acknowledge commits).
pub(crate) struct Disk {
    nodes: Vec<Node>,
    /// Line numbers of the child's answers in the trace.
    pub(crate) answers: Vec<usize>,
    texts: Vec<String>,
    /// Lines of the trace where a sync ended.
    pub(crate) syncs: Vec<usize>,
    /// Line number after the last line of the trace.
    pub(crate) end: usize,
}

impl Disk {
    /// Replays the system calls of a child process that began with an empty directory.
    pub(crate) fn replay(root: &Path, calls: &[Call]) -> Self {
        let mut disk = Self {
            nodes: vec![Node { is_directory: true, ..Node::default() }],
            answers: vec![],
            texts: vec![],
            syncs: vec![],
            end: calls.iter().map(|call| call.end).max().expect("the child did something") + 1,
        };
        let mut open = HashMap::new();
        for call in calls {
            disk.follow(root, &mut open, call);
        }
        disk
    }

    fn follow(&mut self, root: &Path, open: &mut HashMap<i64, Open>, call: &Call) {
        let argument = |at: usize| call.arguments[at].as_str();
        self.check_known(root, open, call);
        let path = |at: usize| {
            let path = PathBuf::from(
                String::from_utf8(trace::bytes(argument(at))).expect("paths are text"),
            );
            assert!(path.is_absolute(), "the engine uses absolute paths: {}", path.display());
            path.strip_prefix(root).ok().map(Path::to_path_buf)
        };
        match call.name.as_str() {
            "openat" => {
                open.remove(&call.result);
                let name = String::from_utf8(trace::bytes(argument(1))).expect("paths are text");
                if !name.starts_with('/') {
                    // A recursive removal opens subdirectories relative to the descriptor of their
                    // parent directory.
                    let base = open.get(&trace::number(argument(0)));
                    let node = base.and_then(|base| disk_entry(&self.nodes, base.node, &name));
                    if let Some(node) = node {
                        open.insert(call.result, Open { node, offset: 0, append: false });
                    }
                } else if let Some(path) = path(1) {
                    self.open(open, call, &path, argument(2));
                }
            }
            "close" => drop(open.remove(&trace::number(argument(0)))),
            "write" if trace::number(argument(0)) == 1 => {
                self.answers.push(call.begin);
                self.texts
                    .push(String::from_utf8(trace::bytes(argument(1))).expect("answers are text"));
            }
            "write" => self.write(open, call, trace::bytes(argument(1)), None),
            "writev" => self.write(open, call, trace::vector(argument(1)), None),
            "pwrite64" => {
                self.write(open, call, trace::bytes(argument(1)), argument(3).parse().ok())
            }
            "lseek" => {
                if let Some(file) = open.get_mut(&trace::number(argument(0))) {
                    file.offset = call.result as u64;
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(file) = open.get(&trace::number(argument(0))) {
                    self.nodes[file.node].syncs.push((call.begin, call.end));
                    self.syncs.push(call.end);
                }
            }
            "ftruncate" => {
                if let Some(file) = open.get(&trace::number(argument(0))) {
                    self.set_length(file.node, call, argument(1).parse().expect("a length"));
                }
            }
            "mkdir" => self.make_directory(call, path(0)),
            "rename" => self.rename(call, path(0), path(1)),
            "renameat" | "renameat2" => self.rename(call, path(1), path(3)),
            "unlink" | "rmdir" => self.remove(call, path(0)),
            "unlinkat" => {
                let base = trace::number(argument(0));
                let name = String::from_utf8(trace::bytes(argument(1))).expect("paths are text");
                match open.get(&base) {
                    Some(directory) => self.remove_in(call, directory.node, name),
                    None if name.starts_with('/') => self.remove(call, path(1)),
                    None => {}
                }
            }
            "fcntl" if argument(1).starts_with("F_DUPFD") => {
                let copied = open.get(&trace::number(argument(0)));
                assert!(copied.is_none(), "a second descriptor of one open file is not followed");
            }
            "fcntl" => {}
            other => {
                let ours = call
                    .arguments
                    .iter()
                    .any(|argument| argument.contains(&*root.to_string_lossy()));
                assert!(!ours, "the replay does not know {other}");
            }
        }
    }

    /// A write or sync of an engine file must use a known descriptor, because an unknown descriptor
    /// would look like lost data.
    fn check_known(&self, root: &Path, open: &HashMap<i64, Open>, call: &Call) {
        let changes = ["write", "writev", "pwrite64", "fsync", "fdatasync", "ftruncate", "lseek"];
        if !changes.contains(&call.name.as_str()) {
            return;
        }
        let argument = &call.arguments[0];
        let ours: String =
            root.to_string_lossy().bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        let named = argument.contains(&format!("<{ours}"));
        assert!(
            !named || open.contains_key(&trace::number(argument)),
            "line {}: the replay lost the file of {}",
            call.end,
            call.name
        );
    }

    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(0, |node, name| self.nodes[node].entries.get(name.to_str()?).copied())
    }

    fn parent(&self, path: &Path) -> (usize, String) {
        let parent = self
            .find(path.parent().expect("a name lies in a directory"))
            .expect("the directory is there");
        (parent, path.file_name().expect("a name").to_str().expect("text").to_owned())
    }

    fn record(&mut self, node: usize, call: &Call, change: Change) {
        self.nodes[node].changes.push(Dated { begin: call.begin, end: call.end, change });
    }

    fn add(&mut self, call: &Call, path: &Path, is_directory: bool) -> usize {
        let (parent, name) = self.parent(path);
        let node = self.nodes.len();
        self.nodes.push(Node { is_directory, ..Node::default() });
        self.nodes[parent].entries.insert(name.clone(), node);
        self.record(parent, call, Change::Add { name, node });
        node
    }

    fn open(&mut self, open: &mut HashMap<i64, Open>, call: &Call, path: &Path, flags: &str) {
        let node = self.find(path).unwrap_or_else(|| {
            assert!(flags.contains("O_CREAT"), "{} was never made", path.display());
            self.add(call, path, false)
        });
        if flags.contains("O_TRUNC") && self.nodes[node].length > 0 {
            self.set_length(node, call, 0);
        }
        open.insert(call.result, Open { node, offset: 0, append: flags.contains("O_APPEND") });
    }

    fn write(
        &mut self,
        open: &mut HashMap<i64, Open>,
        call: &Call,
        mut data: Vec<u8>,
        at: Option<u64>,
    ) {
        let Some(file) = open.get_mut(&trace::number(&call.arguments[0])) else { return };
        data.truncate(call.result as usize);
        let length = self.nodes[file.node].length;
        let offset = at.unwrap_or(if file.append { length } else { file.offset });
        let end = offset + data.len() as u64;
        if at.is_none() {
            file.offset = end;
        }
        self.nodes[file.node].length = length.max(end);
        let node = file.node;
        self.record(node, call, Change::Write { offset, data });
    }

    fn set_length(&mut self, node: usize, call: &Call, length: u64) {
        self.nodes[node].length = length;
        self.record(node, call, Change::SetLength(length));
    }

    fn make_directory(&mut self, call: &Call, path: Option<PathBuf>) {
        if let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) {
            self.add(call, &path, true);
        }
    }

    fn rename(&mut self, call: &Call, from: Option<PathBuf>, to: Option<PathBuf>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        let ((parent, from), (other, to)) = (self.parent(&from), self.parent(&to));
        assert_eq!(parent, other, "a rename between directories is not followed");
        let node = self.nodes[parent].entries.remove(&from).expect("it was there");
        self.nodes[parent].entries.insert(to.clone(), node);
        self.record(parent, call, Change::Rename { from, to });
    }

    fn remove(&mut self, call: &Call, path: Option<PathBuf>) {
        if let Some(path) = path {
            let (parent, name) = self.parent(&path);
            self.remove_in(call, parent, name);
        }
    }

    fn remove_in(&mut self, call: &Call, parent: usize, name: String) {
        self.nodes[parent].entries.remove(&name);
        self.record(parent, call, Change::Remove { name });
    }

    /// Returns the line of the child's first answer with the given text.
    pub(crate) fn said(&self, text: &str) -> Option<usize> {
        let mut answers = self.answers.iter().zip(&self.texts);
        answers.find(|(_, said)| said.trim_end() == text).map(|(line, _)| *line)
    }

    /// Returns the lines of the trace where files whose names end with `ending` were created or
    /// renamed.
    pub(crate) fn made(&self, ending: &str) -> Vec<usize> {
        let changes = self.nodes.iter().flat_map(|node| &node.changes);
        let made = changes.filter(|dated| match &dated.change {
            Change::Add { name, .. } | Change::Rename { to: name, .. } => name.ends_with(ending),
            _ => false,
        });
        let mut lines: Vec<_> = made.map(|dated| dated.begin).collect();
        lines.sort_unstable();
        lines
    }

    /// Returns the answers that the child gave before a line of the trace.
    pub(crate) fn answered(&self, moment: usize) -> String {
        let before = self.answers.iter().zip(&self.texts).filter(|(begin, _)| **begin < moment);
        before.map(|(_, text)| text.as_str()).collect()
    }

    /// Writes the directory in a state that a power loss at a line of the trace could leave.
    pub(crate) fn write_state(&self, to: &Path, moment: usize, loss: Loss, random: &mut Random) {
        self.write_node(0, to, moment, loss, random);
    }

    fn write_node(&self, node: usize, to: &Path, moment: usize, loss: Loss, random: &mut Random) {
        let node = &self.nodes[node];
        let count = node.changes.iter().take_while(|dated| dated.begin < moment).count();
        let durable = node.durable(count, moment);
        if node.is_directory {
            fs::create_dir(to).unwrap();
            for (name, inner) in node.entries_after(chosen(durable, count, loss, random)) {
                self.write_node(inner, &to.join(name), moment, loss, random);
            }
        } else {
            node.write_file(to, durable, count, loss, random);
        }
    }
}

/// Returns how many of the first `count` changes survive, if the first `durable` changes were
/// synced.
fn chosen(durable: usize, count: usize, loss: Loss, random: &mut Random) -> usize {
    match loss {
        Loss::Dropped => durable,
        Loss::Kept => count,
        Loss::Torn | Loss::Reordered => {
            durable + random.below((count - durable) as u64 + 1) as usize
        }
    }
}

impl Node {
    /// Returns the number of durable changes. The last durable change is the last change that was
    /// synced before the power loss.
    fn durable(&self, count: usize, moment: usize) -> usize {
        let synced = |dated: &Dated| {
            self.syncs.iter().any(|(begin, end)| dated.end < *begin && *end < moment)
        };
        self.changes[..count].iter().rposition(synced).map_or(0, |last| last + 1)
    }

    fn entries_after(&self, count: usize) -> BTreeMap<String, usize> {
        let mut entries = BTreeMap::new();
        for dated in &self.changes[..count] {
            match &dated.change {
                Change::Add { name, node } => drop(entries.insert(name.clone(), *node)),
                Change::Remove { name } => drop(entries.remove(name)),
                Change::Rename { from, to } => {
                    let node = entries.remove(from).expect("it was there");
                    entries.insert(to.clone(), node);
                }
                Change::Write { .. } | Change::SetLength(_) => {
                    unreachable!("a directory has no bytes")
                }
            }
        }
        entries
    }

    fn write_file(&self, to: &Path, durable: usize, count: usize, loss: Loss, random: &mut Random) {
        let all = chosen(durable, count, loss, random);
        let mut pages: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut length = 0u64;
        for (at, dated) in self.changes[..count].iter().enumerate() {
            // With `Reordered`, each page contains the changes up to a random point of its own. The
            // file has the length that the last surviving change gave it.
            let mut reaches = |page: u64| match loss {
                Loss::Reordered if at >= durable => {
                    let stop = seen.entry(page).or_insert_with(|| {
                        durable + random.below((count - durable) as u64 + 1) as usize
                    });
                    at < *stop
                }
                _ => at < all,
            };
            match &dated.change {
                Change::Write { offset, data } => {
                    let torn = loss == Loss::Torn && at + 1 == all && at >= durable;
                    let kept = if torn {
                        (data.len() as u64 / 2 / SECTOR * SECTOR) as usize
                    } else {
                        data.len()
                    };
                    for (page, from, part) in parts(*offset, &data[..kept]) {
                        if reaches(page) {
                            let bytes = pages.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
                            bytes[from..from + part.len()].copy_from_slice(part);
                        }
                    }
                    if at < all {
                        length = length.max(offset + kept as u64);
                    }
                }
                Change::SetLength(new) if at < all => {
                    length = *new;
                    pages.retain(|page, _| page * PAGE < *new);
                    if let Some(bytes) = pages.get_mut(&(new / PAGE)) {
                        bytes[(new % PAGE) as usize..].fill(0);
                    }
                }
                Change::SetLength(_) => {}
                _ => unreachable!("a file has no entries"),
            }
        }
        let file = fs::File::create(to).unwrap();
        for (page, bytes) in &pages {
            let from = page * PAGE;
            let there = length.saturating_sub(from).min(PAGE) as usize;
            file.write_all_at(&bytes[..there], from).unwrap();
        }
        file.set_len(length).unwrap();
    }
}

/// Splits a write at page boundaries. Each part is the page number, the offset in the page, and the
/// bytes.
fn parts(offset: u64, data: &[u8]) -> Vec<(u64, usize, &[u8])> {
    let mut parts = Vec::new();
    let mut at = 0usize;
    while at < data.len() {
        let position = offset + at as u64;
        let from = (position % PAGE) as usize;
        let length = (PAGE as usize - from).min(data.len() - at);
        parts.push((position / PAGE, from, &data[at..at + length]));
        at += length;
    }
    parts
}
