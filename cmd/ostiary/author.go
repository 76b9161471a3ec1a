package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// headerReason is the header with the reason of the writes of a request.
const headerReason = "Ostiary-Reason"

// authored returns the context of a command, whose writes have --reason and a
// caller for work without an authenticated one.
func (a *app) authored(cmd *cobra.Command) (context.Context, error) {
	o := ostiary.Origin{Caller: ostiary.CallerLocal, Reason: a.reason}
	if cmd.Name() == "import" {
		o.Caller = ostiary.CallerImport
	}
	if n := len(o.Reason); n > ostiary.ReasonBytesMax {
		return nil, fmt.Errorf("%w: --reason has %d bytes, expected at most %d", errUsage, n, ostiary.ReasonBytesMax)
	}
	if why := o.Invalid(); why != "" {
		return nil, fmt.Errorf("%w: invalid --reason: %s", errUsage, why)
	}
	return ostiary.WithAuthor(cmd.Context(), &ostiary.Author{Origin: o}), nil
}

// originJSON is the origin of an entry in JSON: as the program prints it, and as
// the native API has it.
type originJSON struct {
	Caller  string       `json:"caller,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Request *requestJSON `json:"request,omitempty"`
}

// requestJSON is the forwarded request that an entry answers.
type requestJSON struct {
	Node   string `json:"node"`
	Number uint64 `json:"number"`
}

func originOf(o *ostiary.Origin) originJSON {
	out := originJSON{Caller: o.Caller, Reason: o.Reason}
	if o.Request != (ostiary.RequestID{}) {
		out.Request = &requestJSON{o.Request.Node.String(), o.Request.Number}
	}
	return out
}

// origin returns the origin in the engine's form.
func (o *originJSON) origin() (out ostiary.Origin, err error) {
	out.Caller, out.Reason = o.Caller, o.Reason
	if o.Request != nil {
		out.Request.Number = o.Request.Number
		out.Request.Node, err = storage.ParseNodeID(o.Request.Node)
	}
	return out, err
}

// text returns the caller and the reason as the end of a line, as far as they are
// known.
func (o *originJSON) text() string {
	s := ""
	if o.Caller != "" {
		s += "  by " + o.Caller
	}
	if o.Reason != "" {
		s += "  reason: " + o.Reason
	}
	return s
}
