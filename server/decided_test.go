package server

import (
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/trail/decisions"
)

// BenchmarkDecided counts decisions of a request, which takes no memory.
func BenchmarkDecided(b *testing.B) {
	q := &request{}
	q.door = &servedDoor{Door: &door.Door{}, decisions: &decisionCounts{}}
	q.ctx.Context, q.ctx.request = httptest.NewRequest("POST", "/", nil).Context(), requestOf{q}
	b.ReportAllocs()
	for b.Loop() {
		decisions.Count(&q.ctx, expr.True, nil)
	}
	if q.door.decisions[expr.True].Load() == 0 {
		b.Fatal("no decision was counted")
	}
}
