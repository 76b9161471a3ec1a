package language

import (
	"context"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// progress counts the work of a parser, which ends with its context and takes turns.
type progress struct {
	ctx  context.Context
	part turns.Part
	// ended is the error of the context once the parser has noticed it.
	ended error
}

// The number of steps of turns.Part that a token of the text form, a member of a JSON
// object and an element of XML take.
const (
	stepsPerToken   = 8
	stepsPerMember  = 16
	stepsPerElement = 64
)

// step counts n steps. It returns false if the context has ended.
func (p *progress) step(n int) bool {
	if p.ended == nil {
		p.ended = p.part.Step(p.ctx, nil, n)
	}
	return p.ended == nil
}

// endedText is the text of a reader's error that only stops the reader. The parser
// returns the error of the context instead.
const endedText = "the context has ended"
