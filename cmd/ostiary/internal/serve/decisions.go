package serve

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/decisions"
)

// decisionFlags are the settings of the decision log.
type decisionFlags struct {
	folder   string
	sample   float64
	masks    []string
	block    bool
	buffer   int
	rotation audit.Rotation
}

func (f *decisionFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.folder, "decision-log", "", "folder of the decision log: every check with its answer, as JSON lines; it is created; - is standard output; default: no decision log")
	s.Float64Var(&f.sample, "decision-sample", 1, "part of the decisions that is logged, from 0 to 1")
	s.StringSliceVar(&f.masks, "decision-mask", nil, "parameters of conditions, and attributes, whose values the decision log leaves out; * is all")
	cli.Topic(s, "Decision log")
	s.BoolVar(&f.block, "decision-block", false, "let checks wait while the buffer of the decision log is full; otherwise lost decisions are counted")
	cli.BytesVar(s, &f.buffer, "decision-buffer-bytes", audit.QueueBytesDefault, "maximum size of the decisions that wait for the disk")
	cli.BytesVar(s, &f.rotation.FileBytes, "decision-file-bytes", audit.FileBytesDefault, "size at which a file of the decision log is followed by the next one")
	cli.CountVar(s, &f.rotation.Files, "decision-files", 2, audit.FilesDefault, "how many files of the decision log are kept")
	cli.Rare(s, "Decision log")
}

// openDecisions opens the decision log. It returns nil if there is none.
func (s *prepared) openDecisions() (*decisions.Log, error) {
	f := &s.flags.decisions
	if f.sample < 0 || f.sample > 1 {
		return nil, fmt.Errorf("%w: invalid --decision-sample %g: expected a number from 0 to 1", cli.ErrUsage, f.sample)
	}
	if f.folder == "" {
		if len(f.masks) > 0 || f.block || f.sample != 1 {
			return nil, fmt.Errorf("%w: --decision-mask, --decision-block and --decision-sample need --decision-log", cli.ErrUsage)
		}
		return nil, nil
	}
	node, _ := os.Hostname() // a line without a name of the node is valid
	o := decisions.Options{Sample: f.sample, Masks: f.masks, Block: f.block, BufferBytes: f.buffer, Node: node, Version: cli.Version()["version"], Failed: s.noteFailure("the decision log")}
	l, err := decisions.Open(s.linesIn(f.folder, f.rotation), o)
	if err != nil {
		return nil, fmt.Errorf("--decision-log: %w", err)
	}
	s.options.Collectors = append(s.options.Collectors, newDecisionFigures(l))
	return l, nil
}

// decisionFigures collects the metrics of the decision log.
type decisionFigures struct {
	log                     *decisions.Log
	recorded, lost, failing *prometheus.Desc
}

func newDecisionFigures(l *decisions.Log) *decisionFigures {
	return &decisionFigures{l,
		prometheus.NewDesc("ostiary_decisions_logged_total", "Decisions that the decision log got.", nil, nil),
		prometheus.NewDesc("ostiary_decisions_lost_total", "Decisions that the decision log has lost.", nil, nil),
		prometheus.NewDesc("ostiary_decisions_failing", "1 while the decision log cannot be written, otherwise 0.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (f *decisionFigures) Describe(to chan<- *prometheus.Desc) {
	to <- f.recorded
	to <- f.lost
	to <- f.failing
}

// Collect implements [prometheus.Collector].
func (f *decisionFigures) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(f.recorded, prometheus.CounterValue, float64(f.log.Recorded()))
	to <- prometheus.MustNewConstMetric(f.lost, prometheus.CounterValue, float64(f.log.Lost()))
	to <- prometheus.MustNewConstMetric(f.failing, prometheus.GaugeValue, number(f.log.Failing()))
}
