package serve

import (
	"context"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/backups"
)

// addBackupCommand adds the commands of the socket with which a backup gets a copy of the data,
// and notes that it has ended.
func (s *prepared) addBackupCommand(c *commands) {
	addCommand(c, backups.CheckpointCommand, s.checkpoint, func(o backups.CheckpointOptions) string { return o.For })
	addCommand(c, backups.NoteCommand, s.noteBackup, nil)
}

// checkpoint writes a copy of the data of this server, or of this node, into the data folder.
func (s *prepared) checkpoint(ctx context.Context, o backups.CheckpointOptions) (made backups.Checkpointed, err error) {
	key, err := s.ReadSecretKey()
	if err != nil {
		return made, err
	}
	made = backups.Checkpointed{Copy: s.member != nil, Closed: s.requiresCallers(), SecretKey: backups.Fingerprint(key)}
	if err = backups.Checkpoint(ctx, s.driver, s.Data, o.Folder); err != nil {
		s.log.Warn("a copy of the data for a command failed", "for", o.For, "error", err)
		return made, err
	}
	s.log.Info("made a copy of the data for a command", "for", o.For)
	return made, nil
}

// requiresCallers reports whether requests need a caller.
func (s *prepared) requiresCallers() bool {
	o := &s.options
	return o.Keys != nil || o.Tokens != nil || o.ClientCA != nil || o.Callers != nil && (!o.CallersOptional || o.Callers.Any())
}
