package permify

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/internal/permifypb"
)

// TestSendFails checks that a watch and a stream end with the error of a client that
// is gone, whatever they send.
func TestSendFails(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	var many []string
	for i := range changesMax {
		many = append(many, fmt.Sprintf("doc:%d#owner@user:1", i))
	}
	remove := func(c *clients) {
		if _, err := c.data.Delete(t.Context(), &permifypb.DataDeleteRequest{TenantId: "t1",
			TupleFilter: &permifypb.TupleFilter{Entity: &permifypb.EntityFilter{Type: "doc"}}, AttributeFilter: &permifypb.AttributeFilter{}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(c *clients)
		sent   int // messages before the client is gone
	}{
		"one tuple":                 {func(c *clients) { c.write(t, "doc:a#owner@user:1") }, 0},
		"one attribute":             {func(c *clients) { c.write(t, "doc:a$on|boolean:true") }, 0},
		"as many as a message has":  {func(c *clients) { c.write(t, many...) }, 0},
		"a filter that removes all": {remove, 0},
		"the second write":          {func(c *clients) { c.write(t, "doc:a#owner@user:1"); c.write(t, "doc:b#owner@user:1") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := connect(t, watchSchema)
			token := x.write(t, many[1:]...)
			c.change(x)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s, sent := &service{engine: x.engine}, 0
			err := s.Watch(ctx, &permifypb.WatchRequest{TenantId: "t1", SnapToken: token}, func(*permifypb.WatchResponse) error {
				if sent++; sent > c.sent {
					return gone
				}
				return nil
			})
			if !errors.Is(err, gone) || sent != c.sent+1 {
				t.Errorf("watch: %v after %d messages, expected the error of the client after %d", err, sent, c.sent+1)
			}
			x.write(t, many...)
			sent = 0
			err = s.LookupEntityStream(ctx, &permifypb.PermissionLookupEntityRequest{TenantId: "t1", Metadata: &permifypb.PermissionLookupEntityRequestMetadata{Depth: 20},
				EntityType: "doc", Permission: "owner", Subject: &permifypb.Subject{Type: "user", Id: "1"}}, func(*permifypb.PermissionLookupEntityStreamResponse) error {
				if sent++; sent > 2 {
					return gone
				}
				return nil
			})
			if !errors.Is(err, gone) || sent != 3 {
				t.Errorf("stream: %v after %d entities, expected the error of the client after 3", err, sent)
			}
		})
	}
}

// TestWatchFilter shows that a watch reports what a filter removed as it was just
// before: a tuple of the write before it, too.
func TestWatchFilter(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	token := c.write(t, "doc:9#owner@user:9", "doc:9$on|boolean:true")
	if _, err := c.data.Delete(t.Context(), &permifypb.DataDeleteRequest{TenantId: "t1",
		TupleFilter:     &permifypb.TupleFilter{Entity: &permifypb.EntityFilter{Type: "doc"}},
		AttributeFilter: &permifypb.AttributeFilter{Entity: &permifypb.EntityFilter{Type: "doc"}}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stream, err := c.watch.Watch(ctx, &permifypb.WatchRequest{TenantId: "t1", SnapToken: token})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, change := range m.Changes.DataChanges {
		got = append(got, changeLine(change))
	}
	if fmt.Sprint(got) != "[-doc:9#owner@user:9 -doc:9$on]" {
		t.Error(got)
	}
}
