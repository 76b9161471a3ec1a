package doortest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	// methodGRPC is the method of a step that calls a gRPC service.
	methodGRPC = "GRPC"
	lineAnswer = "----"
	lineStep   = "===="
)

// script is a session.
type script struct{ steps []step }

// step is a request and its expected answer.
type step struct {
	line     int // where it begins, from 1
	comments []string
	method   string
	path     string
	headers  []header
	hasBody  bool
	body     string // without the line end at its end

	status      string
	wantHeaders []header
	wantsBody   bool
	wantBody    string
}

type header struct{ name, value string }

// answer is what a door said.
type answer struct {
	status string
	header http.Header
	body   string
}

// String shows an answer as a script would have it, with every header.
func (a *answer) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for name, values := range a.header {
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&b, "\n%s", a.body)
	return b.String()
}

func httpStatus(code int) string { return strconv.Itoa(code) }

// parse reads a script.
func parse(text string) (*script, error) {
	sc := &script{}
	line := 1
	for _, part := range splitLines(text, lineStep) {
		st, err := parseStep(part, line)
		if err != nil {
			return nil, fmt.Errorf("step at line %d: %w", line, err)
		}
		sc.steps = append(sc.steps, st)
		line += strings.Count(part, "\n") + 1
	}
	return sc, nil
}

// splitLines cuts a text at lines that are sep.
func splitLines(text, sep string) (parts []string) {
	var part strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, "\r\n \t") == sep {
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		part.WriteString(line)
	}
	return append(parts, part.String())
}

func parseStep(text string, line int) (st step, err error) {
	st.line = line
	halves := splitLines(text, lineAnswer)
	if len(halves) != 2 {
		return st, fmt.Errorf("wants one line of %s, has %d", lineAnswer, len(halves)-1)
	}
	lines := linesOf(halves[0])
	for len(lines) > 0 && (strings.HasPrefix(lines[0], "#") || strings.TrimSpace(lines[0]) == "") {
		st.comments = append(st.comments, strings.TrimRight(lines[0], " \t"))
		lines = lines[1:]
		st.line++
	}
	if len(lines) == 0 {
		return st, fmt.Errorf("no request")
	}
	var ok bool
	if st.method, st.path, ok = strings.Cut(lines[0], " "); !ok || st.method == "" || !strings.HasPrefix(st.path, "/") && !strings.HasPrefix(st.path, "${") ||
		strings.ContainsAny(st.path, " \t") {
		return st, fmt.Errorf("request %q is not \"METHOD /path\"", lines[0])
	}
	if st.headers, st.hasBody, st.body, err = parseMessage(lines[1:]); err != nil {
		return st, err
	}
	lines = linesOf(halves[1])
	if len(lines) == 0 {
		return st, nil // a status that OSTIARY_REWRITE is to fill in
	}
	if st.status = strings.TrimSpace(lines[0]); strings.ContainsAny(st.status, " \t") {
		return st, fmt.Errorf("status %q is not one word", lines[0])
	}
	st.wantHeaders, st.wantsBody, st.wantBody, err = parseMessage(lines[1:])
	return st, err
}

func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// parseMessage reads headers, a blank line and a body.
func parseMessage(lines []string) (headers []header, hasBody bool, body string, err error) {
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			return headers, true, strings.TrimRight(strings.Join(lines[i+1:], "\n"), " \t\n"), nil
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, false, "", fmt.Errorf("header %q is not \"Name: value\"", line)
		}
		headers = append(headers, header{name, strings.TrimSpace(value)})
	}
	return headers, false, "", nil
}

// String prints a script so that parse reads it back.
func (sc *script) String() string {
	var b strings.Builder
	for i := range sc.steps {
		if i > 0 {
			fmt.Fprintln(&b, lineStep)
		}
		st := &sc.steps[i]
		for _, c := range st.comments {
			fmt.Fprintln(&b, c)
		}
		fmt.Fprintf(&b, "%s %s\n", st.method, st.path)
		printMessage(&b, st.headers, st.hasBody, st.body)
		fmt.Fprintln(&b, lineAnswer)
		if st.status != "" {
			fmt.Fprintln(&b, st.status)
			printMessage(&b, st.wantHeaders, st.wantsBody, st.wantBody)
		}
	}
	return b.String()
}

func printMessage(b *strings.Builder, headers []header, hasBody bool, body string) {
	for _, h := range headers {
		fmt.Fprintf(b, "%s: %s\n", h.name, h.value)
	}
	if hasBody {
		fmt.Fprintln(b)
		if body != "" {
			fmt.Fprintln(b, body)
		}
	}
}
