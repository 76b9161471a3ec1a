package cli

import (
	"errors"
	"os"
	"path/filepath"
)

// Temporary makes a folder that only this user can read, in the folder of the system for
// temporary files. Its name begins with prefix. remove removes it. Temporary also removes
// the folders that it has made with the same prefix in processes that were killed. A
// folder whose process may run stays, so on systems without file locks all of them do.
func Temporary(prefix string) (folder string, remove func() error, err error) {
	return TemporaryIn(os.TempDir(), prefix)
}

// TemporaryIn is like [Temporary] in another folder than that of the system.
func TemporaryIn(dir, prefix string) (folder string, remove func() error, err error) {
	removeEnded(filepath.Join(dir, prefix+"*"))
	if folder, err = os.MkdirTemp(dir, prefix); err != nil {
		return "", nil, err
	}
	lock, err := WriteHolder(folder, nil, false)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	return folder, func() error {
		// The file with the lock is the last one, so that a process that is killed here leaves a
		// folder that the next one removes.
		entries, err := os.ReadDir(folder)
		for _, e := range entries {
			if e.Name() != HolderName {
				err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
			}
		}
		return errors.Join(err, lock.Close(), os.RemoveAll(folder))
	}, nil
}

// removeEnded removes the folders of a pattern whose processes have ended. What it cannot
// remove stays.
func removeEnded(pattern string) {
	folders, _ := filepath.Glob(pattern) // the pattern is valid
	for _, folder := range folders {
		if at, err := os.Lstat(folder); err == nil && at.IsDir() && ended(filepath.Join(folder, HolderName)) {
			os.RemoveAll(folder)
		}
	}
}

// ended reports whether the lock of a file of WriteHolder is free. Without the file it
// returns false, because a process may be about to write it. The id in the file does not
// count: the process may have it in another container.
func ended(name string) bool {
	if at, err := os.Lstat(name); err != nil || !at.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return holderEnded(f)
}
