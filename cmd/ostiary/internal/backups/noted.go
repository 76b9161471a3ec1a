package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// NoteCommand is the command of the socket of a data folder with which a backup that has ended
// lets the server note when it was made. Its body is a [Backed].
const NoteCommand = "backed-up"

// Backed is the body of NoteCommand, and the content of the file BACKUP.
type Backed struct {
	// Made is the moment that the backup has the data of.
	Made time.Time `json:"made"`
}

const (
	// noteName is the file in a data folder that has when its newest backup was made. It is in
	// no backup.
	noteName     = "BACKUP"
	noteBytesMax = 4096
)

// Note notes in a data folder when its newest backup was made, unless it has a later time.
func Note(data string, b Backed) error {
	if b.Made.IsZero() || b.Made.After(time.Now().Add(time.Minute)) {
		return fmt.Errorf("%w: invalid time %s of a backup: expected one in the past", cli.ErrUsage, b.Made.Format(time.RFC3339))
	}
	if old, err := Noted(data); err == nil && !b.Made.After(old.Made) {
		return nil
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	name := filepath.Join(data, noteName)
	err = os.WriteFile(name+".new", append(text, '\n'), 0o600)
	return errors.Join(err, cli.GiveTo(data, name+".new"), os.Rename(name+".new", name))
}

// Noted returns when the newest backup of a data folder was made; the zero Backed if it has none.
func Noted(data string) (b Backed, err error) {
	text, err := cli.ReadFile(filepath.Join(data, noteName), noteBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return Backed{}, fmt.Errorf("%s: %w", filepath.Join(data, noteName), err)
	}
	return b, nil
}

// note notes that a backup has ended, through the server if one has the folder open. The backup
// is whole also if that fails, which is a warning then.
func (a *app) note(ctx context.Context, made time.Time) {
	b := Backed{made}
	err := cli.Control(ctx, a.Data, NoteCommand, b, &struct{}{})
	if errors.Is(err, cli.ErrNoControl) {
		err = Note(a.Data, b)
	}
	if err != nil {
		cli.Printf(a.Err, "the backup is whole, but the folder does not have its time, for ostiary_backup_age_seconds: %v\n", err)
	}
}
