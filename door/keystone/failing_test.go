package keystone_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/storage/failing"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestToursFail plays the tours again. It sends each request again and again, each
// time with another interruption before the request changes anything: another
// operation of the storage fails, or the context of the request ends at another
// moment. The last time there is none. An interrupted request must be answered with
// an error of the server, or with its whole response if the context ended too late.
// The request that is not interrupted must get the response of the tour.
func TestToursFail(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.tour")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tours: %v", err)
	}
	for _, file := range files {
		for how, interrupt := range map[string]func(*interrupted, int){"storage": (*interrupted).breakStorage, "context": (*interrupted).endContext} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".tour")+"/"+how, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				x := &interrupted{interrupt: interrupt, storage: how == "storage"}
				x.driver = failing.New(memory.New())
				x.tour = newTour(t, x.driver)
				x.ending = &ending{Context: t.Context(), driver: x.driver}
				x.ctx = x.ending
				x.play(string(text))
				if x.hits == 0 {
					t.Error("no request was interrupted")
				}
				t.Logf("%d requests were interrupted", x.hits)
			})
		}
	}
}

// interrupted is a tour whose requests are interrupted.
type interrupted struct {
	*tour
	driver    *failing.Driver
	ending    *ending
	interrupt func(x *interrupted, n int) // interrupts the next request at the n-th moment
	storage   bool                        // operations of the storage fail; otherwise the context ends
	hits      int                         // requests that were interrupted
}

// ending is a context that ends when Err is called for the n-th time before data is
// changed; 0 means never.
type ending struct {
	context.Context
	driver   *failing.Driver
	n, calls atomic.Int64
}

func (e *ending) Err() error {
	if n := e.n.Load(); n > 0 && !e.driver.Wrote() && e.calls.Add(1) >= n {
		return context.Canceled
	}
	return e.Context.Err()
}

func (x *interrupted) breakStorage(n int) { x.driver.Break(failing.Fault{Number: n, Unchanged: true}) }

func (x *interrupted) endContext(n int) {
	x.driver.Break(failing.Fault{})
	x.ending.calls.Store(0)
	x.ending.n.Store(int64(n))
}

// hit ends the interruption. It returns what was interrupted, or "".
func (x *interrupted) hit() string {
	if !x.storage {
		n := x.ending.n.Swap(0)
		if x.ending.calls.Load() < n {
			return ""
		}
		return fmt.Sprintf("check %d of the context", n)
	}
	hit, _ := x.driver.Mend()
	if hit == failing.CloseState {
		return ""
	}
	return string(hit)
}

// play plays the text of a tour.
func (x *interrupted) play(text string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "" || line[0] == '#' || line[0] == '\t' {
			continue
		}
		end := i + 1
		for end < len(lines) && strings.HasPrefix(lines[end], "\t") {
			end++
		}
		want := strings.Join(lines[i+1:end], "\n") + "\n"
		for n := 1; ; n += 1 + n/8 { // later moments are a sample
			a, name, hit, broken := x.try(line, n)
			if hit == "" {
				if name != "" {
					x.set(name, a)
				}
				if got := x.answer(a); got != want {
					x.t.Fatalf("%s\n%s, want\n%s", line, got, want)
				}
				break
			}
			x.hits++
			switch got := x.answer(a); {
			case broken, a.status >= http.StatusInternalServerError && !strings.Contains(a.text, failing.ErrInjected.Error()):
			case x.storage && a.status < 300:
				x.t.Errorf("%s: %d, but %s failed", line, a.status, hit)
			case got != want && name == "":
				x.t.Errorf("%s, interrupted at %s: got\n%s, want an error of the server or\n%s", line, hit, got, want)
			}
		}
	}
}

// try sends the request of a line and interrupts it at the n-th moment. broken is true
// if the response broke off.
func (x *interrupted) try(line string, n int) (a answer, name, hit string, broken bool) {
	defer func() {
		if e := recover(); e != nil {
			if e != any(http.ErrAbortHandler) {
				panic(e)
			}
			hit, broken = x.hit(), true
		}
	}()
	x.interrupt(x, n)
	a, name = x.send(line)
	return a, name, x.hit(), false
}
