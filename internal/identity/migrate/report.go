package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Report is what [Run] has copied and what not.
type Report struct {
	// Copied are the kinds of records and links, in the order of copying.
	Copied []Copied `json:"copied"`
	// Absent are rows for which the deployment has no place.
	Absent []Absent `json:"absent,omitempty"`
}

// Copied is one kind of records or links.
type Copied struct {
	What    string `json:"what"`              // kind, for example "user"
	Copied  int    `json:"copied"`            // number of those that were copied
	Refused int    `json:"refused,omitempty"` // number of those that were not
	// Incomplete is how often a part of a record was left out that was copied
	// otherwise.
	Incomplete int `json:"incomplete,omitempty"`
	// Reasons are what was refused or left out and why, at most [ReasonsMax].
	Reasons []string `json:"reasons,omitempty"`
}

// String returns what was copied, for example "3 policies".
func (c *Copied) String() string {
	if c.Copied == 1 {
		return "1 " + c.What
	}
	return strconv.Itoa(c.Copied) + " " + plural(c.What)
}

// ReasonsMax is the largest number of reasons in a [Copied].
const ReasonsMax = 10

// Absent is rows of a table that were not copied.
type Absent struct {
	Table string `json:"table"` // name of the table
	Rows  int    `json:"rows"`  // number of the rows
	Why   string `json:"why"`   // why they have no place, or what is missing without them
}

// Refused returns the number of records and links that were not copied, although
// there is a place for their kind.
func (r *Report) Refused() (n int) {
	for _, c := range r.Copied {
		n += c.Refused
	}
	return n
}

// Incomplete returns how often a part of a copied record was left out.
func (r *Report) Incomplete() (n int) {
	for _, c := range r.Copied {
		n += c.Incomplete
	}
	return n
}

// plural returns the plural of a kind of records.
func plural(what string) string {
	first, rest, of := strings.Cut(what, " of ")
	if y, ok := strings.CutSuffix(first, "y"); ok {
		first = y + "ies"
	} else {
		first += "s"
	}
	if of {
		first += " of " + rest
	}
	return first
}

// current is the part of the report of the kind that is being copied.
func (m *migration) current() *Copied { return &m.report.Copied[len(m.report.Copied)-1] }

// refused reports what was not copied.
func (m *migration) refused(what string, err error) {
	m.current().Refused++
	m.reason("not copied", what, err)
}

// incomplete reports a part of a record that was left out.
func (m *migration) incomplete(what string, err error) {
	m.current().Incomplete++
	m.reason("copied in part", what, err)
}

func (m *migration) reason(how, what string, err error) {
	c := m.current()
	line := fmt.Sprintf("%.300s: %.500s", what, err.Error())
	m.options.Note(c.What + " " + how + ": " + line)
	if len(c.Reasons) < ReasonsMax {
		c.Reasons = append(c.Reasons, line)
	}
}

// leave counts rows of a table that have no place.
func (m *migration) leave(table string, rows int, why string) {
	i := slices.IndexFunc(m.report.Absent, func(a Absent) bool { return a.Table == table && a.Why == why })
	if i < 0 {
		i = len(m.report.Absent)
		m.report.Absent = append(m.report.Absent, Absent{Table: table, Why: why})
	}
	m.report.Absent[i].Rows += rows
}

// place is rows that are not copied.
type place struct {
	table     string
	condition string // of the rows, as SQL; "" for all
	why       string
}

// places are the rows that are not copied, with what is missing without them.
var places = []place{
	{"config_register", "", "it reserves the SQL driver for one domain, and domains have no drivers here"},
	{"expiring_user_group_membership", "", "the next login of a federated user gives the groups of its mapping"},
	{"id_mapping", `public_id NOT IN (SELECT id FROM "user") AND public_id NOT IN (SELECT id FROM "group")`, "users and groups of LDAP: this program does not ask LDAP"},
	{"nonlocal_user", "", "users of LDAP are copied without a password: this program does not ask LDAP"},
	{"token", "", "tokens of a form that Keystone has removed"},
	{"trust", "deleted_at IS NOT NULL", "trusts that were deleted"},
}

// joined are the tables whose rows belong to copied records, or which describe the
// database itself.
var joined = []string{
	"alembic_version", "application_credential_access_rule", "application_credential_role", "federated_user", "id_mapping", "idp_remote_ids", "local_user",
	"migrate_version", "password", "project_option", "project_tag", "role_option", "sensitive_config", "trust_role", "user_option", "whitelisted_config",
}

// absent reports the rows that were not copied, also those of tables that are not
// Keystone's.
func (m *migration) absent(ctx context.Context) error {
	known := map[string]bool{}
	for _, p := range places {
		known[p.table] = true
		if !m.from.tables[p.table] {
			continue
		}
		rows := p.table
		if p.condition != "" {
			rows += " WHERE " + p.condition
		}
		if err := m.leaveRows(ctx, p.table, rows, p.why); err != nil {
			return err
		}
	}
	for _, s := range steps {
		name, _, _ := strings.Cut(s.rows, " ")
		known[strings.Trim(name, `"`)] = true
	}
	for _, name := range joined {
		known[name] = true
	}
	for _, table := range slices.Sorted(maps.Keys(m.from.tables)) {
		if known[table] {
			continue
		}
		if err := m.leaveRows(ctx, table, `"`+strings.ReplaceAll(table, `"`, `""`)+`"`, "the table is not one of Keystone 30"); err != nil {
			return err
		}
	}
	return nil
}

// leaveRows reports how many rows there are.
func (m *migration) leaveRows(ctx context.Context, table, rows, why string) error {
	n, err := m.from.count(ctx, rows)
	if err == nil && n > 0 {
		m.leave(table, n, why)
	}
	return err
}
