package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/migrate"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// noon is the time of the imports.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// deployment is an empty deployment and its store.
type deployment struct {
	*identity.Service
	store *ostiary.Store
}

func deploy(t *testing.T) deployment {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "keystone"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return deployment{s, store}
}

// TestScripts imports the tables of each script, and compares the report and the
// deployment with those of the script.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.txtar", 1, func(t *testing.T, file string) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		x, db := open(t, withEmpty(archive.Files))
		d := deploy(t)
		var notes bytes.Buffer
		report, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.MySQL, To: d.Service, CredentialKeys: []settings.Key{{1}},
			Now: func() time.Time { return noon }, Note: func(line string) { fmt.Fprintln(&notes, line) }})
		if err != nil {
			t.Fatal(err)
		}
		if names := x.unused(); names != nil {
			t.Errorf("no query asks for %v", names)
		}
		want(t, file, archive, "want report", show(report)+notes.String())
		want(t, file, archive, "want deployment", d.dump(t))
		accounted(t, x, report)
	})
}

// withEmpty adds the tables that every database has.
func withEmpty(files []txtar.File) []txtar.File {
	for _, name := range []string{"local_user", "assignment"} {
		if !slices.ContainsFunc(files, func(f txtar.File) bool { return f.Name == name }) {
			files = append(files, txtar.File{Name: name})
		}
	}
	return files
}

// want compares a text with a file of the script.
func want(t *testing.T, file string, archive *txtar.Archive, name, got string) {
	t.Helper()
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		i = len(archive.Files)
		archive.Files = append(archive.Files, txtar.File{Name: name})
	}
	if string(archive.Files[i].Data) == got {
		return
	}
	if !golden.Rewrite() {
		t.Errorf("%s:\n%s", name, got)
		return
	}
	archive.Files[i].Data = []byte(got)
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// show returns what was copied and what has no place.
func show(r *migrate.Report) string {
	var b strings.Builder
	for _, c := range r.Copied {
		if c.Copied+c.Refused+c.Incomplete > 0 {
			fmt.Fprintf(&b, "%s, %d refused, %d incomplete\n", &c, c.Refused, c.Incomplete)
		}
	}
	fmt.Fprintf(&b, "%d refused, %d incomplete in all\n", r.Refused(), r.Incomplete())
	for _, a := range r.Absent {
		fmt.Fprintf(&b, "%d of %s: %s\n", a.Rows, a.Table, a.Why)
	}
	return b.String()
}

// accounted checks that each record of the tables is in the report.
func accounted(t *testing.T, x *tables, r *migrate.Report) {
	t.Helper()
	in, out := 0, 0
	for table, rows := range x.rows {
		in += records(rows)
		if table == "project" && slices.ContainsFunc(rows, func(r map[string]any) bool { return r["id"] == "<<keystone.domain.root>>" }) {
			in-- // it is the root of all domains
		}
	}
	for _, c := range r.Copied {
		out += c.Copied + c.Refused
	}
	for _, a := range r.Absent {
		out += a.Rows
	}
	if in != out {
		t.Errorf("%d records in the tables, %d in the report", in, out)
	}
}

// dump returns the records, secrets and tuples of a deployment.
func (d deployment) dump(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, k := range []identity.Kind{
		identity.Project, identity.Role, identity.User, identity.Group, identity.Region, identity.CatalogService, identity.Endpoint, identity.RegisteredLimit, identity.Limit,
		identity.ApplicationCredential, identity.AccessRule, identity.Trust, identity.DomainConfig, identity.IdentityProvider, identity.Protocol, identity.Mapping, identity.ServiceProvider,
		identity.Credential, identity.Consumer, identity.RequestToken, identity.AccessToken, identity.EndpointGroup, identity.EndpointFilter, identity.Policy, identity.PolicyAssociation,
	} {
		records, _, err := d.List(t.Context(), identity.ListRequest{Kind: k})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s\n", k, text)
			for _, kind := range []string{"identity/password", "identity/" + string(k) + "-secret"} {
				if s, err := d.store.Secret(t.Context(), authz.DocumentKey{Kind: kind, Key: r.ID}); err == nil && (kind != "identity/password" || k == identity.User) {
					fmt.Fprintf(&b, "\tsecret %q\n", s.Body)
				}
			}
			if a, err := d.store.Document(t.Context(), authz.DocumentKey{Kind: "identity/activity", Key: r.ID}); err == nil && k == identity.User {
				fmt.Fprintf(&b, "\tactivity %s\n", a.Body)
			}
		}
	}
	for cursor := ""; ; {
		page, err := d.store.Read(t.Context(), authz.ReadRequest{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Tuples {
			fmt.Fprintln(&b, x.Tuple)
		}
		if cursor = page.Next; cursor == "" {
			return b.String()
		}
	}
}

// TestErrors imports databases that cannot be read.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []txtar.File
		want  string
	}{
		"another program's": {[]txtar.File{{Name: "wordpress"}}, "the database is not Keystone's"},
		"group of rows above the bound": {withEmpty([]txtar.File{{Name: "role", Data: bytes.Repeat([]byte(`{"id":"r","name":"r","option_id":"IMMU","option_value":"true"}`+"\n"), migrate.GroupMax+1)}}),
			"GroupMax"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, db := open(t, c.files)
			_, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.Postgres, To: deploy(t).Service})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// TestGroupBound imports as many rows of one record as are allowed.
func TestGroupBound(t *testing.T) {
	t.Parallel()
	_, db := open(t, withEmpty([]txtar.File{{Name: "role", Data: bytes.Repeat([]byte(`{"id":"r","name":"r","option_id":"IMMU","option_value":"true"}`+"\n"), migrate.GroupMax)}}))
	report, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.Postgres, To: deploy(t).Service})
	if err != nil || show(report) != "1 role, 0 refused, 0 incomplete\n0 refused, 0 incomplete in all\n" {
		t.Error(err, report)
	}
}

// TestInterrupted loses the connection at each query in turn. Each time the error
// has the cause, and the deployment is not empty or has no record, so that a second
// import into it is refused or succeeds.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/records.txtar")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for after := 0; ; after += 3 {
		x, db := open(t, withEmpty(archive.Files))
		d := deploy(t)
		o := migrate.Options{DB: db, Dialect: migrate.MySQL, To: d.Service, CredentialKeys: []settings.Key{{1}}, Now: func() time.Time { return noon }}
		x.after = after
		_, err := migrate.Run(t.Context(), o)
		if err == nil {
			break
		}
		if !errors.Is(err, errLost) {
			t.Fatalf("after %d queries: %v", after, err)
		}
		empty, err := d.Empty(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x.after = -1
		switch _, err := migrate.Run(t.Context(), o); {
		case empty && err != nil:
			t.Fatalf("after %d queries: %v", after, err)
		case !empty && !errors.Is(err, migrate.ErrNotEmpty):
			t.Fatalf("after %d queries: got %v, want ErrNotEmpty", after, err)
		case !empty:
			refused++
		}
	}
	if refused < 7 {
		t.Errorf("only %d interruptions left records", refused)
	}
}

// TestProgress checks that the progress of an import never goes back, and ends with
// the total.
func TestProgress(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/records.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, db := open(t, withEmpty(archive.Files))
	last, whole := 0, 0
	_, err = migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.MySQL, To: deploy(t).Service, Progress: func(what string, done, total int) {
		if done != last+1 || done > total || whole != 0 && total != whole || what == "" {
			t.Errorf("%s: %d of %d after %d of %d", what, done, total, last, whole)
		}
		last, whole = done, total
	}})
	if err != nil || last != whole || last == 0 {
		t.Errorf("%d of %d, error %v", last, whole, err)
	}
}

// TestMissingRows imports tables of which the queries return fewer records than the
// tables have. The report counts the rest.
func TestMissingRows(t *testing.T) {
	t.Parallel()
	x, db := open(t, withEmpty([]txtar.File{{Name: "role", Data: []byte(`{"id":"r","name":"r"}`)}}))
	x.more = 2
	report, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.Postgres, To: deploy(t).Service})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Copied {
		if want := []string{fmt.Sprintf("rows: 2 of %d were not read", c.Copied+2)}; c.Refused != 2 || !slices.Equal(c.Reasons, want) {
			t.Errorf("%s: %d refused, %q, want %q", c.What, c.Refused, c.Reasons, want)
		}
	}
}

// TestBatches imports more records and links than one write may have.
func TestBatches(t *testing.T) {
	t.Parallel()
	users, members := []byte(nil), []byte(nil)
	for i := range 2*identity.LoadRecordsMax + 1 {
		users = fmt.Appendf(users, `{"id":"u%d","name":"u%d","domain_id":"d"}`+"\n", i, i)
	}
	for i := range identity.LoadLinksMax + 1 {
		members = fmt.Appendf(members, `{"user_id":"u%d","group_id":"g%d"}`+"\n", i%500, i/500)
	}
	groups := []byte(nil)
	for i := range identity.LoadLinksMax/500 + 1 {
		groups = fmt.Appendf(groups, `{"id":"g%d","name":"g%d","domain_id":"d"}`+"\n", i, i)
	}
	_, db := open(t, withEmpty([]txtar.File{{Name: "project", Data: []byte(`{"id":"d","name":"d","is_domain":true,"enabled":true}`)},
		{Name: "user", Data: users}, {Name: "group", Data: groups}, {Name: "user_group_membership", Data: members}}))
	report, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.Postgres, To: deploy(t).Service})
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{"user": 2*identity.LoadRecordsMax + 1, "group membership": identity.LoadLinksMax + 1} {
		i := slices.IndexFunc(report.Copied, func(c migrate.Copied) bool { return c.What == what })
		if c := report.Copied[i]; c.Copied != want || c.Refused != 0 {
			t.Errorf("%d of kind %s, %d refused: %q, want %d", c.Copied, what, c.Refused, c.Reasons, want)
		}
	}
}

// TestReasonsBound refuses as many records as the report names, and one more.
func TestReasonsBound(t *testing.T) {
	t.Parallel()
	var rows []byte
	for i := range migrate.ReasonsMax + 1 {
		rows = fmt.Appendf(rows, `{"id":"r%d","name":""}`+"\n", i)
	}
	_, db := open(t, withEmpty([]txtar.File{{Name: "role", Data: rows}}))
	notes := 0
	report, err := migrate.Run(t.Context(), migrate.Options{DB: db, Dialect: migrate.Postgres, To: deploy(t).Service, Note: func(string) { notes++ }})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Copied, func(c migrate.Copied) bool { return c.What == "role" })
	if c := report.Copied[i]; c.Refused != migrate.ReasonsMax+1 || len(c.Reasons) != migrate.ReasonsMax || notes != migrate.ReasonsMax+1 {
		t.Errorf("%d refused, %d reasons, %d notes", c.Refused, len(c.Reasons), notes)
	}
}
