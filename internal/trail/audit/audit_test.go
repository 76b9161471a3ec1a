package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// newKey returns a key pair and the file of the public key.
func newKey(t *testing.T) (ed25519.PrivateKey, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.key")
	key, err := audit.Key(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := audit.Key(file)
	if err != nil || !again.Equal(key) {
		t.Fatalf("the key is not read again: %v", err)
	}
	return key, file + ".pub"
}

func record(n int) *audit.Record {
	return &audit.Record{Time: time.Now(), Kind: audit.KindWrite, Door: "openfga", Operation: "Write", Method: "POST",
		Caller: audit.Caller{Method: "preshared", ID: "ci"}, From: "10.0.0.1:4711", Request: fmt.Sprint("r", n), Store: "s",
		Changes: []audit.Change{{Store: "s", Revision: uint64(n)}}, Outcome: audit.Made, Status: "200", Reason: "ticket 7"}
}

// write writes n records to a new or a continued log of a folder, and closes it.
func write(t *testing.T, folder string, key ed25519.PrivateKey, r audit.Rotation, n int) {
	t.Helper()
	l, err := audit.OpenFolder(folder, r, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := l.Append(record(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	all, err := audit.Folder(folder)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// verify verifies files with both programs, which must agree. It returns the findings.
func verify(t *testing.T, public string, running bool, files ...string) string {
	t.Helper()
	data, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := audit.ParsePublic(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Verify(files, audit.VerifyOptions{Keys: []ed25519.PublicKey{key}, Running: running})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range got.Findings {
		fmt.Fprintln(&text, f)
	}
	python(t, func(t *testing.T, python string) {
		args := []string{"../../../examples/audit/verify.py", "--key", public}
		if running {
			args = append(args, "--running")
		}
		out, err := exec.Command(python, append(args, files...)...).CombinedOutput()
		if (err == nil) != (len(got.Findings) == 0) {
			t.Errorf("the Go program finds\n%sand the Python program:\n%s", text.String(), out)
		}
	})
	return text.String()
}

// python runs what needs python3 as a test of its own, which is skipped without it.
func python(t *testing.T, test func(t *testing.T, python string)) {
	t.Helper()
	t.Run("python", func(t *testing.T) {
		path, err := servers.Find("python3")
		if err != nil {
			t.Skip(err)
		}
		test(t, path)
	})
}

// TestLog writes a log that rotates and is continued, and verifies it.
func TestLog(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := filepath.Join(t.TempDir(), "audit")
	r := audit.Rotation{FileBytes: 4 << 10, Files: 4}
	write(t, folder, key, r, 20)
	if found := verify(t, public, false, names(t, folder)...); found != "" {
		t.Errorf("a new log has findings: %s", found)
	}
	write(t, folder, key, r, 20)
	all := names(t, folder)
	if len(all) != 4 {
		t.Errorf("%d files are kept, want 4", len(all))
	}
	if found := verify(t, public, false, all...); found != "" {
		t.Errorf("a log that was continued and rotated has findings: %s", found)
	}
	for _, name := range all {
		if info, err := os.Stat(name); err != nil || info.Size() > 8<<10 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if _, other := newKey(t); !strings.Contains(verify(t, other, false, all...), "no valid signature") {
		t.Error("another key verifies the log")
	}
}

// TestEveryByte flips each bit of each byte of one record, and one bit of each byte of the
// other lines. Both programs must notice.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	write(t, folder, key, audit.Rotation{}, 3)
	file := names(t, folder)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(public)
	parsed, _ := audit.ParsePublic(data)
	line := bytes.SplitAfter(whole, []byte("\n"))[2]
	start := bytes.Index(whole, line)
	for at := range whole {
		bits := []int{at % 8}
		if at >= start && at < start+len(line) {
			bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
		}
		for _, bit := range bits {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << bit
			if err := os.WriteFile(file, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := audit.Verify([]string{file}, audit.VerifyOptions{Keys: []ed25519.PublicKey{parsed}})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Findings) == 0 {
				t.Fatalf("bit %d of byte %d is flipped, and nothing is found: %q", bit, at, flipped)
			}
		}
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `
import sys; sys.path.insert(0, "../../../examples/audit")
import functools, verify
verify.signed_by = functools.lru_cache(None)(verify.signed_by) # no signed line is changed
key, file, start, end = verify.public_key(open(sys.argv[1]).read()), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
data = open(file, "rb").read()
if verify.verify([("f", data)], [key])[0]: sys.exit("the whole log has findings")
for at in range(start, end):
    flipped = bytearray(data); flipped[at] ^= 1 << at % 8
    if not verify.verify([("f", bytes(flipped))], [key])[0]: sys.exit("byte %d is flipped, and nothing is found" % at)
`
	python(t, func(t *testing.T, python string) {
		if out, err := exec.Command(python, "-c", program, public, file, fmt.Sprint(start), fmt.Sprint(start+len(line))).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestManipulations changes a log in other ways than in its bytes, and expects that both
// programs name what was done.
func TestManipulations(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	write(t, folder, key, audit.Rotation{FileBytes: 2 << 10, Files: 100}, 16)
	all := names(t, folder)
	if len(all) < 4 {
		t.Fatalf("%d files, want at least 4", len(all))
	}
	last := all[len(all)-1]
	lines := func(name string) [][]byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	}
	// with returns the files with other lines in one of them.
	with := func(name string, change func([][]byte) [][]byte) []string {
		l := lines(name)
		l[len(l)-1] = append(bytes.Clone(l[len(l)-1]), '\n')
		changed := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(changed, bytes.Join(change(l), nil), 0o600); err != nil {
			t.Fatal(err)
		}
		out := slices.Clone(all)
		out[slices.Index(out, name)] = changed
		return out
	}
	swapped := slices.Clone(all)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	for what, c := range map[string]struct {
		files []string
		want  string
	}{
		"the last record of the log":  {with(last, func(l [][]byte) [][]byte { return l[:len(l)-1] }), "its end was cut after record"},
		"a part of the last record":   {with(last, func(l [][]byte) [][]byte { l[len(l)-1] = l[len(l)-1][:20]; return l }), "not a whole line"},
		"the end of another file":     {with(all[1], func(l [][]byte) [][]byte { return l[:len(l)-2] }), "the end of " + filepath.Base(all[1]) + " was cut"},
		"only its last line":          {with(all[1], func(l [][]byte) [][]byte { return l[:len(l)-1] }), "but it had one: its end was cut"},
		"a record inside":             {with(all[1], func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }), "records are missing"},
		"the first line of a file":    {with(all[1], func(l [][]byte) [][]byte { return l[1:] }), "not with a signed first line"},
		"two records change places":   {with(all[1], func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }), "the order was changed"},
		"a record comes twice":        {with(all[1], func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[2]) }), "the order was changed"},
		"a file in the middle":        {slices.Delete(slices.Clone(all), 1, 2), "a file is missing"},
		"the first file":              {all[1:], "a file is missing"},
		"the last file":               {all[:len(all)-1], "the last file is missing"},
		"two files change places":     {swapped, "the order was changed"},
		"a file is empty":             {with(all[1], func([][]byte) [][]byte { return nil }), "the file is empty"},
		"a line of another kind":      {with(all[1], func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("{}\n")) }), "not a whole line"},
		"a record after the last one": {with(last, func(l [][]byte) [][]byte { return append(l, l[0]) }), "the order was changed"},
	} {
		found := verify(t, public, false, c.files...)
		if !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", what, found, c.want)
		}
	}
}

// TestForged replaces a record and computes all hashes again, without the key.
func TestForged(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	write(t, folder, key, audit.Rotation{}, 3)
	forger, _ := newKey(t)
	other := t.TempDir()
	write(t, other, forger, audit.Rotation{}, 3)
	if found := verify(t, public, false, names(t, other)...); !strings.Contains(found, "no valid signature") {
		t.Errorf("a forged log: %q", found)
	}
}

// TestKilled continues a log whose node was killed. The first line of the new file has
// that, so that nothing can be cut from the old one later.
func TestKilled(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	for what, c := range map[string]struct {
		cut  func([]byte) []byte
		want string
	}{
		"after a record":    {func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }, ""},
		"inside of the end": {func(b []byte) []byte { return b[:len(b)-30] }, "not a whole line"},
	} {
		folder := t.TempDir()
		write(t, folder, key, audit.Rotation{}, 5)
		file := names(t, folder)[0]
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, c.cut(data), 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, folder, key, audit.Rotation{}, 5)
		found := verify(t, public, false, names(t, folder)...)
		if c.want == "" && found != "" || !strings.Contains(found, c.want) {
			t.Errorf("killed %s: %q, want %q", what, found, c.want)
		}
		data, err = os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shorter := data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1]
		shorter = shorter[:bytes.LastIndexByte(shorter[:len(shorter)-1], '\n')+1]
		if err := os.WriteFile(file, shorter, 0o600); err != nil {
			t.Fatal(err)
		}
		if verify(t, public, false, names(t, folder)...) == "" {
			t.Errorf("killed %s: records were cut afterwards, and nothing is found", what)
		}
	}
}

// TestRunning verifies a log that is open, which no other process may open.
func TestRunning(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Append(record(1)); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, public, true, names(t, folder)...); found != "" {
		t.Errorf("a running log: %q", found)
	}
	if found := verify(t, public, false, names(t, folder)...); !strings.Contains(found, "still runs") {
		t.Errorf("a running log that is verified as a whole one: %q", found)
	}
	if _, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key}); err == nil {
		t.Error("a second process can open the log")
	}
}

// TestHostileTexts writes records with control characters, quotes, invalid UTF-8 and a
// megabyte in each text. Each is one line of JSON within its bound.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"\n{\"number\":9}", "\x00\x1b[2J\r", "\xff\xfe\"\\", strings.Repeat("é\x01", 1<<19), `","hash":"`, "\u2028\u202e"} {
		r := record(1)
		r.Operation, r.Caller.ID, r.Caller.Owner, r.From, r.Request, r.Store, r.Why, r.Reason, r.Content = text, text, text, text, text, text, text, text, text
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, public, false, names(t, folder)...); found != "" {
		t.Errorf("findings: %s", found)
	}
	data, err := os.ReadFile(names(t, folder)[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n != 8 {
		t.Errorf("%d lines, want 8", n)
	}
	if len(data) > 1<<20 {
		t.Errorf("the file has %d bytes", len(data))
	}
	for _, c := range string(data) {
		if c < ' ' && c != '\n' {
			t.Fatalf("the file has the control character %q", c)
		}
	}
	for line := range bytes.Lines(data) {
		if !json.Valid(line) {
			t.Errorf("no JSON: %.200q", line)
		}
	}
}

// TestStream writes to a stream, as to standard output.
func TestStream(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	var b bytes.Buffer
	l, err := audit.OpenStream(&b, audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	trail := audit.NewTrail(false, l)
	if err := trail.Record(record(1)); err != nil {
		t.Fatal(err)
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, public, false, file); found != "" {
		t.Errorf("findings: %s", found)
	}
	if !strings.Contains(b.String(), `"operation":"Write"`) {
		t.Errorf("the stream is %s", b.String())
	}
}

// TestAppendAtOnce adds records of many requests at once, which all wait until theirs is
// durable. It is for the race detector as well: the log tells a request about its record
// while the request begins to wait.
func TestAppendAtOnce(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	var b bytes.Buffer
	l, err := audit.OpenStream(&b, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	const requests, each = 16, 500
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			for i := range each {
				if err := l.Append(record(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `"kind":"write"`); n != requests*each {
		t.Errorf("the log has %d records, want %d", n, requests*each)
	}
}
