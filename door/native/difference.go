package native

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// permissionChangeJSON is one gain or loss of a permission.
type permissionChangeJSON struct {
	Object  string `json:"object"`
	Subject string `json:"subject"`
	// Before and After are the decisions: "true", "false" or "unknown".
	Before string `json:"before"`
	After  string `json:"after"`
	// Everybody is true if the entry covers all subjects except those in Except.
	// Subject is then the wildcard.
	Everybody   bool         `json:"everybody,omitempty"`
	Except      []string     `json:"except,omitempty"`
	ExceptCount int          `json:"except_count,omitempty"`
	Reasons     *reasonsJSON `json:"reasons,omitempty"`
}

// permissionChanges translates the changes of a permission.
func permissionChanges(list []authz.PermissionChange) []permissionChangeJSON {
	out := make([]permissionChangeJSON, len(list))
	for i := range list {
		ch := &list[i]
		out[i] = permissionChangeJSON{ch.Object.String(), ch.Subject.String(), truthText(ch.Before), truthText(ch.After), ch.AllOthers,
			subjectTexts(ch.Subject.Type, ch.Subject.Relation, ch.Except), ch.ExceptCount, reasonsOf(ch.Reasons)}
	}
	return out
}

// difference serves Difference: who gained and who lost a permission between
// two revisions.
func (c *call) difference() error {
	var q authz.DifferenceRequest
	var from, to bool
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "from":
			q.From, from = readAt(r), true
		case "to":
			q.To, to = readAt(r), true
		case "schema":
			q.SchemaID = r.String()
		case "context":
			q.Context = r.Values()
		default:
			if !readPage(r, &q.Limit, &q.Cursor) && !readPermission(r, &q.PermissionSelector) {
				r.Unknown()
			}
		}
	}
	if q.Cursor == "" && (!from || !to) {
		r.Fail("expected from and to, or a cursor")
	}
	requirePermission(r, &q.PermissionSelector)
	if err := r.End(); err != nil {
		return err
	}
	d, err := c.store.Difference(c.Context(), q)
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Changes   []permissionChangeJSON `json:"changes"`
		Next      string                 `json:"next"`
		Undecided int                    `json:"undecided"`
		From      string                 `json:"from"`
		To        string                 `json:"to"`
	}{permissionChanges(d.Changes), d.Next, d.UnknownCount, string(d.From), string(d.To)})
}

// readPermission reads one member of a permission. It returns false if a
// permission has no such member.
func readPermission(r *jsonread.Reader, p *authz.PermissionSelector) bool {
	switch string(r.Name()) {
	case "object_type":
		p.ObjectType = r.String()
	case "relation":
		p.Relation = r.String()
	case "subject_type":
		p.SubjectType = r.String()
	case "subject_relation":
		p.SubjectRelation = r.String()
	case "objects":
		p.Objects = r.Strings()
	case "subjects":
		p.Subjects = r.Strings()
	default:
		return false
	}
	return true
}

// requirePermission fails if a required member of a permission is missing.
func requirePermission(r *jsonread.Reader, p *authz.PermissionSelector) {
	if p.ObjectType == "" || p.Relation == "" || p.SubjectType == "" {
		r.Fail("expected object_type, relation and subject_type")
	}
}

// watchPermission serves WatchPermission: the changes of a permission as they
// happen.
func (c *call) watchPermission() error {
	values, err := c.QueryOf("object_type", "relation", "subject_type", "subject_relation", "object...", "subject...", "context", "after")
	if err != nil {
		return err
	}
	q := authz.WatchPermissionRequest{After: c.startToken(values.Get("after")), PermissionSelector: authz.PermissionSelector{
		ObjectType: values.Get("object_type"), Relation: values.Get("relation"), SubjectType: values.Get("subject_type"),
		SubjectRelation: values.Get("subject_relation"), Objects: values["object"], Subjects: values["subject"]}}
	if q.ObjectType == "" || q.Relation == "" || q.SubjectType == "" {
		return invalidRequest("expected object_type, relation and subject_type")
	}
	if text := values.Get("context"); text != "" {
		r := jsonread.New([]byte(text))
		q.Context = r.Values()
		if err := r.End(); err != nil {
			return invalidRequest("invalid context: expected a JSON object: " + err.Error())
		}
	}
	if q.After == "" {
		// Without a start, the watch reports everything that is written after
		// the start of the response.
		if q.After, err = c.store.Head(c.Context()); err != nil {
			return err
		}
	}
	// Comparing a revision with itself finds every error of the request before
	// the response begins.
	at := authz.AtExactly(q.After)
	if _, err := c.store.Difference(c.Context(), authz.DifferenceRequest{PermissionSelector: q.PermissionSelector, From: at, To: at, Context: q.Context}); err != nil {
		return err
	}
	if n := len(q.Objects) + len(q.Subjects); n == 0 || n > authz.WatchNamesMax {
		return invalidRequest("expected 1 to " + strconv.Itoa(authz.WatchNamesMax) + " objects or subjects")
	}
	watch := func(ctx context.Context) iter.Seq2[authz.PermissionUpdate, error] {
		return c.store.WatchPermission(ctx, q)
	}
	return sendEvents(c.Context(), c.W, watch, func(u *authz.PermissionUpdate) event {
		return event{id: string(u.Token), name: "permission", size: len(u.Changes) * bytesPerChange, data: func() any {
			return struct {
				Revision  uint64                 `json:"revision"`
				Time      time.Time              `json:"time"`
				Token     string                 `json:"token"`
				Changes   []permissionChangeJSON `json:"changes"`
				Undecided int                    `json:"undecided"`
			}{uint64(u.Revision), u.Time, string(u.Token), permissionChanges(u.Changes), u.UnknownCount}
		}}
	})
}
