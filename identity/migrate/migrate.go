package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/token"
)

// ErrNotEmpty is returned by [Run] if the deployment has records already.
var ErrNotEmpty = errors.New("the deployment has records already")

// Options are the settings of [Run].
type Options struct {
	// DB is the database.
	DB *sql.DB
	// Dialect is the kind of the database.
	Dialect Dialect
	// To is the deployment, which must have no records.
	To *identity.Service
	// CredentialKeys decrypt the contents of credentials, such as EC2 keys. A
	// credential that none decrypts is refused.
	CredentialKeys []token.Key
	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
	// Progress, if not nil, gets the number of rows of a table that were read, and
	// their total.
	Progress func(table string, done, total int)
}

// Report is what [Run] has copied and what not.
type Report struct {
	// Copied are the kinds of records and links, in the order of copying.
	Copied []Copied `json:"copied"`
	// Absent are tables with rows for which the deployment has no place.
	Absent []Absent `json:"absent,omitempty"`
}

// Copied is one kind of records or links.
type Copied struct {
	What    string `json:"what"`              // kind, for example "user"
	Copied  int    `json:"copied"`            // number of those that were copied
	Refused int    `json:"refused,omitempty"` // number of those that were not
	// Reasons are why some were refused, at most [ReasonsMax].
	Reasons []string `json:"reasons,omitempty"`
}

// ReasonsMax is the largest number of reasons in a [Copied].
const ReasonsMax = 10

// Absent is a table that was not copied.
type Absent struct {
	Table string `json:"table"` // name of the table
	Rows  int    `json:"rows"`  // number of its rows
	Why   string `json:"why"`   // what is missing without them
}

// Refused returns the number of records and links that were not copied, although
// there is a place for their kind.
func (r *Report) Refused() (n int) {
	for _, c := range r.Copied {
		n += c.Refused
	}
	return n
}

// migration is one run.
type migration struct {
	options Options
	from    *reader
	to      *identity.Service
	report  Report

	table   string // table that is being read
	total   int    // number of its rows
	seen    int    // number of records that were read from it
	pending []identity.Loaded
}

// step copies one table.
type step struct {
	what  string // kind of the records
	table string
	copy  func(*migration, context.Context) error
}

// steps are in the order in which records may refer to others.
var steps = []step{
	{"region", "region", (*migration).regions},
	{"domain", "project", (*migration).domains},
	{"project", "project", (*migration).projects},
	{"role", "role", (*migration).roles},
	{"implied role", "implied_role", (*migration).implications},
	{"group", `"group"`, (*migration).groups},
	{"user", `"user"`, (*migration).users},
	{"group membership", "user_group_membership", (*migration).memberships},
	{"service", "service", (*migration).services},
	{"endpoint", "endpoint", (*migration).endpoints},
	{"registered limit", "registered_limit", (*migration).registeredLimits},
	{"limit", `"limit"`, (*migration).limits},
	{"access rule", "access_rule", (*migration).accessRules},
	{"application credential", "application_credential", (*migration).applicationCredentials},
	{"trust", "trust", (*migration).trusts},
	{"credential", "credential", (*migration).credentials},
	{"role assignment", "assignment", (*migration).assignments},
	{"system assignment", "system_assignment", (*migration).systemAssignments},
	{"revocation event", "revocation_event", (*migration).revocations},
}

// Run copies the records of a database. It fails with [ErrNotEmpty], and with an
// error of the database or of the deployment. Records that the deployment refuses
// are in the report, as are tables for which it has no place. After an error the
// deployment has a part of the records.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if empty, err := o.To.Empty(ctx); err != nil {
		return nil, err
	} else if !empty {
		return nil, ErrNotEmpty
	}
	from, end, err := begin(ctx, o.DB, o.Dialect)
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	defer end()
	m := &migration{options: o, from: from, to: o.To}
	for _, s := range steps {
		if err := m.run(ctx, s); err != nil {
			return nil, fmt.Errorf("copy table %s: %w", s.table, err)
		}
	}
	return &m.report, m.absent(ctx)
}

// run copies one table.
func (m *migration) run(ctx context.Context, s step) (err error) {
	if m.total, err = m.from.count(ctx, s.table); err != nil {
		return err
	}
	m.table, m.seen = s.table, 0
	m.report.Copied = append(m.report.Copied, Copied{What: s.what})
	if err := s.copy(m, ctx); err != nil {
		return err
	}
	return m.flush(ctx)
}

// read counts a record that was read.
func (m *migration) read() {
	m.seen++
	m.options.Progress(m.table, min(m.seen, m.total), m.total)
}

// add copies a record with the next batch.
func (m *migration) add(ctx context.Context, l identity.Loaded) error {
	m.read()
	m.pending = append(m.pending, l)
	if len(m.pending) < identity.LoadRecordsMax {
		return nil
	}
	return m.flush(ctx)
}

// flush writes the records of the batch.
func (m *migration) flush(ctx context.Context) error {
	if len(m.pending) == 0 {
		return nil
	}
	refused, err := m.to.LoadRecords(ctx, m.pending)
	if err != nil {
		return err
	}
	for _, r := range refused {
		m.refused(m.pending[r.Index].ID, r.Err)
	}
	m.current().Copied += len(m.pending) - len(refused)
	m.pending = m.pending[:0]
	return nil
}

// refuse reports a record that cannot be read.
func (m *migration) refuse(k identity.Kind, id string, err error) error {
	m.read()
	m.refused(string(k)+" "+id, err)
	return nil
}

// current is the part of the report of the table that is being read.
func (m *migration) current() *Copied { return &m.report.Copied[len(m.report.Copied)-1] }

// refused reports what was not copied.
func (m *migration) refused(what string, err error) {
	c := m.current()
	c.Refused++
	if len(c.Reasons) < ReasonsMax {
		c.Reasons = append(c.Reasons, fmt.Sprintf("%.200s: %v", what, err))
	}
}

// batch is elements that one call loads.
type batch[T any] struct {
	max  int
	load func(context.Context, []T) ([]identity.Refusal, error)
	name func(T) string // describes an element in the report
	list []T
}

// errObsolete is returned for a row that needs no copy and no report.
var errObsolete = errors.New("obsolete")

// linked copies the rows of a query in batches. element returns an
// [identity.Error] for a row that has no place.
func linked[T any](ctx context.Context, m *migration, what string, b *batch[T], query string, element func(row) (T, error)) error {
	flush := func() error {
		if len(b.list) == 0 {
			return nil
		}
		refused, err := b.load(ctx, b.list)
		for _, r := range refused {
			m.refused(b.name(b.list[r.Index]), r.Err)
		}
		m.current().Copied += len(b.list) - len(refused)
		b.list = b.list[:0]
		return err
	}
	err := m.from.each(ctx, query, func(x row) error {
		m.read()
		e, err := element(x)
		var invalid *identity.Error
		switch {
		case errors.Is(err, errObsolete):
			return nil
		case errors.As(err, &invalid):
			m.refused(what, err)
			return nil
		case err != nil:
			return err
		}
		if b.list = append(b.list, e); len(b.list) < b.max {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// places are the tables that are not copied, with what is missing without them.
// Tables that are not here are copied, or hold what is valid for minutes only.
var places = []Absent{
	{Table: "access_token", Why: "programs that use OAuth 1 must be authorized again"},
	{Table: "consumer", Why: "consumers of OAuth 1 must be made again"},
	{Table: "endpoint_group", Why: "the catalog shows all endpoints"},
	{Table: "expiring_user_group_membership", Why: "the next login of a federated user makes them"},
	{Table: "federated_user", Why: "the next login of a federated user does not find the copied user"},
	{Table: "federation_protocol", Why: "federated users cannot log in"},
	{Table: "id_mapping", Why: "users and groups of LDAP are not found"},
	{Table: "identity_provider", Why: "federated users cannot log in"},
	{Table: "idp_remote_ids", Why: "federated users cannot log in"},
	{Table: "mapping", Why: "federated users cannot log in"},
	{Table: "policy", Why: "policies of services must be made again"},
	{Table: "policy_association", Why: "policies of services must be made again"},
	{Table: "project_endpoint", Why: "the catalog shows all endpoints"},
	{Table: "project_endpoint_group", Why: "the catalog shows all endpoints"},
	{Table: "sensitive_config", Why: "configurations of domains must be made again"},
	{Table: "service_provider", Why: "service providers must be made again"},
	{Table: "whitelisted_config", Why: "configurations of domains must be made again"},
}

// absent reports the tables with rows that were not copied.
func (m *migration) absent(ctx context.Context) error {
	for _, p := range slices.Clone(places) {
		if !m.from.tables[p.Table] {
			continue
		}
		n, err := m.from.count(ctx, p.Table)
		if err != nil {
			return err
		}
		if n > 0 {
			p.Rows = n
			m.report.Absent = append(m.report.Absent, p)
		}
	}
	return nil
}
