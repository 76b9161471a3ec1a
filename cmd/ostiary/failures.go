package main

import (
	"errors"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// The driver's errors come bare where the folder is opened, and as the
// library's own from then on.

func isLocked(err error) bool {
	return errors.Is(err, storage.ErrLocked) || errors.Is(err, ostiary.ErrLocked)
}

func isFormat(err error) bool {
	return errors.Is(err, storage.ErrFormat) || errors.Is(err, ostiary.ErrFormat)
}

func isDamaged(err error) bool {
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, ostiary.ErrDamaged)
}
