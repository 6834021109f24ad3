// Package statefile keeps the lease of a machine ID in a local file, so that a node can start while
// the registry of machine IDs cannot be reached. [File] is the file, [State] the lease in it, and
// [Identity] whom it belongs to.
//
// The file is a text of key=value lines with a checksum. It is replaced as a whole: after a crash
// it contains the state that was stored last or the one that was being stored, never a part. A lock
// file beside it (<name>.lock, never removed) belongs to one process for its life. It is a second
// file because a lock on the file itself would be lost when the file is replaced.
//
// # Copies
//
// Two nodes that start from the same lease issue the same numbers. Therefore the file contains its
// own device, inode and, if the file system knows it, time of birth. Renaming a file keeps all
// three; copying, unpacking and restoring do not. The time of birth is needed because file systems
// reuse inodes at once: if two files replace each other in turn, every second one has the same
// inode.
//
// The following cannot be detected: a file system or a disk that is restored or cloned as a whole;
// an older file that was kept by a hard link and moved back; without a time of birth, a copy that
// happens to get the inode of the original. The following is refused although it is harmless: a
// file on a file system whose device number changed when it was mounted again.
package statefile
