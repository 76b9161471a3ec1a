package ostiary

import (
	"sync"

	"github.com/ostiary/ostiary/storage"
)

type watchers struct{ mu sync.Mutex }

func (w *watchers) push(entries []storage.Entry, heads []storage.Head) {}
func (w *watchers) end(err error)                                      {}
