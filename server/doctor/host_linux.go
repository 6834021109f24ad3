package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems are the kinds that matter here, by their numbers in the kernel.
var fileSystems = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.CIFS_SUPER_MAGIC: "cifs",
	unix.SMB2_SUPER_MAGIC: "smb2", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.FUSE_SUPER_MAGIC: "fuse",
	0x01021997: "9p",
}

// disk asks the kernel about the file system of a path.
func disk(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, err
	}
	kind, known := fileSystems[int64(s.Type)]
	if !known {
		kind = fmt.Sprintf("%#x", s.Type)
	}
	return Disk{Kind: kind, Free: s.Bavail * uint64(s.Bsize), Size: s.Blocks * uint64(s.Bsize)}, nil
}

// synchronised asks the kernel whether its clock follows another one. It changes nothing.
func synchronised() (yes, known bool) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err == nil
}

func writable(folder string) bool { return unix.Access(folder, unix.W_OK|unix.X_OK) == nil }
