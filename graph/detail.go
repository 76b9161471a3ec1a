package graph

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// fill sets d on t.
func (d Detail) fill(t *rel.Tuple) {
	t.Condition, t.Context, t.Expires = d.Condition, d.Context, d.Expires
}

// detailKey is what makes two details equal.
type detailKey struct {
	condition, context string
	expires            rel.Time
}

// detailCache shares equal details among the tuples that are written near each
// other in time. It forgets all when it is full, so that it holds back nothing
// for long.
type detailCache map[detailKey]*Detail

const (
	detailCacheMax   = 4096 // details
	sharedContextMax = 1024 // bytes of a context worth sharing
	detailBytes      = 64 + 24
	attributeBytes   = 64
)

// detail returns t's detail, nil if it has none.
func (c *detailCache) detail(t *rel.Tuple) (*Detail, error) {
	if t.Condition == "" && t.Context == "" && t.Expires == 0 {
		return nil, nil
	}
	key := detailKey{t.Condition, t.Context, t.Expires}
	if d, ok := (*c)[key]; ok {
		return d, nil
	}
	// The caller's strings may be parts of something large.
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

// bytes is an estimate that counts shared details once for each tuple. A
// decoded context takes several times its text.
func (d *Detail) bytes() int64 {
	return detailBytes + int64(len(d.Condition)) + 6*int64(len(d.Context))
}
