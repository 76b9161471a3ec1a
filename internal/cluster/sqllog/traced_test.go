//go:build unix

package sqllog_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/storage"
)

// recorder is a span that keeps what its parts have, as lines.
type recorder struct {
	mu    sync.Mutex
	lines []string
	ended int
}

func (r *recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *recorder) Start(name string, _ traces.Kind) traces.Span { r.add("start " + name); return r }
func (r *recorder) Set(name string, value any)                   { r.add(name + " " + value.(string)) }
func (r *recorder) Fail(kind string, _ error)                    { r.add("fail " + kind) }
func (r *recorder) Inject(func(name, value string))              {}
func (r *recorder) IDs() (trace, span string)                    { return "", "" }
func (r *recorder) End()                                         { r.mu.Lock(); r.ended++; r.mu.Unlock() }

// TestTraced appends a segment in a traced request, and reads it. Each statement is a part of the
// request, with its text and without its arguments.
func TestTraced(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct {
		open   func(context.Context, string) (*sqllog.Log, error)
		url    func(*testing.T) string
		system string
	}{
		"PostgreSQL": {postgres.Open, func(t *testing.T) string { return databases.PostgreSQL(t).Database() }, "postgresql"},
		"MariaDB":    {mysql.Open, func(t *testing.T) string { return databases.MariaDB(t).Database() }, "mysql"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := d.open(t.Context(), d.url(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			r := &recorder{}
			ctx := context.WithValue(t.Context(), traces.Key{}, traces.Span(r))
			first := sharedlog.Segment{Sequence: 1, Writer: storage.NodeID{1}}
			record, err := first.Record()
			if err == nil {
				err = sharedlog.Commit(ctx, l, sharedlog.Position{}, record, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if head, err := l.Head(ctx); err != nil || head != record.Position {
				t.Fatalf("the head is %s, %v", head, err)
			}
			started := 0
			for _, line := range r.lines {
				if line == "start sql" {
					started++
				}
				if strings.HasPrefix(line, "fail") {
					t.Error(line)
				}
			}
			if started < 2 || started != r.ended || !slices.Contains(r.lines, "db.system.name "+d.system) ||
				!slices.ContainsFunc(r.lines, func(line string) bool {
					return strings.HasPrefix(line, "db.query.text ") && strings.Contains(line, "insert into ostiary_log")
				}) {
				t.Errorf("%d statements began and %d ended: %q", started, r.ended, r.lines)
			}
		})
	}
}
