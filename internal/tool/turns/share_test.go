package turns

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// limit returns the share of requests of a limit.
func limit(perSecond, burst int64) *Share {
	s, _ := (&Limits{Requests: &Rate{perSecond, burst}}).Shares()
	return s
}

// processor returns the share of processor time of a limit.
func processor(perSecond, burst int64) *Share {
	_, s := (&Limits{ProcessorMillis: &Rate{perSecond, burst}}).Shares()
	return s
}

// TestShareRandom takes from random shares at random times, which also jump back. What is taken
// is at most the burst and what the rate gives for the time that has passed, a use that is
// refused is refused again until the time that it names, and no jump blocks a share for longer
// than a minute and the time of its burst.
func TestShareRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 42))
		rate, burst := 1+r.Int64N(1<<r.IntN(20)), 1+r.Int64N(1<<r.IntN(12))
		s := limit(rate, burst)
		now, passed, taken := r.Int64N(1<<60), int64(0), int64(0)
		for range 2000 {
			switch r.IntN(20) {
			case 0:
				now -= r.Int64N(int64(time.Hour))
			case 1, 2, 3:
				step := r.Int64N(int64(time.Second))
				now, passed = now+step, passed+step
			case 4:
				step := r.Int64N(s.full + 1)
				now, passed = now+step, passed+step
			}
			after, ok := s.Take(now)
			if ok {
				taken++
			}
			if float64(taken) > float64(burst)+float64(rate)*float64(passed)/1e9+1e-6*float64(taken) {
				t.Fatalf("seed %d: %d are taken in %v, of %d a second with a burst of %d", seed, taken, time.Duration(passed), rate, burst)
			}
			if ok {
				continue
			}
			if int64(after) > s.full+late || after <= 0 {
				t.Fatalf("seed %d: refused for %v, the burst takes %v", seed, after, time.Duration(s.full))
			}
			if _, again := s.Take(now + int64(after) - 1); again {
				t.Fatalf("seed %d: taken before the time that the refusal named", seed)
			}
			if r.IntN(2) == 0 {
				now, passed = now+int64(after), passed+int64(after)
				if _, ok := s.Take(now); !ok {
					t.Fatalf("seed %d: refused at the time that the refusal named", seed)
				}
				taken++
			}
		}
	}
}

// TestShareLate takes with times that were read a little earlier: they make nothing free.
func TestShareLate(t *testing.T) {
	t.Parallel()
	s := limit(100, 10)
	taken := 0
	for i := range int64(1000) {
		for _, now := range []int64{i * int64(time.Millisecond), i*int64(time.Millisecond) - int64(time.Second)} {
			if _, ok := s.Take(now); ok {
				taken++
			}
		}
	}
	if taken != 10+99 {
		t.Errorf("%d are taken in a second, of 100 with a burst of 10", taken)
	}
}

// TestShareAll takes each whole burst, and again after the time of it: no rate loses one.
func TestShareAll(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{1, 2, 3, 7, 100, 999, 1000, PerSecondMax} {
		s := limit(rate, 10)
		for now := int64(5); now < int64(time.Hour); now += int64(20 * time.Minute) {
			for i := range 11 {
				if _, ok := s.Take(now); ok != (i < 10) {
					t.Errorf("%d a second: request %d at once is taken: %t", rate, i+1, ok)
				}
			}
		}
		if s.Return(); s.Used(5+int64(40*time.Minute)) != 9 {
			t.Errorf("%d a second: after one of ten is returned, %d are used", rate, s.Used(5+int64(40*time.Minute)))
		}
	}
}

// TestShareZero: a rate of 0 allows nothing, at no time.
func TestShareZero(t *testing.T) {
	t.Parallel()
	s, p := limit(0, 5), processor(0, 5)
	for _, now := range []int64{0, 1 << 61, -1 << 61} {
		if after, ok := s.Take(now); ok || after != 0 {
			t.Errorf("a request is taken: %t, %v", ok, after)
		}
		if after, ok := p.Left(now); ok || after != 0 || p.Charge(now, 1) {
			t.Errorf("processor time is left: %t, %v", ok, after)
		}
	}
}

// TestShareProcessor charges work that has run. What is owed never exceeds a burst, so that
// nothing is blocked for longer than it takes to make up for one.
func TestShareProcessor(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 43))
		rate, burst := 1+r.Int64N(1<<r.IntN(14)), 1+r.Int64N(1<<r.IntN(14))
		s := processor(rate, burst)
		now, charged, passed := int64(0), int64(0), int64(0)
		for range 1000 {
			step := r.Int64N(int64(100 * time.Millisecond))
			now, passed = now+step, passed+step
			after, ok := s.Left(now)
			if !ok {
				if int64(after) > s.full+1 || after <= 0 {
					t.Fatalf("seed %d: blocked for %v, the burst takes %v", seed, after, time.Duration(s.full))
				}
				if _, ok := s.Left(now + int64(after)); !ok {
					t.Fatalf("seed %d: nothing is left at the time that was named", seed)
				}
				continue
			}
			n := r.Int64N(burst*int64(time.Millisecond) + 1)
			if !s.Charge(now, n) {
				t.Fatalf("seed %d: work that began with something left, and used no more than a burst, owes more than a burst", seed)
			}
			charged += n
			if most := float64(2*burst)*1e6 + float64(rate)*float64(passed)/1e3; float64(charged) > most {
				t.Fatalf("seed %d: %v are used in %v, of %d ms a second with a burst of %d ms", seed, time.Duration(charged), time.Duration(passed), rate, burst)
			}
		}
		if s.Charge(now, 1<<60) {
			t.Fatalf("seed %d: 36 years of work do not exceed the burst", seed)
		}
		if after, ok := s.Left(now); ok || int64(after) > s.full+1 {
			t.Fatalf("seed %d: after 36 years of work, blocked for %v, the burst takes %v", seed, after, time.Duration(s.full))
		}
	}
}

// TestLimitsCheck checks limits at their bounds and above.
func TestLimitsCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate Rate
		ok   bool
	}{{Rate{0, 0}, true}, {Rate{PerSecondMax, BurstMax}, true}, {Rate{PerSecondMax + 1, 0}, false}, {Rate{1, BurstMax + 1}, false},
		{Rate{-1, 0}, false}, {Rate{1, -1}, false}, {Rate{1 << 62, 1 << 62}, false}} {
		for _, l := range []Limits{{Requests: &c.rate}, {ProcessorMillis: &c.rate}} {
			if err := l.Check(); (err == nil) != c.ok {
				t.Errorf("%s: %v, want an error: %t", l.String(), err, !c.ok)
			}
		}
	}
	if l := (Limits{Requests: &Rate{100, 200}, ProcessorMillis: &Rate{250, 0}}); l.String() != "requests 100:200, processor 250" || (&Limits{}).String() != "none" {
		t.Errorf("limits as text: %s", l.String())
	}
}

// TestMeasure measures work that runs, waits for a turn, pauses and waits for the disk.
func TestMeasure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := New(1)
		ctx, work := With(t.Context(), all)
		used := func(what string, want time.Duration) {
			t.Helper()
			if got := work.Used(); got != want {
				t.Errorf("%s: %v used, want %v", what, got, want)
			}
		}
		time.Sleep(time.Second)
		used("not measured", 0)
		work.Measure()
		time.Sleep(time.Second)
		used("runs", time.Second)
		used("again", 0)
		work.Wait()
		time.Sleep(time.Second)
		used("waits for the disk", 0)
		work.Resume()
		time.Sleep(time.Second)
		Pause(ctx)
		time.Sleep(time.Second)
		used("runs and pauses", time.Second)
		other, held := With(t.Context(), all)
		if err := Hold(other); err != nil {
			t.Fatal(err)
		}
		work.Resume()
		time.AfterFunc(time.Minute, held.End)
		time.Sleep(time.Second)
		if err := Hold(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		used("waits a minute for a turn", 2*time.Second)
		work.End()
	})
}
