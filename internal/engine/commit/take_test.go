package commit

import "testing"

// TestTake takes waiting writers for a group that has some already, at the bounds
// of a group.
func TestTake(t *testing.T) {
	for _, x := range []struct {
		name          string
		have, waiting []int // weights
		want          int   // writers that are taken
	}{
		{"nothing waits", weights(1, 5), nil, 0},
		{"all fit", weights(2, 5), weights(3, 5), 3},
		{"as many writers as fit", nil, weights(groupWritersMax, 1), groupWritersMax},
		{"more writers than fit", nil, weights(groupWritersMax+1, 1), groupWritersMax},
		{"more writers than fit beside others", weights(groupWritersMax-24, 1), weights(100, 1), 24},
		{"a full group", weights(groupWritersMax, 1), weights(3, 1), 0},
		{"as many changes as fit", weights(1, groupChangesMax-10), weights(3, 5), 2},
		{"one change too many", weights(1, groupChangesMax-9), weights(3, 5), 1},
		{"one change too many for the first", weights(1, groupChangesMax-4), weights(1, 5), 0},
		{"a large write alone", nil, weights(2, groupChangesMax+1), 1},
		{"a large write after others", nil, []int{5, groupChangesMax}, 1},
		{"a large write beside another", weights(1, 1), weights(1, groupChangesMax), 0},
	} {
		q := &Queue{shared: &Shared{}, waiting: writersOf(x.waiting)}
		all := append(writersOf(x.have), q.waiting...)
		waiting := len(q.waiting)
		got := q.take(append([]*writer(nil), all[:len(x.have)]...))
		if taken := len(got) - len(x.have); taken != x.want || len(q.waiting) != waiting-taken {
			t.Errorf("%s: takes %d of %d and leaves %d, want %d", x.name, taken, waiting, len(q.waiting), x.want)
			continue
		}
		for i, w := range append(got, q.waiting...) {
			if w != all[i] {
				t.Errorf("%s: writer %d is not in its place", x.name, i)
			}
		}
	}
}

// weights returns n equal weights.
func weights(n, weight int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = weight
	}
	return all
}

// writersOf returns writers with weights.
func writersOf(weights []int) []*writer {
	all := make([]*writer, len(weights))
	for i, n := range weights {
		all[i] = &writer{weight: n}
	}
	return all
}
