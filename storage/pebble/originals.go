package pebble

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrReplaced is wrapped by the errors of all calls after the driver noticed that
// the data folder, its marker or its folder of Pebble's files was removed or
// replaced while it was open. Such errors wrap [ErrFailed], too. The driver looks
// before each write and in [Driver.Failed]. With [Options.NoSync] it looks before every
// 16th write.
var ErrReplaced = errors.New("the data folder was removed or replaced while it was open")

// replacedError is an ErrReplaced that names the file.
type replacedError struct {
	path string
	what string // what is wrong with the file at path
}

func (e *replacedError) Error() string { return fmt.Sprintf("%v: %s %s", ErrReplaced, e.path, e.what) }

func (e *replacedError) Unwrap() []error { return []error{ErrReplaced, ErrFailed} }

// originals are the files that an open folder consists of, as they were when it
// was opened. Pebble opens files by path. If another folder is at that path, its
// writes would destroy that folder.
type originals struct {
	paths []string
	files []fileID // parallel to paths
}

// identify returns the originals of an open folder. It returns nil if the folder
// is not on a file system of the operating system.
func (f folder) identify() (*originals, error) {
	if !f.onDisk() {
		return nil, nil
	}
	o := &originals{}
	for _, path := range []string{f.dir, f.path(markerName), f.path(pebbleName)} {
		id, err := identify(path)
		if err != nil {
			return nil, err
		}
		o.paths, o.files = append(o.paths, path), append(o.files, id)
	}
	return o, nil
}

// onDisk reports whether the folder is on a file system of the operating system.
func (f folder) onDisk() bool { return vfs.Root(f.fs) == vfs.Default }

// check returns an ErrReplaced if a path no longer leads to the same file. It is called
// before each write, so it looks only at the files in the folder: in another folder they
// are others. If one has changed, the error names the first path that has.
func (o *originals) check() error {
	err := o.checkFrom(1)
	if err == nil {
		return nil
	}
	return cmp.Or(o.checkFrom(0), err)
}

// checkFrom is check for the paths from a given one on.
func (o *originals) checkFrom(first int) error {
	for i := first; i < len(o.paths); i++ {
		path := o.paths[i]
		id, err := identify(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &replacedError{path, "is missing"}
		case err != nil:
			return err
		case !id.same(o.files[i]):
			return &replacedError{path, "is not the one that was opened"}
		}
	}
	return nil
}
