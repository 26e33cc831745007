//! A file's new content on its way: written beside the file, and put in its place at once. Readers see the old or the new content, a crash
//! leaves one of them.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::durable::{self, Point};
use super::entropy;
use super::folder::{Folder, temporary_prefix};

/// New content for one name. Dropped before [`Replacement::commit`] it leaves the old content, and nothing else.
#[derive(Debug)]
pub struct Replacement<'a> {
    folder: &'a Folder,
    name: &'a str,
    temporary: String,
    file: BufWriter<File>,
    is_done: bool,
}

impl<'a> Replacement<'a> {
    /// Begins it. The temporary file is `.NAME.tmp-` and 16 hex digits, mode 0600; see [`Folder::clear_temporary`].
    ///
    /// # Errors
    /// What the system answers.
    pub fn begin(folder: &'a Folder, name: &'a str) -> io::Result<Replacement<'a>> {
        let temporary = format!("{}{}", temporary_prefix(name), entropy::hex::<8>());
        let file = BufWriter::new(folder.create_file(&temporary)?);
        Ok(Replacement { folder, name, temporary, file, is_done: false })
    }

    /// Puts it in place, synced; the points stand behind the syncs of content and name.
    ///
    /// # Errors
    /// What the system answers; the old content is untouched then, unless it is the folder that could not be synced.
    pub fn commit(mut self, [content, name]: [Point; 2]) -> io::Result<()> {
        self.file.flush()?;
        durable::sync(self.file.get_ref(), content)?;
        self.folder.rename(&self.temporary, self.name)?;
        self.is_done = true;
        self.folder.sync(name)
    }
}

impl Write for Replacement<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // The error that led here is the one that matters.
            drop(self.folder.remove_file(&self.temporary));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_committed_leaves_no_trace() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let points = [Point::PublishContent, Point::PublishNamed];
        folder.replace("a", b"old", points).unwrap();
        let mut given_up = Replacement::begin(&folder, "a").unwrap();
        given_up.write_all(b"half").unwrap();
        assert_eq!(folder.names().unwrap().len(), 2);
        drop(given_up);
        assert_eq!(
            (folder.names().unwrap(), folder.read("a", 9).unwrap().unwrap()),
            (vec!["a".into()], b"old".to_vec())
        );
        let mut new = Replacement::begin(&folder, "a").unwrap();
        new.write_all(b"new").unwrap();
        new.commit(points).unwrap();
        assert_eq!(
            (folder.names().unwrap(), folder.read("a", 9).unwrap().unwrap()),
            (vec!["a".into()], b"new".to_vec())
        );
    }
}
