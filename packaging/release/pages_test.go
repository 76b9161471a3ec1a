package main

import (
	"strings"
	"testing"
	"time"
)

// TestManual makes the page of a help that has every kind of section.
func TestManual(t *testing.T) {
	h := parseHelp(`Serve the data.
.A line that begins with a dot, and a 'quoted' word with a \.

Usage:
  ostiary serve NAME [flags]
  ostiary serve [command]

Examples:
  ostiary serve --http 127.0.0.1:8080

Available Commands:
  now        Serve it at once

Ports and doors:
      --http string   address (default "127.0.0.1:8080")
  -h, --help          help for serve

3 more flags are bounds.

Flags of every command:
      --data string   data folder
`)
	got := h.manual([]string{"ostiary", "serve"}, "Serve it", "0.1.0", time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
	want := `.TH OSTIARY\-SERVE 1 2026-11-28 "ostiary 0.1.0" "Ostiary"
.SH NAME
ostiary\-serve \- Serve it
.SH SYNOPSIS
.B ostiary serve NAME [flags]
.br
.B ostiary serve [command]
.SH DESCRIPTION
Serve the data.
.br
\&.A line that begins with a dot, and a \(aqquoted\(aq word with a \e.
.br
.SH EXAMPLES
.nf
  ostiary serve \-\-http 127.0.0.1:8080

.fi
.SH AVAILABLE COMMANDS
.TP
.B now
Serve it at once
.SH PORTS AND DOORS
.TP
.B \-\-http string
address (default "127.0.0.1:8080")
.TP
.B \-h, \-\-help
help for serve
.SH SEE ALSO
.BR ostiary (1)
`
	if got != want {
		t.Errorf("the page is\n%s\nexpected\n%s\ndifferent from\n%s", got, want, firstDifference(got, want))
	}
}

func firstDifference(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return strings.SplitN(a[i:], "\n", 2)[0]
		}
	}
	return ""
}
