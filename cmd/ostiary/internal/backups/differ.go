package backups

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// difference is a store that the old folder has in another way than the backup.
type difference struct {
	Store string `json:"store"`
	Name  string `json:"name"`
	// Backup and Old are the revisions; 0 where the store is missing, or is empty.
	Backup uint64 `json:"backup"`
	Old    uint64 `json:"old"`
	// What is created or deleted (since the backup), ahead (the old folder has more entries),
	// or other (it has others).
	What string `json:"what"`
}

// The values of What.
const (
	created = "created"
	deleted = "deleted"
	ahead   = "ahead"
	other   = "other"
)

// text describes the difference.
func (d *difference) text(old string) string {
	store := fmt.Sprintf("store %s (%s)", d.Name, d.Store)
	switch d.What {
	case created:
		return fmt.Sprintf("%s is not in the backup: %s has it, with revision %d", store, old, d.Old)
	case deleted:
		return fmt.Sprintf("%s is in the backup, with revision %d, and %s does not have it: it was deleted since", store, d.Backup, old)
	case ahead:
		return fmt.Sprintf("%s has revision %d in the backup, and %d in %s: revisions %d to %d are not in the backup", store, d.Backup, d.Old, old, d.Backup+1, d.Old)
	}
	return fmt.Sprintf("%s has revision %d in the backup, and %d in %s, with another history", store, d.Backup, d.Old, old)
}

// differences compares the stores of a backup with those of the old folder.
func differences(ctx context.Context, backup, old *kv.Driver) (out []difference, err error) {
	out = []difference{}
	for info, err := range backup.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		d, err := differs(ctx, info, backup, old)
		if err != nil {
			return nil, err
		}
		if d.What != "" {
			out = append(out, d)
		}
	}
	for info, err := range old.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		_, err := backup.Store(ctx, info.ID)
		if err == nil {
			continue
		}
		if !errors.Is(err, storage.ErrNoStore) {
			return nil, err
		}
		head, err := old.Head(ctx, info.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, difference{Store: info.ID.String(), Name: info.Name, Old: uint64(head.Revision), What: created})
	}
	return out, nil
}

// differs compares one store of a backup with the old folder. What is "" if they are the same.
func differs(ctx context.Context, info storage.StoreInfo, backup, old *kv.Driver) (d difference, err error) {
	d = difference{Store: info.ID.String(), Name: info.Name}
	head, err := backup.Head(ctx, info.ID)
	if err != nil {
		return d, err
	}
	d.Backup = uint64(head.Revision)
	now, err := old.Store(ctx, info.ID)
	if errors.Is(err, storage.ErrNoStore) {
		d.What = deleted
		return d, nil
	}
	if err != nil {
		return d, err
	}
	theirs, err := old.Head(ctx, info.ID)
	if err != nil {
		return d, err
	}
	d.Old = uint64(theirs.Revision)
	switch {
	case now.Incarnation != info.Incarnation:
		d.What = other
	case theirs == head:
	case theirs.Revision <= head.Revision:
		d.What = other
	default:
		d.What = ahead
		next, err := old.EntryHead(ctx, info.ID, head.Revision+1)
		if err != nil && !errors.Is(err, storage.ErrTrimmed) {
			return d, err
		}
		if err == nil && next.Previous != head.Hash {
			d.What = other
		}
	}
	return d, nil
}
