package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/trail/audit"
)

const (
	// logLinesMax bounds the lines of a page of a log, and logLinesDefault is how many it has.
	logLinesMax, logLinesDefault = 1000, 100
	// logReadMax bounds how much of a log one request reads, and logPageMax the bytes of a page,
	// which has one line more at most.
	logReadMax, logPageMax = 4 << 20, 1 << 20
)

// logQuery selects lines of a log of this node.
type logQuery struct {
	limit        int
	cursor       string
	since, until time.Time
	// is has the values that members must have, by the names of the request.
	is map[string]string
}

// logLine is what is selected by, of a line of either log.
type logLine struct {
	Number    uint64    `json:"number"` // 0 in the decision log
	Time      time.Time `json:"time"`
	Kind      string    `json:"kind"`
	Door      string    `json:"door"`
	Operation string    `json:"operation"`
	Outcome   string    `json:"outcome"`
	Store     string    `json:"store"`
	Changes   []struct {
		Store string `json:"store"`
	} `json:"changes"`
	// Caller is a text in the decision log, and an object with an id in the audit log.
	Caller json.RawMessage `json:"caller"`

	ID        string    `json:"decision_id"`
	Timestamp time.Time `json:"timestamp"`
	Input     struct {
		Subject  string `json:"subject"`
		Relation string `json:"relation"`
		Object   string `json:"object"`
	} `json:"input"`
	Result *bool `json:"result"`
}

// caller returns the caller of a line.
func (l *logLine) caller() (id string) {
	var of struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(l.Caller, &id) == nil {
		return id
	}
	_ = json.Unmarshal(l.Caller, &of) // a line may have no caller
	return of.ID
}

// has reports whether a member has a value.
func (l *logLine) has(name, value string) bool {
	switch name {
	case "id":
		return l.ID == value
	case "subject":
		return l.Input.Subject == value
	case "relation":
		return l.Input.Relation == value
	case "object":
		return l.Input.Object == value
	case "result":
		return l.ID != "" && (l.Result == nil && value == "unknown" || l.Result != nil && strconv.FormatBool(*l.Result) == value)
	case "caller":
		return l.caller() == value
	case "kind":
		return l.Kind == value
	case "door":
		return l.Door == value
	case "operation":
		return l.Operation == value
	case "outcome":
		return l.Outcome == value
	case "store":
		for i := range l.Changes {
			if l.Changes[i].Store == value {
				return true
			}
		}
		return l.Store == value
	}
	return false
}

// read reads one member of a request. texts are the names of the members that are texts.
func (q *logQuery) read(r *jsonread.Reader, texts ...string) {
	name := string(r.Name())
	if slices.Contains(texts, name) {
		q.is[name] = r.String()
		return
	}
	switch name {
	case "since":
		q.since = readTime(r)
	case "until":
		q.until = readTime(r)
	default:
		if !readPage(r, &q.limit, &q.cursor) {
			r.Unknown()
		}
	}
}

// logPage is a page of a log.
type logPage struct {
	lines []json.RawMessage
	next  string
	// searched is the time of the oldest line that was read, or nil if none was.
	searched *time.Time
}

// page reads a page of a log in a folder.
func (q *logQuery) page(folder, name string) (*logPage, error) {
	out := &logPage{lines: []json.RawMessage{}}
	parts, size := q.parts(), 0
	var oldest []byte
	next, err := audit.ReadBack(folder, name, q.cursor, logReadMax, func(text []byte) bool {
		oldest = append(oldest[:0], text...)
		var l logLine
		if !q.may(text, parts) || json.Unmarshal(text, &l) != nil || !q.selects(&l) {
			return true
		}
		out.lines = append(out.lines, bytes.Clone(text))
		size += len(text)
		return len(out.lines) < q.limit && size < logPageMax
	})
	if errors.Is(err, audit.ErrPosition) {
		return nil, &problem{status: http.StatusBadRequest, Code: "cursor", Message: "invalid cursor: expected one that a page of this log has as next"}
	}
	var l logLine
	if json.Unmarshal(oldest, &l) == nil {
		out.searched = l.time()
	}
	out.next = next
	return out, err
}

// parts returns texts that each selected line has.
func (q *logQuery) parts() (out [][]byte) {
	for member, value := range q.is {
		switch {
		case member == "result" && value == "unknown":
			out = append(out, []byte(`"result":null`))
		case member == "result":
			out = append(out, []byte(`"result":`+value))
		case plain(value):
			out = append(out, jsonread.AppendString(nil, value))
		}
	}
	return out
}

// may reports whether a line may be selected. It passes over most lines by their bytes alone,
// before they are decoded.
func (q *logQuery) may(text []byte, parts [][]byte) bool {
	for _, part := range parts {
		if !bytes.Contains(text, part) {
			return false
		}
	}
	if q.since.IsZero() && q.until.IsZero() {
		return true
	}
	const form = "2006-01-02T15:04:05" // of times in both logs, in front of the fraction
	for _, member := range []string{`"timestamp":"`, `"time":"`} {
		if _, after, found := bytes.Cut(text, []byte(member)); found && len(after) > len(form) {
			at := string(after[:len(form)])
			return (q.since.IsZero() || at >= q.since.UTC().Format(form)) && (q.until.IsZero() || at <= q.until.UTC().Format(form))
		}
	}
	return true
}

// plain reports whether every log has a text as it is.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// time returns the time of a line, or nil if it has none.
func (l *logLine) time() *time.Time {
	for _, t := range []*time.Time{&l.Timestamp, &l.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return nil
}

// ofTheLog are the kinds of records about the log itself, which are selected by their kind only.
var ofTheLog = []audit.Kind{audit.KindBegin, audit.KindHead, audit.KindEnd}

// selects reports whether a line is selected.
func (q *logQuery) selects(l *logLine) bool {
	for name, value := range q.is {
		if !l.has(name, value) {
			return false
		}
	}
	if _, given := q.is["kind"]; !given && slices.Contains(ofTheLog, audit.Kind(l.Kind)) {
		return false
	}
	t := l.time()
	return t != nil && (q.since.IsZero() || !t.Before(q.since)) && (q.until.IsZero() || t.Before(q.until))
}

// end ends the request, and sets what it does not have.
func (q *logQuery) end(r *jsonread.Reader) error {
	if q.limit == 0 {
		q.limit = logLinesDefault
	} else if q.limit > logLinesMax {
		r.FailBound("lines", logLinesMax)
	}
	for name, values := range map[string][]string{"result": {"true", "false", "unknown"}, "log": {"audit", audit.RefusalsName}} {
		if value, given := q.is[name]; given && !slices.Contains(values, value) {
			r.Fail("invalid " + name)
		}
	}
	return r.End()
}

// decisions serves Decisions: a page of the decision log of this node, with the decisions of one
// store. Its lines have callers and addresses, so it needs the right to administer the store.
func (c *call) decisions() error {
	if access := authz.AccessOf(c.Context()); access != nil {
		if err := access.Allow(c.Context(), authz.RightAdmin, c.store.Info()); err != nil {
			return err
		}
	}
	q := logQuery{is: map[string]string{}}
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		q.read(r, "id", "subject", "relation", "object", "result", "caller")
	}
	if err := q.end(r); err != nil {
		return err
	}
	if c.options.DecisionLog == "" {
		return &problem{status: http.StatusConflict, Code: "not_recorded", Message: "this server keeps no decision log in a folder: expected --decision-log FOLDER"}
	}
	q.is["store"] = c.store.ID().String()
	page, err := q.page(c.options.DecisionLog, audit.DecisionsName)
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Decisions []json.RawMessage `json:"decisions"`
		Next      string            `json:"next"`
		Searched  *time.Time        `json:"searched,omitempty"`
	}{page.lines, page.next, page.searched})
}

// audit serves Audit: a page of the audit log of this node, which is about all stores.
func (c *call) audit() error {
	if err := c.options.Callers.Administers(c.Context()); err != nil {
		return err
	}
	q := logQuery{is: map[string]string{}}
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		q.read(r, "log", "kind", "door", "operation", "outcome", "store", "caller")
	}
	if err := q.end(r); err != nil {
		return err
	}
	if c.options.AuditLog == "" {
		return &problem{status: http.StatusConflict, Code: "not_recorded", Message: "this server keeps no audit log in a folder: expected --audit-folder FOLDER"}
	}
	name := "audit"
	if q.is["log"] == audit.RefusalsName {
		name = audit.RefusalsName
	}
	delete(q.is, "log")
	page, err := q.page(c.options.AuditLog, name)
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Records  []json.RawMessage `json:"records"`
		Next     string            `json:"next"`
		Searched *time.Time        `json:"searched,omitempty"`
	}{page.lines, page.next, page.searched})
}
