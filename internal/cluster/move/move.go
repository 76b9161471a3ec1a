// Package move moves all stores between folders and shared logs, with their entries, their
// past and their secrets, so that tokens, cursors and revisions stay valid. It also finds what
// a log has lost ([Move.Lost]). Its main type is [Move]: one attempt, from FROM to TO.
//
// A move rests on a copy, the state that a node has of a log. A folder becomes the copy of TO
// in place, or a new folder becomes a copy of FROM; TO gets what the copy has, or the copy
// becomes the folder TO. So each move has the same states:
//
//   - Untouched. TO must be new or have the description of FROM, the key must be that of the
//     secrets, and FROM is read whole, so that damage is found before anything changes.
//     Of an attempt that ends here, TO has the description of FROM at most, and FROM is
//     served as before.
//   - Adopted, if FROM is a folder: it is a copy of TO, which has nothing yet. It cannot be
//     served. After an error the folder is given back if TO has nothing for certain; after a
//     crash the next attempt goes on.
//   - Fenced, if FROM is a log: the move has the lease, and a segment of its epoch ends FROM,
//     so a node that was paused, or runs by mistake, can append nothing. After a crash the
//     lease runs out, and a node may take the role back; the next attempt begins with a new
//     fence.
//   - Filled. TO has everything, and was read back and compared: the hash of the last entry of
//     each store and the hash of all rows. FROM is still what counts. The next attempt gives
//     TO what was written to FROM meanwhile, or fails if something else was written to TO.
//   - Ended. FROM is not the place of the stores any more. A folder FROM has been a copy of TO
//     since it was adopted. A log FROM notes it twice: in its description, so that no node
//     starts there, and in its lease, so that no node takes the role over. Between these two
//     notes a node may have taken the role back: the first note is then removed, and nothing
//     has happened. After a crash between them no node starts on FROM, and the next attempt
//     makes the second note.
//   - Released, if TO is a folder: it is a folder of its own, not a copy, and its rows have
//     the same hash. An attempt that is repeated after that compares both ends and does
//     nothing.
//
// With [Move.Live], nodes serve FROM while TO is filled, and the fence is held for two seconds
// at most: the last segments are copied, the lease is ended, and then the description. The
// swap of the lease is the one step that decides. Before it the nodes go on with FROM, after
// it with TO, and the next attempt notes the description and waits for the nodes.
//
// A move never removes a store, an entry or a secret of FROM, never writes to a TO that has
// the stores of others, and never ends with two places that can both be served, unless
// [Move.Force] allows it. It opens no URL, reads no flag and prints nothing: the caller opens
// logs and folders and gets the progress.
package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// ErrSame means that FROM and TO are the same log.
var ErrSame = errors.New("FROM and TO are the same log")

// Folder is a data folder.
type Folder interface {
	// Path is the path of the folder.
	Path() string
	// OpenFolder opens the folder, which must exist. It fails with [kv.ErrCopy] if the
	// folder is the copy of a log.
	OpenFolder(ctx context.Context) (*pebble.Driver, error)
	// OpenCopy opens the folder as the copy of a log, and creates it if it is missing. It
	// fails with [kv.ErrNoCopy] if the folder has stores and is no copy.
	OpenCopy(ctx context.Context) (*pebble.Driver, error)
	// SecretKeyFile is the file of the key that encrypts secrets, and ReadSecretKey reads
	// it. It returns nil if the file is missing.
	SecretKeyFile() string
	ReadSecretKey() (*[32]byte, error)
}

// End is FROM or TO: a folder of a server of its own, or a log.
type End struct {
	// Text is the end in messages.
	Text string
	// Folder is the data folder. It is nil if the end is a log.
	Folder Folder
	// Open opens the log, and returns the id of the node that has it in its folder; zero if
	// it is in a database. It is not used with Folder.
	Open func(ctx context.Context) (sharedlog.Log, storage.NodeID, error)
}

// Move is one attempt to move all stores. The zero values of the fields that are not FROM, TO
// or Temporary are allowed.
type Move struct {
	From, To End
	// Temporary calls f with a new folder, and removes the folder afterwards.
	Temporary func(f func(Folder) error) error
	// Work is the folder of the copy on the way between two logs. It stays if the attempt
	// fails, so that the next one goes on with it. nil means a temporary one.
	Work Folder
	// Force does not check whether nodes run on FROM, and whether FROM was moved before.
	Force bool
	// Live moves a log while nodes run on it.
	Live bool
	// Snapshot stores a snapshot in FROM before a live move. nil does nothing.
	Snapshot func(context.Context) error
	// Progress gets the progress of each step; total is 0 if it is not known. nil drops it.
	Progress func(title string, done, total int)
	// Done is what the attempt has done so far.
	Done Done
}

// Done is what a move has done.
type Done struct {
	// Cluster is the cluster of the log, and Segment its last segment; "" and 0 without one.
	Cluster string `json:"cluster"`
	Segment uint64 `json:"segment"`
	Stores  int    `json:"stores"`
	Secrets int    `json:"secrets"`
	// Bytes is the size of all rows, and State their hash, which FROM and TO have alike.
	Bytes uint64 `json:"bytes"`
	State string `json:"state"`
	// Keyless is true if TO is a folder without the key that its secrets need.
	Keyless bool `json:"-"`
	// Nodes is the number of nodes that have gone on with TO in a live move, and Last the last
	// segment of FROM: all before it are the same. Last is 0 if an earlier attempt has moved it.
	Nodes int    `json:"-"`
	Last  uint64 `json:"-"`
}

// Run moves the stores. After an error it can be repeated, and does the rest.
func (m *Move) Run(ctx context.Context) error {
	switch {
	case m.From.Folder != nil:
		return m.folderToLog(ctx)
	case m.To.Folder != nil:
		return m.logToFolder(ctx)
	}
	return m.logToLog(ctx)
}

// Verify compares what both ends have, and changes nothing. It fails with
// [ErrDiffers] if that is not the same.
func (m *Move) Verify(ctx context.Context) error {
	from, err := m.content(ctx, &m.From)
	if err != nil {
		return fmt.Errorf("%s: %w", m.From.Text, err)
	}
	return m.verifyTo(ctx, &from)
}

// verifyTo compares the content of TO with that of FROM.
func (m *Move) verifyTo(ctx context.Context, from *Content) error {
	to, err := m.content(ctx, &m.To)
	if err != nil {
		return fmt.Errorf("%s: %w", m.To.Text, err)
	}
	m.note(&to)
	if m.note(from); from.At.Sequence == 0 {
		m.Done.Segment, m.Done.Cluster = to.At.Sequence, to.Cluster.String()
	}
	return from.Compare(&to)
}

// note notes what is moved.
func (m *Move) note(c *Content) {
	d := &m.Done
	d.Stores, d.Secrets, d.Bytes, d.State = len(c.Stores), c.Secrets, c.Bytes, c.State.String()
	if c.At.Sequence > 0 {
		d.Cluster, d.Segment = c.Cluster.String(), c.At.Sequence
	}
}

// progress shows the progress of a step.
func (m *Move) progress(title string, done, total int) {
	if m.Progress != nil {
		m.Progress(title, done, total)
	}
}

// show shows the progress of a step in MiB; total is known once FROM was read.
func (m *Move) show(step string, bytes uint64) {
	m.progress(step+" (MiB)", int(bytes>>20), int(m.Done.Bytes>>20))
}

// copying shows the progress of copying segments.
func (m *Move) copying(sequence uint64) { m.progress("copying segments", int(sequence), 0) }

// content reads the content of an end.
func (m *Move) content(ctx context.Context, e *End) (c Content, err error) {
	if e.Folder == nil {
		err = m.withLog(ctx, e, func(log *movedLog) (err error) {
			c, err = m.contentOfLog(ctx, log)
			return err
		})
		return c, err
	}
	driver, err := e.Folder.OpenFolder(ctx)
	if errors.Is(err, kv.ErrCopy) {
		driver, err = e.Folder.OpenCopy(ctx)
	}
	if err != nil {
		return c, err
	}
	c, err = m.read(ctx, e.Text, driver.Driver)
	return c, errors.Join(err, driver.Close())
}

// contentOfLog reads the content of a log from a new copy of it.
func (m *Move) contentOfLog(ctx context.Context, log *movedLog) (c Content, err error) {
	err = m.withCopyOf(ctx, log, func(has *kv.Driver) (err error) {
		c, err = m.read(ctx, log.text, has)
		return err
	})
	return c, err
}

// read reads the content of a driver.
func (m *Move) read(ctx context.Context, what string, data *kv.Driver) (Content, error) {
	return ReadContent(ctx, data, func(bytes uint64) { m.show("reading "+what, bytes) })
}

// compare reads TO back, and compares it with what FROM has.
func (m *Move) compare(ctx context.Context, log *movedLog, want *Content) error {
	have, err := m.contentOfLog(ctx, log)
	if err == nil {
		err = want.Compare(&have)
	}
	if err != nil {
		return fmt.Errorf("proof that %s and %s have the same: %w", m.From.Text, m.To.Text, err)
	}
	return nil
}
