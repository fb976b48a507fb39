//! A directory tree as a value: the content of a disk in memory.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a page. Units of the model divide it.
pub(crate) const PAGE: usize = 4096;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// The number of an inode. It is never reused, so a file keeps its number when its name goes to another one.
pub(crate) type Inode = usize;

/// The directory that everything else is in.
pub(crate) const ROOT: Inode = 0;

/// The bytes of a file. A page that is not there is zeros, and so is everything beyond the size.
#[derive(Clone, Default)]
pub(crate) struct FileContent {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl FileContent {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Writes bytes; the file grows if they end beyond it.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes);
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    /// Changes bytes without a change of the size.
    pub(crate) fn put(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (number, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
            let len = bytes.len().min(PAGE - at);
            let page = Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new(ZEROS)));
            page[at..at + len].copy_from_slice(&bytes[..len]);
            (offset, bytes) = (offset + len as u64, &bytes[len..]);
        }
    }

    pub(crate) fn resize(&mut self, size: u64) {
        let (whole, rest) = (size / PAGE as u64, (size % PAGE as u64) as usize);
        self.pages.split_off(&(whole + u64::from(rest > 0)));
        if let Some(page) = self.pages.get_mut(&whole)
            && rest > 0
        {
            Arc::make_mut(page)[rest..].fill(0);
        }
        self.size = size;
    }

    /// The bytes of one unit.
    pub(crate) fn unit(&self, len: usize, number: u64) -> &[u8] {
        let offset = number * len as u64;
        let page = self.pages.get(&(offset / PAGE as u64)).map_or(&ZEROS, |page| &**page);
        let at = (offset % PAGE as u64) as usize;
        &page[at..at + len]
    }

    /// The first byte in which two contents differ, or where the shorter one ends.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<u64> {
        let mut numbers: Vec<u64> = self.pages.keys().chain(other.pages.keys()).copied().collect();
        numbers.sort_unstable();
        let differs = numbers.into_iter().find(|number| self.unit(PAGE, *number) != other.unit(PAGE, *number));
        let in_page = differs.map(|number| {
            let (ours, theirs) = (self.unit(PAGE, number), other.unit(PAGE, number));
            let at = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs).expect("the pages differ");
            number * PAGE as u64 + at as u64
        });
        in_page.or_else(|| (self.size != other.size).then(|| self.size.min(other.size)))
    }

    fn read(path: &Path) -> Self {
        let mut content = Self::default();
        let mut file = File::open(path).unwrap();
        let mut chunk = vec![0; 256 * PAGE];
        loop {
            let len = file.read(&mut chunk).unwrap();
            if len == 0 {
                return content;
            }
            for page in chunk[..len].chunks(PAGE) {
                if *page != ZEROS[..page.len()] {
                    content.put(content.size, page);
                }
                content.size += page.len() as u64;
            }
        }
    }

    fn store(&self, path: &Path, mode: u32) {
        let file = File::create_new(path).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        let mut run: (u64, Vec<u8>) = (0, vec![]);
        for (number, page) in &self.pages {
            if run.0 + run.1.len() as u64 != number * PAGE as u64 {
                file.write_all_at(&run.1, run.0).unwrap();
                run = (number * PAGE as u64, vec![]);
            }
            run.1.extend_from_slice(&page[..]);
        }
        file.write_all_at(&run.1, run.0).unwrap();
        file.set_len(self.size).unwrap();
    }
}

#[derive(Clone)]
pub(crate) enum DiskNode {
    File { content: FileContent, mode: u32 },
    Directory,
}

/// Inodes, and the names that lead to them.
#[derive(Clone)]
pub(crate) struct DiskImage {
    pub(crate) nodes: Vec<DiskNode>,
    /// Directory and name -> inode.
    pub(crate) names: BTreeMap<(Inode, String), Inode>,
}

impl DiskImage {
    pub(crate) fn empty() -> Self {
        Self { nodes: vec![DiskNode::Directory], names: BTreeMap::new() }
    }

    /// Everything below a directory.
    pub(crate) fn load(path: &Path) -> Self {
        let mut disk = Self::empty();
        disk.load_into(ROOT, path);
        disk
    }

    fn load_into(&mut self, directory: Inode, path: &Path) {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            let node = if metadata.is_dir() {
                DiskNode::Directory
            } else {
                assert!(metadata.is_file(), "`{}` is neither a file nor a directory", path.display());
                DiskNode::File { content: FileContent::read(&path), mode: metadata.permissions().mode() & 0o777 }
            };
            let inode = self.add(node);
            self.names.insert((directory, entry.file_name().into_string().unwrap()), inode);
            if metadata.is_dir() {
                self.load_into(inode, &path);
            }
        }
    }

    /// A new inode without a name.
    pub(crate) fn add(&mut self, node: DiskNode) -> Inode {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(crate) fn entries(&self, directory: Inode) -> impl Iterator<Item = (&str, Inode)> {
        let from = self.names.range((directory, String::new())..);
        from.take_while(move |((of, _), _)| *of == directory).map(|((_, name), inode)| (name.as_str(), *inode))
    }

    /// The inode of a path below a directory.
    pub(crate) fn find(&self, from: Inode, path: &str) -> Option<Inode> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(from, |directory, name| self.names.get(&(directory, name.to_owned())).copied())
    }

    /// The first path that leads to an inode.
    pub(crate) fn path(&self, inode: Inode) -> Option<String> {
        if inode == ROOT {
            return Some(String::new());
        }
        let ((directory, name), _) = self.names.iter().find(|(_, found)| **found == inode)?;
        Some(format!("{}/{name}", self.path(*directory)?))
    }

    /// Makes everything below a directory that is not there.
    pub(crate) fn store(&self, path: &Path) {
        fs::create_dir(path).unwrap();
        self.store_from(ROOT, path);
    }

    fn store_from(&self, directory: Inode, path: &Path) {
        for (name, inode) in self.entries(directory) {
            let path = path.join(name);
            match &self.nodes[inode] {
                DiskNode::File { content, mode } => content.store(&path, *mode),
                DiskNode::Directory => {
                    fs::create_dir(&path).unwrap();
                    self.store_from(inode, &path);
                }
            }
        }
    }

    /// The differences between two trees as text.
    pub(crate) fn difference(&self, other: &Self) -> Vec<String> {
        let mut found = vec![];
        self.compare(ROOT, other, ROOT, "", &mut found);
        found
    }

    fn compare(&self, ours: Inode, other: &Self, theirs: Inode, path: &str, found: &mut Vec<String>) {
        let mine: BTreeMap<_, _> = self.entries(ours).collect();
        let others: BTreeMap<_, _> = other.entries(theirs).collect();
        for name in mine.keys().chain(others.keys().filter(|name| !mine.contains_key(*name))) {
            let path = format!("{path}/{name}");
            match (mine.get(name), others.get(name)) {
                (Some(ours), Some(theirs)) => match (&self.nodes[*ours], &other.nodes[*theirs]) {
                    (DiskNode::Directory, DiskNode::Directory) => self.compare(*ours, other, *theirs, &path, found),
                    (DiskNode::File { content: ours, .. }, DiskNode::File { content: theirs, .. }) => {
                        if let Some(at) = ours.first_difference(theirs) {
                            let sizes = (ours.size, theirs.size);
                            found.push(format!("{path} differs at byte {at}; the sizes are {sizes:?}"));
                        }
                    }
                    _ => found.push(format!("{path} is a file in one and a directory in the other")),
                },
                (Some(_), None) => found.push(format!("{path} is missing in the second")),
                _ => found.push(format!("{path} is missing in the first")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_stored_and_loaded_unchanged() {
        let mut disk = DiskImage::empty();
        let directory = disk.add(DiskNode::Directory);
        disk.names.insert((ROOT, "d".to_owned()), directory);
        let mut content = FileContent::default();
        content.write(3 * PAGE as u64 - 2, b"over a page");
        content.resize(1 << 26);
        let file = disk.add(DiskNode::File { content, mode: 0o600 });
        disk.names.insert((directory, "f".to_owned()), file);
        let beside = tempfile::tempdir().unwrap();
        let path = beside.path().join("tree");
        disk.store(&path);
        assert_eq!(disk.difference(&DiskImage::load(&path)), [""; 0]);
        fs::write(path.join("d/f"), "else").unwrap();
        let found = disk.difference(&DiskImage::load(&path));
        assert_eq!(found, ["/d/f differs at byte 0; the sizes are (67108864, 4)"]);
        assert_eq!(disk.find(ROOT, "d/f"), Some(file));
        assert_eq!(disk.path(file).unwrap(), "/d/f");
    }

    #[test]
    fn a_file_that_shrinks_and_grows_has_zeros_in_between() {
        let mut content = FileContent::default();
        content.write(0, &[7; 2 * PAGE]);
        content.resize(10);
        content.resize(2 * PAGE as u64);
        assert_eq!(content.unit(PAGE, 0)[..12], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0]);
        assert_eq!(content.unit(PAGE, 1), ZEROS);
    }
}
