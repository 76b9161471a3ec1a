package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

const (
	// keysForbidden are the permissions that the file of keys must not give: read
	// and write to others, write to its group.
	keysForbidden fs.FileMode = 0o026
	// folderForbidden are those that the data folder should not give.
	folderForbidden fs.FileMode = 0o077
)

// CheckKeysMode fails if users other than the owner and the group can read the
// file of keys, or users other than the owner can change it.
func CheckKeysMode(file string) error {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" {
		return err
	}
	if mode := info.Mode().Perm(); mode&keysForbidden != 0 {
		return fmt.Errorf("%w: the file of keys %s has mode %04o, so other users can read or change it: run chmod 600 %s (for a secret of Kubernetes, set defaultMode: 0440)", ErrUsage, file, mode, file)
	}
	return nil
}

// WarnFolderMode logs a warning if other users can read the data folder.
func WarnFolderMode(log *slog.Logger, dir string) {
	info, err := os.Stat(dir)
	if err != nil || runtime.GOOS == "windows" {
		return
	}
	if mode := info.Mode().Perm(); mode&folderForbidden != 0 {
		log.Warn("other users can read the data folder: run chmod 700", "folder", dir, "mode", fmt.Sprintf("%04o", mode))
	}
}

// ownerWarning returns a warning if the user of the number is root, and the data folder, or
// that in which it will be made, belongs to another user, such as that of a service. Even a
// command that only reads makes files in the folder.
func ownerWarning(user int, dir string) string {
	if user != 0 {
		return ""
	}
	for _, name := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			break
		}
		if owner := ownerOf(info); owner != 0 {
			return fmt.Sprintf("warning: the command runs as root, and %s belongs to user %d, who cannot open what root makes there: run it with sudo -u '#%d', or afterwards chown -R %d %s and the files of its name next to it", name, owner, owner, owner, dir)
		}
		break
	}
	return ""
}

// GiveTo gives a file, or a folder with everything in it, to the owner of the folder like, if the
// user is root: a command that root runs for the user of a service then leaves nothing that
// this user cannot open. It does nothing for other users.
func GiveTo(like, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner := ownerOf(info)
	if owner == 0 {
		return nil
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, owner, -1)
	})
}
