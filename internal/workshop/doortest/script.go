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
	// responseLine separates the request from the expected response.
	responseLine = "----"
	// stepLine separates steps.
	stepLine = "===="
)

// script is a parsed file.
type script struct{ steps []step }

// step is a request and its expected response.
type step struct {
	// line is the line of the file that the step begins in, from 1.
	line int
	// comments are the lines above the request.
	comments []string
	// method is an HTTP method or methodGRPC.
	method string
	// path is the path with its query or, for gRPC, "/package.Service/Method".
	path    string
	headers []header
	// hasBody is true if the request has a body; body is without its final line
	// end.
	hasBody bool
	body    string

	// status is the expected HTTP status, or the name or number of a gRPC code.
	status string
	// wantHeaders are the headers to compare.
	wantHeaders []header
	// comparesBody is true if the response's body must equal wantBody.
	comparesBody bool
	wantBody     string
}

// header is one line of headers.
type header struct{ name, value string }

// response is a door's response, over HTTP or gRPC.
type response struct {
	// status has the form of step.status.
	status string
	header http.Header
	body   string
}

// String formats a response as a script shows it, with all headers.
func (a *response) String() string {
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

// parse reads a script. An error names the line of the step.
func parse(text string) (*script, error) {
	sc := &script{}
	line := 1
	for _, part := range splitLines(text, stepLine) {
		st, err := parseStep(part, line)
		if err != nil {
			return nil, fmt.Errorf("step at line %d: %w", line, err)
		}
		sc.steps = append(sc.steps, st)
		line += strings.Count(part, "\n") + 1
	}
	return sc, nil
}

// splitLines splits a text at the lines that equal sep.
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

// parseStep reads one step that begins at line.
func parseStep(text string, line int) (st step, err error) {
	st.line = line
	halves := splitLines(text, responseLine)
	if len(halves) != 2 {
		return st, fmt.Errorf("found %d lines of %s, expected one", len(halves)-1, responseLine)
	}
	lines := linesOf(halves[0])
	for len(lines) > 0 && (strings.HasPrefix(lines[0], "#") || strings.TrimSpace(lines[0]) == "") {
		st.comments = append(st.comments, strings.TrimRight(lines[0], " \t"))
		lines = lines[1:]
		st.line++
	}
	if len(lines) == 0 {
		return st, fmt.Errorf("expected a request, found only comments")
	}
	var ok bool
	if st.method, st.path, ok = strings.Cut(lines[0], " "); !ok || st.method == "" || !strings.HasPrefix(st.path, "/") && !strings.HasPrefix(st.path, "${") ||
		strings.ContainsAny(st.path, " \t") {
		return st, fmt.Errorf("invalid request %q: expected \"METHOD /path\"", lines[0])
	}
	if st.headers, st.hasBody, st.body, err = parseMessage(lines[1:]); err != nil {
		return st, err
	}
	lines = linesOf(halves[1])
	if len(lines) == 0 {
		return st, nil // OSTIARY_REWRITE fills in the status
	}
	if st.status = strings.TrimSpace(lines[0]); strings.ContainsAny(st.status, " \t") {
		return st, fmt.Errorf("invalid status %q: expected one word", lines[0])
	}
	st.wantHeaders, st.comparesBody, st.wantBody, err = parseMessage(lines[1:])
	return st, err
}

// linesOf returns the lines of a text without their line ends.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}

// parseMessage reads headers and, after a blank line, a body.
func parseMessage(lines []string) (headers []header, hasBody bool, body string, err error) {
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			return headers, true, strings.TrimRight(strings.Join(lines[i+1:], "\n"), " \t\n"), nil
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, false, "", fmt.Errorf("invalid header %q: expected \"Name: value\"", line)
		}
		headers = append(headers, header{name, strings.TrimSpace(value)})
	}
	return headers, false, "", nil
}

// String formats a script. parse reads the result back.
func (sc *script) String() string {
	var b strings.Builder
	for i := range sc.steps {
		if i > 0 {
			fmt.Fprintln(&b, stepLine)
		}
		st := &sc.steps[i]
		for _, c := range st.comments {
			fmt.Fprintln(&b, c)
		}
		fmt.Fprintf(&b, "%s %s\n", st.method, st.path)
		printMessage(&b, st.headers, st.hasBody, st.body)
		fmt.Fprintln(&b, responseLine)
		if st.status != "" {
			fmt.Fprintln(&b, st.status)
			printMessage(&b, st.wantHeaders, st.comparesBody, st.wantBody)
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
