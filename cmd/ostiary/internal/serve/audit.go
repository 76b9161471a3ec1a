package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/trail/audit"
)

// auditKeyName is the name of the key that signs the audit log, in the data folder.
const auditKeyName = "audit.key"

// auditFlags are the settings of the audit log.
type auditFlags struct {
	folder            string
	stdout            bool
	otlp              string
	key               string
	required, content bool
	rotation          audit.Rotation
	buffer            int
	heads             time.Duration
}

func (f *auditFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.folder, "audit-folder", "", "folder of the audit log: who did what, as signed JSON lines; it is created; default: no audit log")
	s.BoolVar(&f.stdout, "audit-stdout", false, "write an audit log to standard output")
	s.StringVar(&f.otlp, "audit-otlp", "", "URL of an OpenTelemetry collector that gets an audit log over OTLP/HTTP, for example http://127.0.0.1:4318")
	s.StringVar(&f.key, "audit-key", "", "PEM file of the ed25519 key that signs audit logs; a missing one is made, with its public key next to it (.pub); default: "+auditKeyName+" in the data folder")
	s.BoolVar(&f.required, "audit-required", false, "refuse requests that change something while the audit log cannot be written, and make each record durable before its request is answered; otherwise lost records are counted")
	cli.Topic(s, "Audit log")
	s.BoolVar(&f.content, "audit-content", false, "add the first 64 KiB of each request that writes to its record, but none of Identity, which have passwords")
	cli.BytesVar(s, &f.rotation.FileBytes, "audit-file-bytes", audit.FileBytesDefault, "size at which a file of the audit log is followed by the next one")
	cli.CountVar(s, &f.rotation.Files, "audit-files", 2, audit.FilesDefault, "how many files of the audit log are kept; those of refusals are a fifth more, and at least 2")
	cli.BytesVar(s, &f.buffer, "audit-buffer-bytes", audit.QueueBytesDefault, "maximum size of the records that wait for the output of an audit log")
	s.DurationVar(&f.heads, "audit-sign-interval", audit.HeadEveryDefault, "interval of signed records in the audit log")
	cli.Rare(s, "Audit log")
}

// on reports whether there is an audit log.
func (f *auditFlags) on() bool { return f.folder != "" || f.stdout || f.otlp != "" }

// check fails if a setting has no effect or no value.
func (f *auditFlags) check(data string) error {
	switch {
	case !f.on() && (f.required || f.content || f.key != ""):
		return fmt.Errorf("%w: --audit-required, --audit-content and --audit-key need an audit log: expected --audit-folder, --audit-stdout or --audit-otlp", cli.ErrUsage)
	case f.on() && f.key == "" && data == cli.InMemory:
		return fmt.Errorf("%w: an audit log without a data folder needs --audit-key FILE", cli.ErrUsage)
	}
	return nil
}

// openAudit opens the audit logs and adds them to the options of the server. The caller
// closes the trail, which is nil without an audit log.
func (s *prepared) openAudit() (*audit.Trail, error) {
	f := &s.flags.audit
	if !f.on() {
		return nil, nil
	}
	file := f.key
	if file == "" {
		file = filepath.Join(s.Data, auditKeyName)
	}
	if err := cli.CheckKeysMode(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--audit-key: %w", err)
	}
	key, err := audit.Key(file)
	if err != nil {
		return nil, fmt.Errorf("--audit-key: %w", err)
	}
	node, _ := os.Hostname() // a line without a name of the node is valid
	if s.member != nil {
		node = s.member.Self.ID.String()
	}
	options := func(what string) audit.Options {
		return audit.Options{Key: key, Node: node, Required: f.required, QueueBytes: f.buffer, HeadEvery: f.heads, Failed: s.noteFailure("the audit log", "output", what)}
	}
	var logs []*audit.Log
	var refusals *audit.Log
	open := func(l *audit.Log, err error) error {
		if err == nil {
			logs = append(logs, l)
		}
		return err
	}
	if f.folder != "" {
		o := options("folder")
		o.Head = s.noteHead
		if err = open(audit.OpenFolder(f.folder, f.rotation, o)); err == nil {
			o.Name, o.Required = audit.RefusalsName, false // no request needs the record of a refusal
			refusals, err = audit.OpenFolder(f.folder, f.rotation.OfRefusals(), o)
		}
	}
	if err == nil && f.stdout {
		err = open(audit.OpenStream(writerOnly{s.Out}, options("stdout")))
	}
	if err == nil && f.otlp != "" {
		var sender *otlpSender
		if sender, err = openOTLP(f.otlp, node); err == nil {
			err = open(audit.OpenSender(sender, options("otlp")))
		}
	}
	trail := audit.NewTrail(f.required, logs...)
	if refusals != nil {
		trail.KeepRefusals(refusals)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), trail.Close())
	}
	s.options.Audit, s.options.AuditContent = trail, f.content
	s.options.Collectors = append(s.options.Collectors, newAuditFigures(trail))
	s.log.Info("audit log", "folder", f.folder, "stdout", f.stdout, "otlp", f.otlp, "key", file, "required", f.required)
	return trail, nil
}

// noteHead logs the head of an audit log, for audit verify --against.
func (s *prepared) noteHead(h audit.Head) {
	s.log.Info("audit head", "record", h.Number, "head", h.String())
}

// toStdout is the value of a folder that means standard output.
const toStdout = "-"

// linesIn returns a function that opens a log in a folder, or on standard output.
func (s *prepared) linesIn(folder string, r audit.Rotation) func(audit.Options) (*audit.Log, error) {
	return func(o audit.Options) (*audit.Log, error) {
		if folder == toStdout {
			return audit.OpenStream(writerOnly{s.Out}, o)
		}
		return audit.OpenFolder(folder, r, o)
	}
}

// noteFailure returns a function that logs why what cannot be written, and with nil that it
// can again, with more attributes.
func (s *prepared) noteFailure(what string, more ...any) func(error) {
	return func(err error) {
		if err != nil {
			s.log.Error(what+" cannot be written", append(slices.Clip(more), "error", err)...)
			return
		}
		s.log.Info(what+" can be written again", more...)
	}
}

// writerOnly hides everything but Write.
type writerOnly struct{ io.Writer }

// auditReload returns a reload that adds a record of the keys that it has changed.
func (s *prepared) auditReload(reload func() error) func() error {
	return func() error {
		before := s.options.Keys.Names()
		err := reload()
		if s.options.Audit == nil || s.options.Keys == nil {
			return err
		}
		r := audit.Record{Time: time.Now(), Kind: audit.KindKeys, Operation: "Reload", Outcome: audit.Made, Why: keysChange(before, s.options.Keys.Names())}
		if err != nil {
			r.Outcome, r.Why = audit.Failed, err.Error()
		}
		return errors.Join(err, s.options.Audit.Record(&r))
	}
}

// keysChange describes which keys were added and removed.
func keysChange(before, after []string) string {
	list := func(names, others []string) string {
		var found []string
		for _, name := range names {
			if !slices.Contains(others, name) {
				found = append(found, name)
			}
		}
		if found == nil {
			return "none"
		}
		return strings.Join(found, ", ")
	}
	return fmt.Sprintf("%d keys; added: %s; removed: %s", len(after), list(after, before), list(before, after))
}

// auditFigures collects the metrics of the audit log.
type auditFigures struct {
	trail         *audit.Trail
	lost, failing *prometheus.Desc
}

func newAuditFigures(trail *audit.Trail) *auditFigures {
	return &auditFigures{trail,
		prometheus.NewDesc("ostiary_audit_records_lost_total", "Records that the audit logs have lost.", nil, nil),
		prometheus.NewDesc("ostiary_audit_failing", "1 while an audit log cannot be written, otherwise 0.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (f *auditFigures) Describe(to chan<- *prometheus.Desc) {
	to <- f.lost
	to <- f.failing
}

// Collect implements [prometheus.Collector].
func (f *auditFigures) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(f.lost, prometheus.CounterValue, float64(f.trail.Lost()))
	to <- prometheus.MustNewConstMetric(f.failing, prometheus.GaugeValue, number(f.trail.Failing()))
}

// auditRole adds a record of the role that the node has now.
func (m *member) auditRole(s lease.Status) {
	_ = m.trail.Load().Record(&audit.Record{Time: time.Now(), Kind: audit.KindNode, Operation: "Role", Outcome: audit.Made,
		Why: fmt.Sprintf("%s; holder %s at %s; epoch %d", roleNames[s.Role], s.Holder.ID, s.Holder.Address, s.Lease.Epoch)}) // no request waits for it
}
