package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
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
	CredentialKeys []settings.Key
	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
	// Progress, if not nil, gets the kind of records that are being copied, the
	// number of records of all kinds that were read, and the total of all kinds.
	Progress func(what string, done, total int)
	// Note, if not nil, gets a line for each record that was not copied, or was
	// copied without a part. The [Report] has the first ones of each kind only.
	Note func(line string)
}

// step copies one kind of records.
type step struct {
	what string // kind of the records
	// rows is what follows FROM in a query that counts the records.
	rows string
	copy func(*migration, context.Context) error
}

// steps are in the order in which records may refer to others.
var steps = []step{
	{"region", "region", (*migration).regions},
	{"domain", "project WHERE is_domain AND id <> '" + rootDomain + "'", (*migration).domains},
	{"project", "project WHERE NOT is_domain", (*migration).projects},
	{"domain configuration", "(SELECT domain_id FROM whitelisted_config UNION SELECT domain_id FROM sensitive_config) c", (*migration).domainConfigs},
	{"role", "role", (*migration).roles},
	{"implied role", "implied_role", (*migration).implications},
	{"mapping", "mapping", (*migration).mappings},
	{"identity provider", "identity_provider", (*migration).providers},
	{"federation protocol", "federation_protocol", (*migration).protocols},
	{"service provider", "service_provider", (*migration).serviceProviders},
	{"group", `"group"`, (*migration).groups},
	{"user", `"user"`, (*migration).users},
	{"group membership", "user_group_membership", (*migration).memberships},
	{"service", "service", (*migration).services},
	{"endpoint", "endpoint", (*migration).endpoints},
	{"endpoint group", "endpoint_group", (*migration).endpointGroups},
	{"endpoint of a project", "project_endpoint", (*migration).projectEndpoints},
	{"endpoint group of a project", "project_endpoint_group", (*migration).projectEndpointGroups},
	{"policy", "policy", (*migration).policies},
	{"policy association", "policy_association", (*migration).policyAssociations},
	{"registered limit", "registered_limit", (*migration).registeredLimits},
	{"limit", `"limit"`, (*migration).limits},
	{"access rule", "access_rule", (*migration).accessRules},
	{"application credential", "application_credential", (*migration).applicationCredentials},
	{"trust", "trust WHERE deleted_at IS NULL", (*migration).trusts},
	{"credential", "credential", (*migration).credentials},
	{"consumer", "consumer", (*migration).consumers},
	{"request token", "request_token", (*migration).requestTokens},
	{"access token", "access_token", (*migration).accessTokens},
	{"role assignment", "assignment", (*migration).assignments},
	{"system assignment", "system_assignment", (*migration).systemAssignments},
	{"revocation event", "revocation_event", (*migration).revocations},
}

// Run copies the records of a database. It fails with [ErrNotEmpty], and with an
// error of the database or of the deployment. Records that the deployment refuses
// are in the report, as are rows for which it has no place. After an error the
// deployment has a part of the records.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if o.Note == nil {
		o.Note = func(string) {}
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
	if err := m.all(ctx); err != nil {
		return nil, err
	}
	return &m.report, nil
}

// migration is one run.
type migration struct {
	options Options
	from    *reader
	to      *identity.Service
	report  Report

	done, total int // records of all kinds: those that were read, and all
	seen        int // records of the kind that is being copied that were read
	pending     []identity.Loaded
}

// all copies all kinds of records.
func (m *migration) all(ctx context.Context) error {
	counts := make([]int, len(steps))
	for i, s := range steps {
		n, err := m.from.count(ctx, s.rows)
		if err != nil {
			return fmt.Errorf("count the %s: %w", plural(s.what), err)
		}
		counts[i] = n
		m.total += n
	}
	for i, s := range steps {
		if err := m.run(ctx, s, counts[i]); err != nil {
			return fmt.Errorf("copy the %s: %w", plural(s.what), err)
		}
	}
	return m.absent(ctx)
}

// run copies one kind of records, of which the database has n.
func (m *migration) run(ctx context.Context, s step, n int) error {
	m.seen = 0
	m.report.Copied = append(m.report.Copied, Copied{What: s.what})
	if err := s.copy(m, ctx); err != nil {
		return err
	}
	if err := m.flush(ctx); err != nil {
		return err
	}
	if m.seen < n {
		m.current().Refused += n - m.seen
		m.reason("not copied", "rows", fmt.Errorf("%d of %d were not read", n-m.seen, n))
	}
	return nil
}

// read counts a record that was read.
func (m *migration) read() {
	m.seen++
	m.done++
	m.options.Progress(m.current().What, m.done, m.total)
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
		m.refused(nameOf(&m.pending[r.Index].Record), r.Err)
	}
	m.current().Copied += len(m.pending) - len(refused)
	m.pending = m.pending[:0]
	return nil
}

// nameOf returns how the report names a record: by its id, or by what it connects.
func nameOf(r *identity.Record) string {
	if r.Connects == nil {
		return r.ID
	}
	var ends []string
	for _, k := range []identity.Kind{identity.Project, identity.EndpointGroup, identity.Policy, identity.Endpoint, identity.CatalogService, identity.Region} {
		if id, ok := r.Connects[k]; ok {
			ends = append(ends, strings.ReplaceAll(string(k), "_", " ")+" "+id)
		}
	}
	return strings.Join(ends, " and ")
}

// refuse reports a record that cannot be read.
func (m *migration) refuse(id string, err error) error {
	m.read()
	m.refused(id, err)
	return nil
}

// batch is elements that one call loads.
type batch[T any] struct {
	max  int
	load func(context.Context, []T) ([]identity.Refusal, error)
	name func(T) string // describes an element in the report
	list []T
}

// errObsolete is returned for a row that needs no copy. The element function has
// counted it.
var errObsolete = errors.New("obsolete")

// linked copies the rows of a query in batches. element returns an
// [identity.Error] for a row that has no place.
func linked[T any](ctx context.Context, m *migration, b *batch[T], query string, element func(row) (T, error)) error {
	flush := func() error {
		if len(b.list) == 0 {
			return nil
		}
		refused, err := b.load(ctx, b.list)
		if err != nil {
			return err
		}
		for _, r := range refused {
			m.refused(b.name(b.list[r.Index]), r.Err)
		}
		m.current().Copied += len(b.list) - len(refused)
		b.list = b.list[:0]
		return nil
	}
	err := m.from.each(ctx, query, func(x row) error {
		m.read()
		e, err := element(x)
		var invalid *identity.Error
		switch {
		case errors.Is(err, errObsolete):
			return nil
		case errors.As(err, &invalid):
			m.refused(b.name(e), err)
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
