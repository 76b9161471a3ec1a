package server

import (
	"sync/atomic"

	"github.com/ostiary/ostiary/expr"
)

// decisionCounts counts the decisions of one door, by their result.
type decisionCounts [len(decisionResults)]atomic.Uint64

// decisionResults are the labels of results: those of decisions by their value, then that of a
// question that could not be asked.
var decisionResults = [...]string{expr.False: "denied", expr.Unknown: "unknown", expr.True: "allowed", resultError: "error"}

const resultError = 3

// Decided counts a decision of the request, for package decisions.
func (p *passage) Decided(d expr.Tristate, err error) {
	result := int(d)
	if err != nil {
		result = resultError
	}
	if p.door != nil && result < len(p.door.decisions) {
		p.door.decisions[result].Add(1)
	}
}

// DoorName returns the name of the door of the request, for package decisions.
func (p *passage) DoorName() string {
	if p.door == nil {
		return ""
	}
	return p.door.Name
}

// decisionsOf returns the counts of a door. It makes them at the first call.
func (m *metrics) decisionsOf(door string) *decisionCounts {
	if m.decisions[door] == nil {
		m.decisions[door] = &decisionCounts{}
	}
	return m.decisions[door]
}
