package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// refuse adds a refused write of a caller to a trail.
func refuse(trail *audit.Trail, caller, why string, outcome audit.Outcome) {
	_ = trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindWrite, Door: "native", Operation: "Write",
		Caller: audit.Caller{ID: caller}, From: "10.0.0.1:1", Outcome: outcome, Status: "403", Why: why})
}

// TestOneCallerRefused refuses many writes of a known caller, with as many reasons. It has a
// bounded number of lines in a minute, each refusal is counted, and so are those of further
// callers; another caller has records of its own.
func TestOneCallerRefused(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l, err := audit.OpenStream(&b, audit.Options{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		trail := audit.NewTrail(false, l)
		for i := range 10_000 {
			refuse(trail, "reader", fmt.Sprint("store ", i), audit.Refused)
			refuse(trail, "reader", "not valid", audit.Rejected)
		}
		refuse(trail, "other", "not allowed", audit.Refused)
		for i := range 4000 {
			refuse(trail, fmt.Sprint("many", i), "not allowed", audit.Refused)
		}
		if err := trail.Close(); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b.Bytes(), []byte(`"id":"reader"`)); n > 103 || n < 100 {
			t.Errorf("%d lines of the caller", n)
		}
		for text, want := range map[string]int{`"id":"other"`: 1, `"count":9999,`: 1, `"id":"further callers"`: 1, `"kind":"write"`: 1100} {
			if n := bytes.Count(b.Bytes(), []byte(text)); n < want || n > 2*want {
				t.Errorf("%d lines with %s, want %d", n, text, want)
			}
		}
		total := 0
		for line := range strings.Lines(b.String()) {
			if _, rest, counted := strings.Cut(line, `"count":`); counted {
				n := 0
				fmt.Sscan(strings.Split(rest, ",")[0], &n)
				total += n
			} else if strings.Contains(line, `"outcome"`) {
				total++
			}
		}
		if total != 24_001 {
			t.Errorf("the records count %d refusals, want 24,001", total)
		}
		if n := bytes.Count(b.Bytes(), []byte("\n")); n > 4100 {
			t.Errorf("%d lines", n)
		}
	})
}

// TestRefusalsHaveTheirShare refuses so many requests that a folder must remove files. What
// was done before is still there, and both logs are whole.
func TestRefusalsHaveTheirShare(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	r := audit.Rotation{FileBytes: 4 << 10, Files: 3}
	open := func(name string, r audit.Rotation) *audit.Log {
		l, err := audit.OpenFolder(folder, r, audit.Options{Key: key, Name: name, Required: true})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	trail := audit.NewTrail(true, open("", r))
	trail.KeepRefusals(open(audit.RefusalsName, r.OfRefusals()))
	if err := trail.Record(record(4711)); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		refuse(trail, fmt.Sprint("reader", i), "not allowed", audit.Refused)
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	files := names(t, folder)
	data, err := os.ReadFile(files[0])
	if err != nil || len(files) != 1 || !bytes.Contains(data, []byte(`"r4711"`)) || bytes.Contains(data, []byte("reader")) {
		t.Errorf("the log has %d files, %v:\n%s", len(files), err, data)
	}
	refusals, err := audit.FolderOf(folder, audit.RefusalsName)
	if err != nil || len(refusals) != 2 {
		t.Errorf("%d files of refusals, %v, want 2", len(refusals), err)
	}
	if found := verify(t, public, false, files...) + verify(t, public, false, refusals...); found != "" {
		t.Errorf("findings: %s", found)
	}
}
