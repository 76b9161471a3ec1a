package page_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/page"
)

// records returns made-up records of all cells. One of them has failed.
func records() (all []geo.Record) {
	for n, c := range geo.Full() {
		r := geo.Record{Cell: c, Mark: geo.Measured, Machine: "a machine", Commit: "abc", Network: "a network"}
		for _, w := range bench.RallySeven() {
			s := geo.Scenario{Result: bench.RallyResult{Workload: w, Requests: 100}, Times: w.Times}
			if n == 3 {
				r.Mark, r.Failure, s.Failure = geo.Failed, "the database <ended>", "not played"
			} else {
				for i := range 20 {
					at := float64(i)
					s.Result.Iterations = append(s.Result.Iterations, bench.Iteration{Timestamp: at, Duration: 1, Error: []string{}, Actions: []bench.Action{
						{Name: "keystone_v3.create_user", Started: at, Finished: at + .1 + float64(i)/100}, {Name: "keystone_v3.list_users", Started: at + .4, Finished: at + .5}}})
				}
				s.Result.Iterations = append(s.Result.Iterations, bench.Iteration{Error: []string{"status 503", "no <holder>"}})
			}
			r.Scenarios = append(r.Scenarios, s)
		}
		all = append(all, r)
	}
	for i := range all {
		if all[i].Cell.Instances == 45 && all[i].Cell.High && all[i].Cell.Store == geo.Galera {
			all[i].Mark = geo.Bound
		}
	}
	return all
}

func TestHTML(t *testing.T) {
	ours := slices.DeleteFunc(records(), func(r geo.Record) bool { return r.Cell.System != geo.Ostiary || r.Mark == geo.Failed })
	var b strings.Builder
	if err := page.HTML(&b, records(), ours[:2]); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for n := 19; n <= 26; n++ {
		if strings.Count(text, fmt.Sprintf("<h3 id=\"figure-%d\">", n)) != 1 {
			t.Errorf("there is no figure %d, or several", n)
		}
	}
	if got := strings.Count(text, "<svg"); got != 14 {
		t.Errorf("%d figures, expected the four, those of the appendix and two of locality", got)
	}
	for _, want := range []string{"λ 0.05", "σ 0.", "no &lt;holder&gt;", "the database &lt;ended&gt;", "45*", "(quoted)", "1 CPU-bound, 0 disturbed, 1 failed", "21 of 20", ">45<"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// Each figure is beside its name, verdicts come first, and words, machines and commits last.
	last := -1
	for _, id := range []string{"verdicts", "delay", "scale", "load", "locality", "same-database", "before", "times", "costs", "failures", "appendix", "words", "study", "machines"} {
		at := strings.Index(text, fmt.Sprintf(" id=%q>", id))
		if at <= last {
			t.Errorf("the part %q is missing or at the wrong place", id)
		}
		last = at
	}
	for _, unwanted := range []string{"NaN", "Inf", "<holder>", "<ended>"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
	// Writes are compared with those before, and reads are not.
	before := text[strings.Index(text, ` id="before"`):strings.Index(text, ` id="times"`)]
	if strings.Count(before, ": create_user<") != len(bench.RallySeven()) || strings.Contains(before, ": list_users<") || strings.Count(before, "1.0 ×") != 2*len(bench.RallySeven()) {
		t.Errorf("the writes of two cells, compared with themselves: %s", before)
	}
	// Each scenario has a row for each cell, also for the one that failed.
	if got, want := strings.Count(text, "<td>failed</td>"), 7+1; got != want {
		t.Errorf("%d rows of the failed cell, expected %d", got, want)
	}
}

// TestPictures compares the figures of docs/geo.md with those of the records in
// docs/benchmarks/geo.tar: "make geo-figures" makes them. The pictures of other processors may
// differ in a few points.
func TestPictures(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "..", "..", "docs")
	file, err := os.Open(filepath.Join(docs, "benchmarks", "geo.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder := t.TempDir()
	for archive := tar.NewReader(file); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(archive)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(head.Name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := geo.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range page.Overviews() {
		var b bytes.Buffer
		if err := page.PNG(&b, name, all); err != nil {
			t.Fatal(err)
		}
		drawn, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(docs, "geo-"+name+".png")
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := png.Decode(file)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 150_000 {
			t.Errorf("%s: %v, expected at most 150,000 bytes", path, err)
		}
		if different(drawn, kept) > 0.001 {
			t.Errorf("%s is not the figure of the records: run \"make geo-figures\"", path)
		}
	}
	if err := page.PNG(io.Discard, "speed", all); err == nil || !strings.Contains(err.Error(), "delay, scale, load, locality") {
		t.Errorf("an unknown figure: %v", err)
	}
	if err := page.PNG(io.Discard, "delay", nil); err == nil {
		t.Error("a figure of no records")
	}
}

// different returns the part of the points that differ clearly, 1 if the sizes do.
func different(a, b image.Image) float64 {
	size := a.Bounds().Size()
	if b.Bounds().Size() != size {
		return 1
	}
	n := 0
	for x := range size.X {
		for y := range size.Y {
			red, green, blue, _ := a.At(x, y).RGBA()
			red2, green2, blue2, _ := b.At(x, y).RGBA()
			for _, d := range []int{int(red) - int(red2), int(green) - int(green2), int(blue) - int(blue2)} {
				if d > 0x3000 || d < -0x3000 {
					n++
					break
				}
			}
		}
	}
	return float64(n) / float64(size.X*size.Y)
}

// TestFew draws pages of a few records.
func TestFew(t *testing.T) {
	all := records()
	for n := range []int{0, 1, 4} {
		var b strings.Builder
		if err := page.HTML(&b, all[:n], nil); err != nil {
			t.Errorf("%d records: %v", n, err)
		}
	}
	var b strings.Builder
	page.Text(&b, all)
	if got := strings.Count(b.String(), "\n"); got != len(all)+15 {
		t.Errorf("%d lines, expected a head, one for each of %d cells, and the verdicts", got, len(all))
	}
}
