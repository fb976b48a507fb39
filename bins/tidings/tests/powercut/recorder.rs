//! Translates system calls into operations of the model: resolves each descriptor to a file and an offset.
//!
//! Nothing is ignored silently. A call on a recorded file that is not supported here fails the test, and so does a
//! recording with operations that do not add up to the final contents of the directory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{DiskImage, DiskNode, FileContent, Inode, ROOT};
use crate::model::{FileAction, FileOp, NameChange, NameEdit, Recording};
use crate::trace::{CallArguments, CallEvent, SystemCall, SystemTrace, parse_number, shown, unhex};

/// An open file description. Duplicated descriptors share it with its offset.
struct Description {
    inode: Inode,
    offset: u64,
    appends: bool,
}

struct CallRecorder<'a> {
    /// The path of the recorded directory.
    root: &'a str,
    /// All inodes, with the names that the process sees now.
    disk: DiskImage,
    before: DiskImage,
    descriptions: Vec<Description>,
    /// Descriptor -> description.
    descriptors: HashMap<i64, usize>,
    ops: Vec<FileOp>,
}

/// The operations of a trace below a directory that held `before`.
pub(crate) fn record(text: &str, root: &Path, before: DiskImage) -> Recording {
    let trace = SystemTrace::parse(text);
    let root = root.to_str().expect("the path is UTF-8");
    let disk = before.clone();
    let mut recorder =
        CallRecorder { root, disk, before, descriptions: vec![], descriptors: HashMap::new(), ops: vec![] };
    let mut begun: HashMap<usize, (usize, Option<PendingCall>)> = HashMap::new();
    for (at, event) in trace.events.iter().enumerate() {
        match event {
            CallEvent::Began(number) => {
                let seen = recorder.began(&trace.calls[*number]);
                begun.insert(*number, (at, seen));
            }
            CallEvent::Ended(number) => {
                let (began, seen) = begun.remove(number).expect("a call ends once");
                let call = &trace.calls[*number];
                // A failed call has changed nothing; a call that the end of the process interrupted is handled below.
                if let Some(result) = call.result
                    && result >= 0
                {
                    recorder.ended(call, result, seen, began, at);
                } else if let Some(PendingCall::Write { .. } | PendingCall::Sync) = seen {
                    panic!("{} failed while it was recorded: {:?}", call.name, call.result);
                }
            }
        }
    }
    let unfinished = begun.into_values().find(|(_, seen)| seen.is_some());
    assert!(unfinished.is_none(), "the process ended in the middle of an operation; stop it when it is idle");
    let CallRecorder { before, ops, .. } = recorder;
    Recording { before, ops, stamps: trace.stamps }
}

/// State at the beginning of a call that may be different at its end.
enum PendingCall {
    /// A write to this description.
    Write { description: usize },
    /// A sync of a recorded file.
    Sync,
}

impl CallRecorder<'_> {
    fn began(&mut self, call: &SystemCall<'_>) -> Option<PendingCall> {
        match call.name {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                let description = self.description(descriptor_text(&call.arguments))?;
                Some(PendingCall::Write { description })
            }
            "fsync" | "fdatasync" => self.description(descriptor_text(&call.arguments)).map(|_| PendingCall::Sync),
            "close" => {
                // The descriptor may be reused before the call ends.
                self.description(descriptor_text(&call.arguments));
                self.descriptors.remove(&number_of(descriptor_text(&call.arguments)));
                None
            }
            _ => None,
        }
    }

    fn ended(&mut self, call: &SystemCall<'_>, result: i64, begun: Option<PendingCall>, began: usize, ended: usize) {
        let name = call.name;
        if let Some(PendingCall::Write { description }) = begun {
            return self.write(call, result, description, began, ended);
        }
        // The contents of writes to sockets are long, and irrelevant here.
        if matches!(name, "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "close") {
            return;
        }
        let arguments = CallArguments::parse(&call.arguments);
        let op = |recorder: &mut Self, inode: Inode, action: FileAction| {
            let path = recorder.disk.path(inode).unwrap_or_else(|| "(no name)".to_owned());
            recorder.ops.push(FileOp { action, began, ended, path });
        };
        match name {
            "open" | "openat" | "creat" => self.open(name, &arguments, result, began, ended),
            "dup" | "dup2" | "dup3" => self.duplicate(arguments.field(0), result),
            "fcntl" if arguments.field(1).starts_with("F_DUPFD") => self.duplicate(arguments.field(0), result),
            "fcntl" => {}
            "lseek" => {
                if let Some(description) = self.description(arguments.field(0))
                    && !matches!(arguments.field(2), "SEEK_DATA" | "SEEK_HOLE")
                {
                    self.descriptions[description].offset = result as u64;
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(description) = self.description(arguments.field(0)) {
                    let inode = self.descriptions[description].inode;
                    op(self, inode, FileAction::Sync { inode, data_only: name == "fdatasync" });
                }
            }
            "ftruncate" | "truncate" => {
                let inode = if name == "ftruncate" {
                    self.description(arguments.field(0)).map(|description| self.descriptions[description].inode)
                } else {
                    self.resolve("", &arguments.text(0)).map(|(parent, name)| self.disk.names[&(parent, name)])
                };
                if let Some(inode) = inode {
                    self.resize(inode, arguments.number(1) as u64, began, ended);
                }
            }
            "fallocate" => {
                if let Some(description) = self.description(arguments.field(0)) {
                    assert_eq!(arguments.field(1), "0", "a mode of fallocate that the model does not know");
                    let inode = self.descriptions[description].inode;
                    let size = (arguments.number(2) + arguments.number(3)) as u64;
                    if size > self.content(inode).size() {
                        self.resize(inode, size, began, ended);
                    }
                }
            }
            "mkdir" | "mkdirat" => {
                let at = if name == "mkdirat" { arguments.field(0) } else { "" };
                if let Some((parent, name)) = self.resolve(at, &arguments.text(0)) {
                    let inode = self.create(DiskNode::Directory);
                    self.rename(inode, vec![(parent, name, Some(inode))], began, ended);
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let at = if name == "unlinkat" { arguments.field(0) } else { "" };
                if let Some((parent, name)) = self.resolve(at, &arguments.text(0)) {
                    let inode = self.disk.names[&(parent, name.clone())];
                    self.rename(inode, vec![(parent, name, None)], began, ended);
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let (from_at, to_at) = match name {
                    "rename" => ("", ""),
                    _ => (arguments.field(0), arguments.field(2)),
                };
                if name == "renameat2" {
                    assert!(!arguments.last().contains("EXCHANGE"), "an exchange of names is not known to the model");
                }
                let from = self.resolve(from_at, &arguments.text(0));
                let to = self.resolve(to_at, &arguments.text(1));
                match (from, to) {
                    (Some(from), Some(to)) => {
                        let inode = self.disk.names[&from];
                        self.rename(inode, vec![(from.0, from.1, None), (to.0, to.1, Some(inode))], began, ended);
                    }
                    (None, None) => {}
                    _ => panic!("a rename crosses the border of `{}`", self.root),
                }
            }
            "link" | "linkat" => {
                let (from_at, to_at) = if name == "link" { ("", "") } else { (arguments.field(0), arguments.field(2)) };
                let from = self.resolve(from_at, &arguments.text(0));
                if let Some(to) = self.resolve(to_at, &arguments.text(1)) {
                    let inode = self.disk.names[&from.expect("a link leads to a file below the directory")];
                    self.rename(inode, vec![(to.0, to.1, Some(inode))], began, ended);
                }
            }
            "chmod" | "fchmodat" | "fchmod" => self.change_mode(name, &arguments),
            "mmap" => {
                let shared = arguments.field(3).contains("MAP_SHARED") && arguments.field(2).contains("PROT_WRITE");
                let ours = arguments.field(4) != "-1" && self.description(arguments.field(4)).is_some();
                assert!(!(shared && ours), "a file of the store is mapped and written: {}", shown(&call.arguments));
            }
            // It guarantees nothing: neither metadata nor the device cache is written.
            "sync_file_range" => {}
            "chdir" | "fchdir" => panic!("the process has left `/`, and relative names lead elsewhere"),
            "io_uring_setup" => panic!("operations of io_uring are not traced"),
            "sync" | "syncfs" => panic!("{name} is not known to the model"),
            _ => {
                let names_ours = (0..2).any(|number| {
                    let field = arguments.field(number);
                    field.starts_with(|first: char| first.is_ascii_digit()) && self.description(field).is_some()
                });
                assert!(!names_ours, "{name} on a file of the store: {}", shown(&call.arguments));
            }
        }
    }

    fn open(&mut self, name: &str, arguments: &CallArguments<'_>, descriptor: i64, began: usize, ended: usize) {
        let (at, flags) = if name == "openat" { (arguments.field(0), 2) } else { ("", 1) };
        let flags = if name == "creat" { "O_CREAT|O_TRUNC" } else { arguments.field(flags) };
        let has = |flag: &str| flags.split('|').any(|set| set == flag);
        let path = arguments.text(0);
        let inode = if self.is_root(at, &path) {
            Some(ROOT)
        } else if let Some((parent, name)) = self.resolve(at, &path) {
            assert!(!has("O_TMPFILE") && !has("O_PATH"), "`{path}` is opened with {flags}");
            Some(match self.disk.names.get(&(parent, name.clone())) {
                Some(inode) => {
                    if has("O_TRUNC") && self.content(*inode).size() > 0 {
                        self.resize(*inode, 0, began, ended);
                    }
                    self.disk.names[&(parent, name)]
                }
                None => {
                    assert!(has("O_CREAT"), "`{path}` was opened, and is not known to be there");
                    let mode = parse_number(arguments.last()).expect("a creation has a mode") as u32;
                    let inode = self.create(DiskNode::File { content: FileContent::default(), mode: mode & 0o755 });
                    self.rename(inode, vec![(parent, name, Some(inode))], began, ended);
                    inode
                }
            })
        } else {
            None
        };
        let Some(inode) = inode else {
            self.descriptors.remove(&descriptor);
            return;
        };
        self.descriptions.push(Description { inode, offset: 0, appends: has("O_APPEND") });
        self.descriptors.insert(descriptor, self.descriptions.len() - 1);
    }

    fn duplicate(&mut self, from: &str, to: i64) {
        match self.description(from) {
            Some(description) => self.descriptors.insert(to, description),
            None => self.descriptors.remove(&to),
        };
    }

    fn write(&mut self, call: &SystemCall<'_>, result: i64, description: usize, began: usize, ended: usize) {
        let arguments = CallArguments::parse(&call.arguments);
        let mut bytes = arguments.bytes();
        bytes.truncate(result as usize);
        assert_eq!(bytes.len() as i64, result, "the trace has all bytes of a write");
        let Description { inode, offset, appends } = self.descriptions[description];
        let offset = match call.name {
            "pwrite64" | "pwritev" => parse_number(arguments.last()).expect("it has an offset") as u64,
            "pwritev2" => panic!("pwritev2 is not known to the model"),
            _ if appends => self.content(inode).size(),
            _ => offset,
        };
        if matches!(call.name, "write" | "writev") {
            self.descriptions[description].offset = offset + bytes.len() as u64;
        }
        let path = self.disk.path(inode).unwrap_or_else(|| "(no name)".to_owned());
        let DiskNode::File { content, .. } = &mut self.disk.nodes[inode] else { panic!("{path} is written to") };
        content.write(offset, &bytes);
        self.ops.push(FileOp {
            action: FileAction::Write { inode, offset, bytes: Arc::from(bytes) },
            began,
            ended,
            path,
        });
    }

    fn resize(&mut self, inode: Inode, size: u64, began: usize, ended: usize) {
        let path = self.disk.path(inode).unwrap_or_else(|| "(no name)".to_owned());
        let DiskNode::File { content, .. } = &mut self.disk.nodes[inode] else { panic!("{path} is truncated") };
        content.resize(size);
        self.ops.push(FileOp { action: FileAction::Resize { inode, size }, began, ended, path });
    }

    fn create(&mut self, node: DiskNode) -> Inode {
        self.before.add(node.clone());
        self.disk.add(node)
    }

    fn rename(&mut self, object: Inode, edits: Vec<(Inode, String, Option<Inode>)>, began: usize, ended: usize) {
        let (directory, name, _) = edits.last().expect("a change changes something");
        let path = format!("{}/{name}", self.disk.path(*directory).unwrap_or_default());
        for (directory, name, to) in &edits {
            match to {
                Some(inode) => self.disk.names.insert((*directory, name.clone()), *inode),
                None => self.disk.names.remove(&(*directory, name.clone())),
            };
        }
        let edits = edits.into_iter().map(|(directory, name, to)| NameEdit { directory, name, to }).collect();
        self.ops.push(FileOp { action: FileAction::Name(NameChange { object, edits }), began, ended, path });
    }

    /// The mode of a file is assumed durable at once: no guarantee depends on it.
    fn change_mode(&mut self, name: &str, arguments: &CallArguments<'_>) {
        let inode = match name {
            "fchmod" => self.description(arguments.field(0)).map(|description| self.descriptions[description].inode),
            _ => {
                let at = if name == "fchmodat" { arguments.field(0) } else { "" };
                self.resolve(at, &arguments.text(0)).map(|name| self.disk.names[&name])
            }
        };
        let number = if name == "fchmodat" { 2 } else { 1 };
        if let Some(inode) = inode
            && let DiskNode::File { mode, .. } = &mut self.before.nodes[inode]
        {
            *mode = arguments.number(number) as u32;
        }
    }

    fn content(&self, inode: Inode) -> &FileContent {
        match &self.disk.nodes[inode] {
            DiskNode::File { content, .. } => content,
            DiskNode::Directory => panic!("inode {inode} is a directory"),
        }
    }

    /// The description of a descriptor such as `3</path>`, if it is a recorded file. The path shown by `strace` must
    /// match.
    fn description(&self, text: &str) -> Option<usize> {
        let (number, path) = text.split_once('<').unwrap_or((text, ""));
        let path = String::from_utf8_lossy(&unhex(path.split('>').next().unwrap_or_default())).into_owned();
        let found = self.descriptors.get(&number_of(number)).copied();
        assert_eq!(found.is_some(), self.is_below(&path), "descriptor {number} is `{path}` for strace");
        found
    }

    fn is_below(&self, path: &str) -> bool {
        path.strip_prefix(self.root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn absolute(&self, at: &str, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let directory = at.split_once('<').map(|(_, hex)| unhex(hex.split('>').next().unwrap_or_default()));
        // Without a descriptor, the path is relative to the start directory of the process.
        let directory = directory.map_or("/".to_owned(), |bytes| String::from_utf8(bytes).expect("it is UTF-8"));
        format!("{}/{path}", directory.trim_end_matches('/'))
    }

    fn is_root(&self, at: &str, path: &str) -> bool {
        self.absolute(at, path).trim_end_matches('/') == self.root
    }

    /// Directory and name of a path, if it is below the directory.
    fn resolve(&self, at: &str, path: &str) -> Option<(Inode, String)> {
        let absolute = self.absolute(at, path);
        let below = absolute.strip_prefix(self.root)?.strip_prefix('/')?.trim_end_matches('/').to_owned();
        let odd = below.split('/').any(|name| matches!(name, "" | "." | ".."));
        assert!(!odd, "`{absolute}` is not a plain path");
        let (parent, name) = below.rsplit_once('/').unwrap_or(("", &below));
        let parent = self.disk.find(ROOT, parent);
        Some((parent.unwrap_or_else(|| panic!("`{absolute}` is in no directory")), name.to_owned()))
    }
}

/// The text of the first argument, without parsing the others, which may be long.
fn descriptor_text(arguments: &str) -> &str {
    arguments.split(", ").next().unwrap_or_default()
}

fn number_of(text: &str) -> i64 {
    let digits = text.split('<').next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("`{text}` is not a descriptor"))
}
