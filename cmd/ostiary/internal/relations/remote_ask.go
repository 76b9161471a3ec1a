package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/openfga/tuplefile"
	"github.com/ostiary/ostiary/rel"
)

// writeMax is the number of tuples that OpenFGA's servers accept in one write.
const writeMax = 100

// question adds the flags that check, list and expand share to a request body.
func (f *queryFlags) question(in map[string]any) (map[string]any, error) {
	ask, err := f.options()
	if err != nil {
		return nil, err
	}
	if ask.SchemaID != "" {
		in["authorization_model_id"] = ask.SchemaID
	}
	if ask.Context != nil {
		in["context"] = ask.Context
	}
	var tuples []tuplefile.Record
	for _, t := range ask.Tuples {
		record, err := tuplefile.RecordOf(t)
		if err != nil {
			return nil, err
		}
		tuples = append(tuples, record)
	}
	if tuples != nil {
		in["contextual_tuples"] = map[string]any{"tuple_keys": tuples}
	}
	return in, nil
}

func (r *remote) check(ctx context.Context, t rel.Tuple, flags *queryFlags) error {
	if flags.at != "" {
		return r.nativeCheck(ctx, t, flags)
	}
	in, err := flags.question(map[string]any{"tuple_key": map[string]string{
		"user": t.Subject.String(), "relation": t.Relation, "object": t.Object.String()}})
	if err != nil {
		return err
	}
	path, err := r.Path(ctx, "/check")
	if err != nil {
		return err
	}
	var got struct {
		Allowed bool `json:"allowed"`
	}
	h, err := r.Call(ctx, http.MethodPost, path, in, &got)
	if err != nil {
		return err
	}
	_, revision := cli.RevisionOf(h)
	return r.a.printDecision(decision{Allowed: got.Allowed, Truth: fmt.Sprint(got.Allowed), Revision: revision})
}

// listObjects reads the streamed list, because it has no limit on the number of
// objects.
func (r *remote) listObjects(ctx context.Context, subject rel.Subject, relation, typ string, flags *listFlags) error {
	if flags.limit > 0 || flags.cursor != "" || flags.at != "" {
		return r.nativeList(ctx, "/list-objects", map[string]any{"subject": subject.String(), "relation": relation, "type": typ}, "", flags)
	}
	in, err := flags.question(map[string]any{"user": subject.String(), "relation": relation, "type": typ})
	if err != nil {
		return err
	}
	path, err := r.Path(ctx, "/streamed-list-objects")
	if err != nil {
		return err
	}
	resp, err := r.Send(ctx, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out := listJSON{Objects: []string{}}
	for dec := json.NewDecoder(resp.Body); ; {
		var line struct {
			Result struct {
				Object string `json:"object"`
			} `json:"result"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if line.Error != nil {
			return &cli.RemoteError{Code: "error", Message: line.Error.Message}
		}
		out.Objects = append(out.Objects, line.Result.Object)
	}
	out.cut(resp)
	return r.a.printList(&out, out.Objects)
}

// cut reads the headers that ostiary serve adds to a list: the revision, and the
// bound that cut the list.
func (l *listJSON) cut(resp *http.Response) {
	_, l.Revision = cli.RevisionOf(resp.Header)
	if l.Incomplete = resp.Header.Get(cli.HeaderCut); l.Incomplete == "" {
		l.Incomplete = resp.Trailer.Get(cli.HeaderCut)
	}
}

func (r *remote) listSubjects(ctx context.Context, typ, subjectRelation, relation string, object rel.Object, flags *listFlags) error {
	if flags.limit > 0 || flags.cursor != "" || flags.at != "" {
		in := map[string]any{"object": object.String(), "relation": relation, "subject_type": typ}
		if subjectRelation != "" {
			in["subject_relation"] = subjectRelation
		}
		return r.nativeList(ctx, "/list-subjects", in, typ, flags)
	}
	filter := map[string]string{"type": typ}
	if subjectRelation != "" {
		filter["relation"] = subjectRelation
	}
	in, err := flags.question(map[string]any{"object": map[string]string{"type": object.Type, "id": object.ID}, "relation": relation,
		"user_filters": []any{filter}})
	if err != nil {
		return err
	}
	if c, ok := in["contextual_tuples"].(map[string]any); ok {
		in["contextual_tuples"] = c["tuple_keys"] // list-users takes a plain list
	}
	path, err := r.Path(ctx, "/list-users")
	if err != nil {
		return err
	}
	type named struct{ Type, ID, Relation string }
	var got struct {
		Users []struct{ Object, Userset, Wildcard *named } `json:"users"`
	}
	h, err := r.Call(ctx, http.MethodPost, path, in, &got)
	if err != nil {
		return err
	}
	out := listJSON{Subjects: []string{}}
	for _, u := range got.Users {
		switch {
		case u.Object != nil:
			out.Subjects = append(out.Subjects, u.Object.Type+":"+u.Object.ID)
		case u.Userset != nil:
			out.Subjects = append(out.Subjects, u.Userset.Type+":"+u.Userset.ID+"#"+u.Userset.Relation)
		case u.Wildcard != nil:
			out.Subjects = append(out.Subjects, u.Wildcard.Type+":"+rel.Wildcard)
		}
	}
	out.cut(&http.Response{Header: h})
	return r.a.printList(&out, out.Subjects)
}

// expand prints the tree. For a server without the native API it prints OpenFGA's
// form of it, which has no pages.
func (r *remote) expand(ctx context.Context, relation string, object rel.Object, levels int, flags *listFlags) error {
	if err := r.nativeExpand(ctx, relation, object, levels, flags); !cli.IsForeign(err) || levels > 1 || flags.at != "" || flags.context != "" || flags.inPages() {
		return err
	}
	in, err := flags.question(map[string]any{"tuple_key": map[string]string{"relation": relation, "object": object.String()}})
	if err != nil {
		return err
	}
	path, err := r.Path(ctx, "/expand")
	if err != nil {
		return err
	}
	var got struct {
		Tree json.RawMessage `json:"tree"`
	}
	if _, err := r.Call(ctx, http.MethodPost, path, in, &got); err != nil {
		return err
	}
	return r.printTree(got.Tree)
}

// remoteWrite is the body of a write request.
type remoteWrite struct {
	Schema  string          `json:"authorization_model_id,omitempty"`
	Writes  *remoteWrites   `json:"writes,omitempty"`
	Deletes *remoteRemovals `json:"deletes,omitempty"`
}

type remoteWrites struct {
	Keys        []tuplefile.Record `json:"tuple_keys"`
	OnDuplicate string             `json:"on_duplicate,omitempty"`
}

type remoteRemovals struct {
	Keys      []tuplefile.Record `json:"tuple_keys"`
	OnMissing string             `json:"on_missing,omitempty"`
}

func (r *remote) write(ctx context.Context, path string, w remoteWrite) (ostiary.Token, uint64, error) {
	h, err := r.Call(ctx, http.MethodPost, path, w, nil)
	if err != nil {
		return "", 0, err
	}
	token, revision := cli.RevisionOf(h)
	return token, revision, nil
}

func (r *remote) writeTuple(ctx context.Context, t rel.Tuple, duplicate cli.DuplicateFlag, schemaID string) error {
	action, err := duplicate.Policy()
	if err != nil {
		return err
	}
	if t.Expires != 0 || action == ostiary.Replace {
		return r.nativeWriteTuple(ctx, t, action, schemaID)
	}
	record, err := tuplefile.RecordOf(t)
	if err != nil {
		return err
	}
	path, err := r.Path(ctx, "/write")
	if err != nil {
		return err
	}
	before := r.headBefore(ctx, action)
	token, revision, err := r.write(ctx, path, remoteWrite{Schema: schemaID, Writes: &remoteWrites{[]tuplefile.Record{record}, nativeConflict(action)}})
	if err != nil {
		return err
	}
	return r.a.printRevision(didWrite(before, revision, "wrote "+t.String(), unchangedTuple(t)), token, revision)
}

func (r *remote) deleteTuple(ctx context.Context, w ostiary.WriteRequest) error {
	if len(w.RemoveMatching) > 0 {
		return r.nativeDelete(ctx, w.RemoveMatching[0].Tuple)
	}
	k := w.Remove[0]
	out := &remoteRemovals{Keys: []tuplefile.Record{{User: k.Subject.String(), Relation: k.Relation, Object: k.Object.String()}}}
	if w.OnMissing == ostiary.Ignore {
		out.OnMissing = "ignore"
	}
	path, err := r.Path(ctx, "/write")
	if err != nil {
		return err
	}
	before := r.headBefore(ctx, w.OnMissing)
	token, revision, err := r.write(ctx, path, remoteWrite{Deletes: out})
	if err != nil {
		return err
	}
	return r.a.printRevision(didWrite(before, revision, "deleted "+k.String(), unchangedMissing), token, revision)
}

// headBefore returns the revision before a write that may change nothing. It
// returns 0 for a write that changes something or fails, and if the server does not
// report revisions.
func (r *remote) headBefore(ctx context.Context, action ostiary.ConflictAction) uint64 {
	if action == ostiary.Fail {
		return 0
	}
	path, err := r.Path(ctx, "/read")
	if err != nil {
		return 0 // the write fails with the same error
	}
	h, err := r.Call(ctx, http.MethodPost, path, map[string]any{"page_size": 1, "consistency": "HIGHER_CONSISTENCY"}, nil)
	if err != nil {
		return 0
	}
	_, revision := cli.RevisionOf(h)
	return revision
}

// didWrite returns unchanged if a write led to the revision before it, and did
// otherwise.
func didWrite(before, after uint64, did, unchanged string) string {
	if before != 0 && before == after {
		return unchanged
	}
	return did
}

func (r *remote) importFile(ctx context.Context, flags cli.ImportFlags) (ostiary.ImportResult, error) {
	if flags.Entry != 0 {
		return ostiary.ImportResult{}, fmt.Errorf("%w: --entry cannot be combined with --server", cli.ErrUsage)
	}
	stream, err := r.hasNative(ctx)
	if err != nil {
		return ostiary.ImportResult{}, err
	}
	if stream {
		return r.a.ImportInto(flags, func(tuples iter.Seq2[rel.Tuple, error]) (ostiary.ImportResult, error) {
			return r.nativeImport(ctx, tuples, flags)
		})
	}
	return r.a.ImportInto(flags, func(tuples iter.Seq2[rel.Tuple, error]) (ostiary.ImportResult, error) {
		n, token, err := r.importTuples(ctx, tuples, flags.Duplicate, flags.Schema)
		return ostiary.ImportResult{Read: n, Written: n, Token: token}, err
	})
}

// importTuples writes the tuples in groups of writeMax. Each group is atomic; the
// import as a whole is not.
func (r *remote) importTuples(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], duplicate cli.DuplicateFlag, schemaID string) (n int, token ostiary.Token, err error) {
	action, err := duplicate.Policy()
	if err != nil {
		return 0, "", err
	}
	if action == ostiary.Replace {
		return 0, "", fmt.Errorf("%w: OpenFGA's API has no --on-duplicate replace", cli.ErrUsage)
	}
	path, err := r.Path(ctx, "/write")
	if err != nil {
		return 0, "", err
	}
	var group []tuplefile.Record
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		if token, _, err = r.write(ctx, path, remoteWrite{Schema: schemaID, Writes: &remoteWrites{group, nativeConflict(action)}}); err != nil {
			return err
		}
		n, group = n+len(group), group[:0]
		return nil
	}
	for t, err := range tuples {
		if err != nil {
			return n, token, err
		}
		if t.Expires != 0 {
			return n, token, fmt.Errorf("%s: OpenFGA's API has no expiry of tuples", t.Key())
		}
		record, err := tuplefile.RecordOf(t)
		if err != nil {
			return n, token, err
		}
		if group = append(group, record); len(group) == writeMax {
			if err := flush(); err != nil {
				return n, token, err
			}
		}
	}
	return n, token, flush()
}

func (r *remote) readTuples(ctx context.Context, f filterFlags, selected rel.Filter, limit int, cursor, at string) error {
	subjectType := f.user != "" && (!strings.Contains(f.user, ":") || strings.HasSuffix(f.user, ":"))
	if err := r.nativeRead(ctx, selected, limit, cursor, at); !cli.IsForeign(err) || at != "" || subjectType {
		return err // OpenFGA's API has no expiry of tuples, no past, and no filter by a type of subjects
	}
	in := map[string]any{"page_size": min(max(limit, 1), cli.PageMax), "continuation_token": cursor}
	if f != (filterFlags{}) {
		key := map[string]string{"object": f.object, "relation": f.relation, "user": f.user}
		if f.object != "" && !strings.Contains(f.object, ":") {
			key["object"] += ":"
		}
		in["tuple_key"] = key
	}
	path, err := r.Path(ctx, "/read")
	if err != nil {
		return err
	}
	var page struct {
		Tuples []struct {
			Key       tuplefile.Record `json:"key"`
			Timestamp string           `json:"timestamp"`
		} `json:"tuples"`
		Next string `json:"continuation_token"`
	}
	h, err := r.Call(ctx, http.MethodPost, path, in, &page)
	if err != nil {
		return err
	}
	out := readJSON{Tuples: []storedJSON{}, Next: page.Next}
	_, out.Revision = cli.RevisionOf(h)
	for _, t := range page.Tuples {
		out.Tuples = append(out.Tuples, storedJSON{t.Key, t.Timestamp})
	}
	return r.a.printRead(out)
}
