package eval_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
)

// TestExplainScripts compares explanations with the scripts of testdata/explain.txtar. A
// script is a world in the oracle's language. Each question is followed by its explanation,
// as comments that begin with "#>". A line "#frontier 3" sets FrontierMax for the rest.
// OSTIARY_REWRITE=1 writes the scripts.
func TestExplainScripts(t *testing.T) {
	t.Parallel()
	const file = "testdata/explain.txtar"
	scripts, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range scripts.Files {
		t.Run(s.Name, func(t *testing.T) { scripts.Files[i].Data = []byte(explainScript(t, string(s.Data))) })
	}
	golden.Equal(t, file, string(txtar.Format(scripts)))
}

// explainScript returns a script with its current explanations.
func explainScript(t *testing.T, text string) string {
	t.Helper()
	script, err := oracle.ParseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	w := &script.World
	s := compile(t, &w.Model)
	load := graph.New(graph.Options{}).Load()
	for _, tuple := range w.Stored {
		if err := load.Add(tuple); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range w.Attributes {
		if err := load.SetAttribute(a); err != nil {
			t.Fatal(err)
		}
	}
	view, err := load.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b := eval.Bind(s, view)
	var out strings.Builder
	opts, asks := authz.ExplainOptions{}, script.Asks
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#>") {
			continue
		}
		out.WriteString(line)
		if n, ok := strings.CutPrefix(line, "#frontier "); ok {
			if opts.FrontierMax, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.HasPrefix(line, "ask ") {
			continue
		}
		x, err := b.Explain(context.Background(), view, authz.Question(asks[0].Question), envOf(w), opts)
		if err != nil || x.Answer.Decision != asks[0].Want {
			t.Errorf("%s = %s, %v; want %s", asks[0].Question, x.Answer.Decision, err, asks[0].Want)
		}
		asks = asks[1:]
		for l := range strings.Lines(x.String()) {
			out.WriteString("#> " + l)
		}
	}
	return out.String()
}
