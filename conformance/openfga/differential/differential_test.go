package differential

import (
	"os"
	"strconv"
	"testing"
)

// TestDifferential plays OSTIARY_QUESTIONS questions (default 2,000) from
// OSTIARY_SEED on (default 1) and fails on unexplained differences,
// with their worlds. To repeat one: OSTIARY_SEED=n OSTIARY_QUESTIONS=1.
// With OSTIARY_VERBOSE it logs every difference.
func TestDifferential(t *testing.T) {
	questions, seed := setting(t, "OSTIARY_QUESTIONS", 2_000), uint64(setting(t, "OSTIARY_SEED", 1))
	ours, err := Ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	r := &Report{ByKind: map[Kind]int{}, Classes: map[Class]int{}, Examples: map[Class]string{}}
	if os.Getenv("OSTIARY_VERBOSE") != "" {
		r.Each = func(c Class, text string) { t.Logf("%s: %s", c, text) }
	}
	for r.Questions < questions && r.Classes[Unexplained] <= 20 {
		batch(t, r, ours, &seed, questions)
	}
	t.Logf("\n%s", r)
	for c, n := range r.Classes {
		if n*50 > r.Questions && r.Questions >= 1000 {
			t.Errorf("%q has %d of %d answers: too many to be an exception", c, n, r.Questions)
		}
	}
}

// batch plays some worlds on a new OpenFGA, whose memory grows with them.
func batch(t *testing.T, r *Report, ours Side, seed *uint64, questions int) {
	theirs, err := Theirs()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for n := 0; n < 500 && r.Questions < questions; n++ {
		w := Generate(*seed)
		*seed++
		bad, err := r.Play(t.Context(), w, theirs, ours)
		if err != nil {
			t.Fatalf("%v\n%s", err, w)
		}
		if len(bad) > 0 {
			for _, text := range bad {
				t.Error(text)
			}
			t.Errorf("repeat with OSTIARY_SEED=%d OSTIARY_QUESTIONS=1\n%s", w.Seed, w)
			if r.Classes[Unexplained] > 20 {
				return
			}
		}
	}
}

func setting(t *testing.T, name string, fallback int) int {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
