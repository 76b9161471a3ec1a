package catalog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// now is the time of all tests.
func now() time.Time { return time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC) }

func open(t *testing.T) *Catalog {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return New(e, Options{Now: now})
}

// reaches checks that an error names a bound.
func reaches(t *testing.T, err error, kind Kind, bound string) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind || !strings.Contains(e.Text, bound) {
		t.Errorf("got %v, expected the bound %s", err, bound)
	}
}

func TestEntitiesMax(t *testing.T) {
	t.Parallel()
	d := newWorld().draft(now())
	for i := range EntitiesMax {
		if err := d.place(&tosca.Entity{Section: tosca.PolicySection, Name: strconv.Itoa(i / 3), Version: fmt.Sprintf("1.0.%d", i%3)}); err != nil {
			t.Fatal(i, err)
		}
	}
	if got := d.Count(tosca.PolicySection); got != EntitiesMax {
		t.Errorf("%d entities", got)
	}
	if err := d.place(&tosca.Entity{Section: tosca.PolicySection, Name: "0", Version: "1.0.0"}); err != nil {
		t.Errorf("a replacement: %v", err)
	}
	reaches(t, d.place(&tosca.Entity{Section: tosca.PolicySection, Name: "more", Version: "1.0.0"}), Full, "EntitiesMax")
	if err := d.place(&tosca.Entity{Section: tosca.PolicyTypeSection, Name: "other", Version: "1.0.0"}); err != nil {
		t.Errorf("another section: %v", err)
	}
}

func TestGroupsMax(t *testing.T) {
	t.Parallel()
	d := newWorld().draft(now())
	group := func(i int) *Group {
		return &Group{Name: strconv.Itoa(i), Subgroups: []Subgroup{{Type: "x", Desired: 1, Supported: []ID{{"a.*", "1.0.0"}}}}}
	}
	for i := range GroupsMax {
		if err := d.changeGroup(group(i), ""); err != nil {
			t.Fatal(i, err)
		}
	}
	reaches(t, d.changeGroup(group(GroupsMax), ""), Full, "GroupsMax")
}

func TestAuditMax(t *testing.T) {
	t.Parallel()
	d := newWorld().draft(now())
	for range AuditMax + 2 {
		d.documents = nil // the linear search for a document is not what is tested
		d.record(AuditRecord{Group: "g"})
	}
	if got := len(d.Audit(AuditFilter{Max: AuditMax + 10})); got != AuditMax {
		t.Errorf("%d records, expected %d", got, AuditMax)
	}
	if len(d.removed) != 2 || d.removed[1].Key != auditKey(2) {
		t.Errorf("removed %v", d.removed)
	}
}

func TestOperationsMax(t *testing.T) {
	t.Parallel()
	c := open(t)
	end := now()
	operation := func(id string) *Operation {
		return &Operation{ID: id, Actor: "a", Operation: "o", Target: "t", Outcome: "Success", End: &end}
	}
	if err := c.History.Append(t.Context(), []*Operation{operation("first")}); err != nil {
		t.Fatal(err)
	}
	s, err := c.find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, body := OperationsMax-1, marshal(operation("more"))
	for at := 0; at < all; {
		var w authz.WriteRequest
		for range min(1000, all-at) {
			w.Documents = append(w.Documents, authz.Document{Kind: kindOperation, Key: strconv.Itoa(at), Body: body})
			at++
		}
		if _, err := s.store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.History.Append(t.Context(), []*Operation{operation("first")}); err != nil {
		t.Errorf("a replacement: %v", err)
	}
	reaches(t, c.History.Append(t.Context(), []*Operation{operation("more")}), Full, "OperationsMax")
}

func TestOperationsKept(t *testing.T) {
	t.Parallel()
	c := open(t)
	old, young := now().Add(-OperationsKept-time.Second), now().Add(-OperationsKept)
	for _, o := range []*Operation{
		{ID: "old", Actor: "a", Operation: "o", Target: "t", Outcome: "Success", End: &old},
		{ID: "young", Actor: "a", Operation: "o", Target: "t", Outcome: "Success", End: &young},
		{ID: "running", Actor: "a", Operation: "o", Target: "t", Outcome: "Started", Start: &old},
	} {
		if err := c.History.Append(t.Context(), []*Operation{o}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.History.Latest(t.Context(), 10)
	if err != nil || len(list) != 2 {
		t.Errorf("%d operations, expected those that are young or running: %v", len(list), err)
	}
	n, err := c.History.Count(t.Context(), "a", "o", "t", old, now())
	if err != nil || n != 1 {
		t.Errorf("counted %d: %v", n, err)
	}
}

func TestOperationTextMax(t *testing.T) {
	t.Parallel()
	end := now()
	o := &Operation{ID: "i", Actor: "a", Operation: "o", Target: "t", Outcome: "x", End: &end, Message: strings.Repeat("m", OperationTextMax)}
	if err := o.check(); err != nil {
		t.Error(err)
	}
	o.Message += "m"
	reaches(t, o.check(), Invalid, "OperationTextMax")
}
