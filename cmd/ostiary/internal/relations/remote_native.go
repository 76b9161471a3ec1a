package relations

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/rel"
)

// The methods of this file use the native API of a server, for commands and flags
// that OpenFGA's API cannot express.

// nativeReasons are the reasons of an unknown decision in the native API.
type nativeReasons struct {
	Missing, Errors []string
	Cycle           bool
	Bound           string
}

// String formats the reasons like [authz.Reasons].
func (r *nativeReasons) String() string {
	if r == nil {
		return ""
	}
	parts := r.Errors
	if text := (&authz.Reasons{Missing: r.Missing, Cycle: r.Cycle, Bound: r.Bound}).String(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// nativeCall sends a request about the store and decodes the response into out.
func (r *remote) nativeCall(ctx context.Context, path string, in, out any) error {
	text, err := r.a.Native(ctx, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: the response is not valid in the native API: %w", path, err)
	}
	return nil
}

func (r *remote) nativeCheck(ctx context.Context, t rel.Tuple, flags *queryFlags) error {
	in, err := flags.nativeQuestion(map[string]any{"object": t.Object.String(), "relation": t.Relation, "subject": t.Subject.String()})
	if err != nil {
		return err
	}
	var got struct {
		Allowed  bool
		Truth    string
		Reasons  *nativeReasons
		Revision uint64
	}
	if err := r.nativeCall(ctx, "/check", in, &got); err != nil {
		return err
	}
	d := decision{Allowed: got.Allowed, Truth: got.Truth, Reason: got.Reasons.String(), Revision: got.Revision}
	if got.Reasons != nil {
		d.Missing = got.Reasons.Missing
	}
	return r.a.printDecision(d)
}

// nativeList reads one page of a list with --limit, or all pages. in is the
// request, and path the route.
func (r *remote) nativeList(ctx context.Context, path string, in map[string]any, subjectType string, flags *listFlags) error {
	in, err := flags.nativeQuestion(in)
	if err != nil {
		return err
	}
	if flags.limit > 0 {
		in["limit"] = flags.limit
	}
	out := listJSON{Next: flags.cursor}
	if subjectType == "" {
		out.Objects = []string{}
	} else {
		out.Subjects = []string{}
	}
	for {
		if out.Next != "" {
			in["cursor"] = out.Next
		}
		var page struct {
			Objects, Subjects, Except []string
			Everybody, Next, Cut      string
			Undecided                 *struct {
				Count   int
				Some    []string
				Reasons *nativeReasons
			}
			Revision uint64
		}
		if err := r.nativeCall(ctx, path, in, &page); err != nil {
			return err
		}
		if page.Everybody == "true" && len(out.Subjects) == 0 {
			out.Subjects = append(out.Subjects, subjectType+":"+rel.Wildcard)
		}
		out.Objects, out.Subjects = append(out.Objects, page.Objects...), append(out.Subjects, page.Subjects...)
		out.Excluded = append(out.Excluded, page.Except...)
		out.Incomplete, out.Revision, out.Next = page.Cut, page.Revision, page.Next
		if u := page.Undecided; u != nil {
			out.add(u.Some, u.Count, nil, page.Cut, page.Revision)
			out.Reason = u.Reasons.String()
		}
		if out.Next == "" || flags.limit > 0 || page.Cut != "" {
			break
		}
	}
	return r.a.printList(&out, append(out.Objects, out.Subjects...))
}

func (r *remote) nativeExpand(ctx context.Context, relation string, object rel.Object, levels int, flags *listFlags) error {
	in, err := flags.nativeQuestion(map[string]any{"object": object.String(), "relation": relation, "levels": levels})
	if err != nil {
		return err
	}
	in["text"] = !r.a.JSON
	if flags.limit > 0 {
		in["limit"] = flags.limit
	}
	if flags.cursor != "" {
		in["cursor"] = flags.cursor
	}
	var got struct {
		Tree     json.RawMessage `json:"tree"`
		Revision uint64          `json:"revision"`
	}
	var page expandPage[json.RawMessage]
	var text struct{ Text string }
	body, err := r.a.Native(ctx, http.MethodPost, "/expand", in)
	if err == nil {
		err = errors.Join(json.Unmarshal(body, &got), json.Unmarshal(body, &page), json.Unmarshal(body, &text))
	}
	switch {
	case err != nil:
		return err
	case flags.inPages():
		return printParts(r.a, page, text.Text)
	}
	return r.a.Print(got, func(w io.Writer) { fmt.Fprint(w, text.Text) })
}

// nativeWrite sends a write and prints its result.
func (r *remote) nativeWrite(ctx context.Context, in map[string]any, did string) error {
	var got writtenJSON
	if err := r.nativeCall(ctx, "/write", in, &got); err != nil {
		return err
	}
	return r.a.printRevision(did, ostiary.Token(got.Token), got.Revision)
}

// nativeConflict returns a conflict action in the native API's form.
func nativeConflict(action ostiary.ConflictAction) string {
	return map[ostiary.ConflictAction]string{ostiary.Ignore: "ignore", ostiary.Replace: "replace"}[action]
}

func (r *remote) nativeWriteTuple(ctx context.Context, t rel.Tuple, action ostiary.ConflictAction, schemaID string) error {
	in := map[string]any{"add": cli.NativeTuples(cli.OneTuple(t))}
	if text := nativeConflict(action); text != "" {
		in["on_duplicate"] = text
	}
	if schemaID != "" {
		in["schema"] = schemaID
	}
	before := r.headBefore(ctx, action)
	var got writtenJSON
	if err := r.nativeCall(ctx, "/write", in, &got); err != nil {
		return err
	}
	return r.a.printRevision(didWrite(before, got.Revision, "wrote "+t.String(), unchangedTuple(t)), ostiary.Token(got.Token), got.Revision)
}

// nativeFilter returns a filter for tuples in the native API's form.
func nativeFilter(f rel.Filter) map[string]any {
	out := map[string]any{}
	for name, value := range map[string]string{"object_type": f.ObjectType, "object_id": f.ObjectID, "relation": f.Relation,
		"subject_type": f.SubjectType, "subject_id": f.SubjectID, "subject_relation": f.SubjectRelation} {
		if value != "" {
			out[name] = value
		}
	}
	if f.SubjectPlain {
		out["subject_plain"] = true
	}
	return out
}

func (r *remote) nativeDelete(ctx context.Context, f rel.Filter) error {
	n, err := r.nativeCount(ctx, f)
	if err != nil {
		return err
	}
	return r.nativeWrite(ctx, map[string]any{"remove_matching": []any{map[string]any{"tuples": nativeFilter(f)}}}, deletedMatching(n))
}

// nativeCount returns the number of tuples that match a filter.
func (r *remote) nativeCount(ctx context.Context, f rel.Filter) (n int, err error) {
	for in := map[string]any{"filter": nativeFilter(f), "limit": 1000}; ; {
		var page struct {
			Tuples []struct{}
			Next   string
		}
		if err := r.nativeCall(ctx, "/read", in, &page); err != nil {
			return n, err
		}
		n += len(page.Tuples)
		if in["cursor"] = page.Next; page.Next == "" {
			return n, nil
		}
	}
}

// nativeTuple is a tuple in the native API.
type nativeTuple struct {
	Object    string          `json:"object"`
	Relation  string          `json:"relation"`
	Subject   string          `json:"subject"`
	Condition string          `json:"condition,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	Expires   *time.Time      `json:"expires,omitempty"`
	Created   *time.Time      `json:"created,omitempty"`
}

func (n *nativeTuple) tuple() (rel.Tuple, error) {
	t, err := parseTriple([]string{n.Subject, n.Relation, n.Object})
	if err != nil {
		return t, err
	}
	t.Condition = n.Condition
	if len(n.Context) > 0 {
		if t.Context, err = rel.Canonical(n.Context); err != nil {
			return t, err
		}
	}
	if n.Expires != nil {
		t.Expires = rel.TimeOf(*n.Expires)
	}
	return t, nil
}

func (r *remote) nativeRead(ctx context.Context, f rel.Filter, limit int, cursor, at string) error {
	in := map[string]any{"filter": nativeFilter(f), "limit": max(limit, 1)}
	if cursor != "" {
		in["cursor"] = cursor
	}
	if when, err := cli.NativeAt("--at", at); err != nil {
		return err
	} else if when != nil {
		in["at"] = when
	}
	var page struct {
		Tuples   []nativeTuple
		Next     string
		Revision uint64
	}
	if err := r.nativeCall(ctx, "/read", in, &page); err != nil {
		return err
	}
	out := readJSON{Tuples: []storedJSON{}, Next: page.Next, Revision: page.Revision}
	for i := range page.Tuples {
		t, err := page.Tuples[i].tuple()
		if err != nil {
			return err
		}
		stored, err := storedOf(t)
		if err != nil {
			return err
		}
		if created := page.Tuples[i].Created; created != nil {
			stored.Created = cli.Stamp(*created)
		}
		out.Tuples = append(out.Tuples, stored)
	}
	return r.a.printRead(out)
}

// hasNative reports whether the server has the native API.
func (r *remote) hasNative(ctx context.Context) (bool, error) {
	resp, err := r.Send(ctx, http.MethodGet, cli.NativePrefix+"/openapi.json", nil)
	if refused, ok := errors.AsType[*cli.RemoteError](err); ok && refused.Status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, resp.Body.Close()
}

// nativeImport streams the tuples to the server.
func (r *remote) nativeImport(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], flags cli.ImportFlags) (ostiary.ImportResult, error) {
	action, err := flags.Duplicate.Policy()
	if err != nil {
		return ostiary.ImportResult{}, err
	}
	query := url.Values{}
	if text := nativeConflict(action); text != "" {
		query.Set("on_duplicate", text)
	}
	if flags.Schema != "" {
		query.Set("schema", flags.Schema)
	}
	reader, writer := io.Pipe()
	failed := make(chan error, 1) // receives the error of the sequence
	go func() {
		err := encodeTuples(writer, tuples)
		failed <- err
		writer.CloseWithError(err)
	}()
	text, err := r.a.Native(ctx, http.MethodPost, "/import?"+query.Encode(), cli.Stream{Reader: reader})
	reader.CloseWithError(io.ErrClosedPipe) // ends the goroutine if the server did not read everything
	if sequence := <-failed; sequence != nil && !errors.Is(sequence, io.ErrClosedPipe) {
		return ostiary.ImportResult{}, sequence
	}
	if _, refused := errors.AsType[*cli.RemoteError](err); err != nil && !refused {
		// The server may have received the stream, and stored entries of it.
		lost := cli.ConnectionFailed(fmt.Sprintf("the connection to %s was lost during the import: %v", r.Base, rootCause(err)), err)
		return ostiary.ImportResult{}, &cli.StoppedError{Err: lost, Done: " (the number of imported tuples is unknown)", Partly: true}
	} else if err != nil {
		return importRefusal(err)
	}
	var got struct {
		Read    int
		Written *int
		Token   string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return ostiary.ImportResult{}, err
	}
	done := ostiary.ImportResult{Read: got.Read, Written: writtenUnknown, Token: ostiary.Token(got.Token)}
	if got.Written != nil {
		done.Written = *got.Written
	}
	return done, nil
}

// rootCause returns the innermost error of err.
func rootCause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// writtenUnknown is the number of changed tuples of an import whose server does
// not report it.
const writtenUnknown = -1

// importRefusal returns an import error of the server with the number of the
// tuple, and the number of imported tuples.
func importRefusal(err error) (out ostiary.ImportResult, _ error) {
	refused, ok := errors.AsType[*cli.RemoteError](err)
	if !ok {
		return out, err
	}
	out.Read = refused.Read
	found := regexp.MustCompile(`^tuple (\d+): (.*)$`).FindStringSubmatch(refused.Message)
	if found == nil {
		return out, err
	}
	number, _ := strconv.Atoi(found[1])
	cause := &cli.RemoteError{Status: refused.Status, Code: refused.Code, Message: found[2]}
	return out, &ostiary.ImportError{Tuple: number, Err: cause}
}

// encodeTuples writes the lines of a native import, which ends with a count.
func encodeTuples(w io.Writer, tuples iter.Seq2[rel.Tuple, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	n := 0
	for t, err := range tuples {
		if err != nil {
			return err
		}
		if err := enc.Encode(map[string]any{"tuple": cli.NativeTuples(cli.OneTuple(t))[0]}); err != nil {
			return err
		}
		n++
	}
	if err := enc.Encode(map[string]any{"end": map[string]int{"tuples": n, "attributes": 0}}); err != nil {
		return err
	}
	return out.Flush()
}

// nativeExport yields all tuples of the server's store at a point.
func (r *remote) nativeExport(ctx context.Context, at string) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		if err := r.eachExported(ctx, at, func(t rel.Tuple) bool { return yield(t, nil) }); err != nil {
			yield(rel.Tuple{}, err)
		}
	}
}

func (r *remote) eachExported(ctx context.Context, at string, yield func(rel.Tuple) bool) error {
	query := ""
	if at != "" {
		token, err := r.tokenAt(ctx, at)
		if err != nil {
			return err
		}
		query = "?token=" + url.QueryEscape(token)
	}
	body, err := r.a.NativeStream(ctx, http.MethodGet, "/export"+query, nil)
	if err != nil {
		return err
	}
	stream := newExportReader(body)
	defer stream.close()
	for {
		line, err := stream.next()
		if err != nil || line.End != nil {
			return err
		}
		if line.Tuple != nil {
			t, err := line.Tuple.tuple()
			if err != nil || !yield(t) {
				return err
			}
		}
	}
}

// tokenAt returns the token of a revision or time. A what-if without questions
// returns it for every form of a point.
func (r *remote) tokenAt(ctx context.Context, at string) (string, error) {
	when, err := cli.NativeAt("--at", at)
	if err != nil {
		return "", err
	}
	var got struct{ Token string }
	err = r.nativeCall(ctx, "/what-if", map[string]any{"questions": []any{}, "at": when}, &got)
	return got.Token, err
}

// head returns the token of the newest revision of the store.
func (r *remote) head(ctx context.Context) (string, error) {
	s, err := r.Find(ctx, r.a.Store)
	if err != nil {
		return "", err
	}
	var now struct{ Token string }
	_, err = r.Call(ctx, http.MethodGet, cli.NativePath+s.ID, nil, &now)
	return now.Token, cli.NativeMissing(err)
}

// nativeCreateStore creates a store with an id, or with a new one if id is "".
func (r *remote) nativeCreateStore(ctx context.Context, name, id string) error {
	var s struct {
		ID, Name string
		Created  time.Time
	}
	in := map[string]string{"name": name}
	if id != "" {
		in["id"] = id
	}
	if _, err := r.Call(ctx, http.MethodPost, cli.NativePrefix+"/stores", in, &s); err != nil {
		return err
	}
	return r.a.printCreated(cli.StoreJSON{ID: s.ID, Name: s.Name, Created: cli.Stamp(s.Created)})
}

// aliasStore shows, sets or removes an alias of a store.
func (r *remote) aliasStore(ctx context.Context, store, door, alias string, remove bool) error {
	s, err := r.Find(ctx, store)
	if err != nil {
		return err
	}
	out := s.JSON()
	if err := r.addNative(ctx, &out); err != nil {
		return cli.NativeMissing(err)
	}
	out.Revision, out.Schema = nil, ""
	return r.a.changeAlias(out, door, alias, remove, func(aliases map[string]string) error {
		_, err := r.Call(ctx, http.MethodPatch, cli.NativePath+s.ID, map[string]any{"aliases": aliases}, nil)
		return err
	})
}

// printTree prints the tree of an expand.
func (r *remote) printTree(tree json.RawMessage) error {
	return r.a.Print(map[string]any{"tree": tree}, func(w io.Writer) {
		var text bytes.Buffer
		if json.Indent(&text, tree, "", "  ") == nil {
			fmt.Fprintln(w, text.String())
		}
	})
}
