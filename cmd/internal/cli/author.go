package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/storage"
)

// headerReason is the header with the reason of the writes of a request.
const headerReason = "Ostiary-Reason"

// authored returns the context of a command, whose writes have --reason and a
// caller for work without an authenticated one.
func (a *App) authored(cmd *cobra.Command) (context.Context, error) {
	o := storage.Origin{Caller: storage.CallerLocal, Reason: a.reason}
	if cmd.Name() == "import" {
		o.Caller = storage.CallerImport
	}
	if n := len(o.Reason); n > storage.ReasonBytesMax {
		return nil, fmt.Errorf("%w: --reason has %d bytes, expected at most %d", ErrUsage, n, storage.ReasonBytesMax)
	}
	if why := o.Invalid(); why != "" {
		return nil, fmt.Errorf("%w: invalid --reason: %s", ErrUsage, why)
	}
	return authz.WithAuthor(cmd.Context(), &authz.Author{Name: o.Caller, Reason: o.Reason}), nil
}

// OriginText returns the caller and the reason as the end of a line, as far as they are
// known.
func OriginText(o *native.OriginJSON) string {
	s := ""
	if o.Caller != "" {
		s += "  by " + o.Caller
	}
	if o.Reason != "" {
		s += "  reason: " + o.Reason
	}
	return s
}
