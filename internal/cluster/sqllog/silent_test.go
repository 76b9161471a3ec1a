//go:build unix

package sqllog_test

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/storage"
)

// TestSilent lets a server never answer on the connections that a log has. Calls without an
// end must go on with new ones: a node applies and appends in such calls.
func TestSilent(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct {
		open func(context.Context, string) (*sqllog.Log, error)
		url  func(*testing.T) string
	}{
		"PostgreSQL": {postgres.Open, func(t *testing.T) string { return databases.PostgreSQL(t).Database() }},
		"MariaDB":    {mysql.Open, func(t *testing.T) string { return databases.MariaDB(t).Database() }},
	} {
		t.Run(name, func(t *testing.T) {
			way := sharedlogtest.NewWay(t, d.url(t))
			l, err := d.open(t.Context(), way.URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			l.SetAnswerTime(time.Second)
			first := sharedlog.Segment{Sequence: 1, Writer: storage.NodeID{1}}
			record, err := first.Record()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Head(t.Context()); err != nil {
				t.Fatal(err)
			}
			way.Mute()
			if err := sharedlog.Commit(t.Context(), l, sharedlog.Position{}, record, nil); err != nil {
				t.Errorf("append: %v", err)
			}
			way.Mute()
			for {
				head, err := l.Head(t.Context())
				if err != nil {
					t.Log(err)
					continue
				}
				if head != record.Position {
					t.Errorf("the head is %s, expected %s", head, record.Position)
				}
				break
			}
		})
	}
}
