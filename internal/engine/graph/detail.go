package graph

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// fill sets the condition, context and expiry of t.
func (d Detail) fill(t *rel.Tuple) {
	t.Condition, t.Context, t.Expires = d.Condition, d.Context, d.Expires
}

// detailKey is what makes two details equal.
type detailKey struct {
	condition, context string
	expires            rel.Time
}

// detailCache shares equal details among tuples that are written at about the
// same time. It is emptied when it is full, so that it does not keep old
// details alive for long.
type detailCache map[detailKey]*Detail

const (
	detailCacheMax   = 4096    // most details
	sharedContextMax = 1024    // most bytes of a context that is shared
	detailBytes      = 64 + 24 // a Detail and its map entry
	contextBytes     = 320     // the map of a decoded context, which has room for eight values
	attributeBytes   = 64      // an attribute besides its value
)

// detail returns t's detail, or nil if t has none. It fails with [ErrContext].
func (c *detailCache) detail(t *rel.Tuple) (*Detail, error) {
	if t.Condition == "" && t.Context == "" && t.Expires == 0 {
		return nil, nil
	}
	key := detailKey{t.Condition, t.Context, t.Expires}
	if d, ok := (*c)[key]; ok {
		return d, nil
	}
	// The caller's strings may be parts of larger ones, which must not stay in
	// memory.
	d := &Detail{Condition: strings.Clone(t.Condition), Context: strings.Clone(t.Context), Expires: t.Expires}
	if t.Context != "" {
		dec := json.NewDecoder(strings.NewReader(d.Context))
		dec.UseNumber()
		if err := dec.Decode(&d.Values); err != nil || d.Values == nil || dec.More() {
			return nil, fmt.Errorf("%w: %s", ErrContext, t.Key())
		}
	}
	if len(t.Context) <= sharedContextMax {
		if *c == nil || len(*c) >= detailCacheMax {
			*c = detailCache{}
		}
		(*c)[detailKey{d.Condition, d.Context, d.Expires}] = d
	}
	return d, nil
}

// bytes estimates the memory of d. A shared detail counts once for each tuple.
// A decoded context takes several times the memory of its text.
func (d *Detail) bytes() int64 {
	n := detailBytes + int64(len(d.Condition)) + 6*int64(len(d.Context))
	if d.Values != nil {
		n += contextBytes
	}
	return n
}
