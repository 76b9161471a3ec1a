package pebble

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ostiary/ostiary/storage"
)

const (
	// settingsBytesMax is the maximum number of bytes that are read of an OPTIONS
	// file. Pebble writes about 3 KiB.
	settingsBytesMax = 1 << 20
	// damagedPrefix is put before the name of a damaged OPTIONS file. Pebble
	// ignores such names.
	damagedPrefix = "damaged-"
)

// replaceSettings renames OPTIONS files that Pebble would reject. These files
// contain only settings, which are fixed for a data folder, and Pebble writes a
// new file when it opens the folder. replaceSettings does not repair any other
// damage; Pebble reports it.
func (f folder) replaceSettings(o *pebble.Options, g *guard) error {
	dir := f.path(pebbleName)
	for {
		found, err := pebble.Peek(dir, f.fs)
		if err != nil || found.OptionsFilename == "" {
			return nil
		}
		text, err := f.readSettings(found.OptionsFilename)
		if err != nil {
			return err
		}
		damage := o.CheckCompatibility(dir, text)
		if damage == nil {
			return nil
		}
		name := f.fs.PathBase(found.OptionsFilename)
		if err := f.fs.Rename(found.OptionsFilename, f.fs.PathJoin(dir, damagedPrefix+name)); err != nil {
			return fmt.Errorf("%w: the file %s (%w) cannot be replaced: %w; the file contains no data: remove it and open the folder again", storage.ErrDamaged, name, damage, err)
		}
		g.log("the file %s was damaged (%v); it is kept as %s, and a new one is written", []any{name, damage, damagedPrefix + name})
	}
}

func (f folder) readSettings(name string) (string, error) {
	file, err := f.fs.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, settingsBytesMax))
	return string(b), err
}
