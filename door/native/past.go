package native

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
)

// permissionChangeJSON is one object and subject of a difference.
type permissionChangeJSON struct {
	Object  string `json:"object"`
	Subject string `json:"subject"`
	Before  string `json:"before"`
	After   string `json:"after"`
	// Everybody is true if the change applies to every subject that no tuple names,
	// except those in Except. Subject is the wildcard then.
	Everybody   bool         `json:"everybody,omitempty"`
	Except      []string     `json:"except,omitempty"`
	ExceptCount int          `json:"except_count,omitempty"`
	Reasons     *reasonsJSON `json:"reasons,omitempty"`
}

func permissionChanges(list []ostiary.PermissionChange) []permissionChangeJSON {
	out := make([]permissionChangeJSON, len(list))
	for i := range list {
		ch := &list[i]
		out[i] = permissionChangeJSON{ch.Object.String(), ch.Subject.String(), truthOf(ch.Before), truthOf(ch.After), ch.AllOthers,
			named(ch.Subject.Type, ch.Subject.Relation, ch.Except), ch.ExceptCount, reasonsOf(ch.Reasons)}
	}
	return out
}

// difference says who gained and who lost a permission between two revisions.
func (c *call) difference() error {
	var q ostiary.DifferenceRequest
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
		case "limit":
			q.Limit = int(r.Int(1, 1<<30))
		case "cursor":
			q.Cursor = r.String()
		default:
			if !readPermission(r, &q.PermissionSelector) {
				r.Unknown()
			}
		}
	}
	if q.Cursor == "" && (!from || !to) {
		r.Fail("from and to are wanted, or a cursor")
	}
	wholePermission(r, &q.PermissionSelector)
	if err := r.End(); err != nil {
		return err
	}
	d, err := c.store.Difference(c.ctx, q)
	if err != nil {
		return err
	}
	return c.json(struct {
		Changes   []permissionChangeJSON `json:"changes"`
		Next      string                 `json:"next"`
		Undecided int                    `json:"undecided"`
		From      string                 `json:"from"`
		To        string                 `json:"to"`
	}{permissionChanges(d.Changes), d.Next, d.UnknownCount, string(d.From), string(d.To)})
}

// readPermission reads a member that says what is compared; false is another.
func readPermission(r *jsonread.Reader, p *ostiary.PermissionSelector) bool {
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

func wholePermission(r *jsonread.Reader, p *ostiary.PermissionSelector) {
	if p.ObjectType == "" || p.Relation == "" || p.SubjectType == "" {
		r.Fail("object_type, relation and subject_type are wanted")
	}
}

// watchPermission sends the changes of a permission as they come.
func (c *call) watchPermission(w http.ResponseWriter) error {
	values, err := c.query("object_type", "relation", "subject_type", "subject_relation", "object", "subject", "after")
	if err != nil {
		return err
	}
	q := ostiary.WatchPermissionRequest{After: c.afterOf(values.Get("after")), PermissionSelector: ostiary.PermissionSelector{
		ObjectType: values.Get("object_type"), Relation: values.Get("relation"), SubjectType: values.Get("subject_type"),
		SubjectRelation: values.Get("subject_relation"), Objects: values["object"], Subjects: values["subject"]}}
	if q.ObjectType == "" || q.Relation == "" || q.SubjectType == "" {
		return invalid("object_type, relation and subject_type are wanted")
	}
	if q.After == "" {
		// What is written from the moment of the answer's beginning on is sent.
		if q.After, err = c.store.Head(c.ctx); err != nil {
			return err
		}
	}
	// What is wrong with the request is still an error of its own: comparing a
	// revision with itself finds it, and nothing else.
	at := ostiary.AtExactly(q.After)
	if _, err := c.store.Difference(c.ctx, ostiary.DifferenceRequest{PermissionSelector: q.PermissionSelector, From: at, To: at}); err != nil {
		return err
	}
	if most := ostiary.WatchNamesMax; len(q.Objects)+len(q.Subjects) == 0 || len(q.Objects)+len(q.Subjects) > most {
		return invalid("from 1 to " + strconv.Itoa(most) + " objects or subjects are wanted")
	}
	watch := func(ctx context.Context) iter.Seq2[ostiary.PermissionUpdate, error] {
		return c.store.WatchPermission(ctx, q)
	}
	return sendEvents(c.ctx, w, watch, func(u *ostiary.PermissionUpdate) event {
		return event{id: string(u.Token), name: "permission", data: struct {
			Revision  uint64                 `json:"revision"`
			Time      time.Time              `json:"time"`
			Token     string                 `json:"token"`
			Changes   []permissionChangeJSON `json:"changes"`
			Undecided int                    `json:"undecided"`
		}{uint64(u.Revision), u.Time, string(u.Token), permissionChanges(u.Changes), u.UnknownCount}}
	})
}
