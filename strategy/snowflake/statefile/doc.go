// Package statefile keeps the lease of a machine ID in a local file, so that a node can start while
// the registry of machine IDs cannot be reached.
//
// The file is a text of key=value lines with a checksum. It is replaced as a whole: after a crash
// at any moment it holds the state that was stored last or the one that was being stored, never a
// part of one. A lock file beside it (<name>.lock, never removed) belongs to one process for its
// life; it is a second file because the lock of a replaced file would go with it.
//
// # Copies
//
// Two nodes that start from the same lease issue the same numbers. So the file names the device,
// the inode and, where the file system knows it, the time of birth of the file that it was written
// to: renaming keeps all three, copying, unpacking and restoring do not. The time of birth is there
// because file systems use an inode again at once: of two files that replace each other by turns
// every second has the same one.
//
// What cannot be noticed: a file system or a disk that is restored or cloned as a whole; an older
// file kept by a hard link and moved back; where there is no time of birth, a copy that happens to
// be written to the inode that the original had. What is refused for no good reason: a file on a
// file system whose device number changed when it was mounted again.
package statefile
