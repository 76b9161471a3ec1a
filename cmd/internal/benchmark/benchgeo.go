package benchmark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/page"
)

// geoBench are the flags of the study of several regions.
type geoBench struct {
	geo.Options
	short bool
	only  []string
	page  string // file of the page; "" writes none
	rally string // folder of Rally's results; "" writes none
	// figures is the folder of the pictures of the four factors; "" writes none.
	figures string
	before  string // folder of records of an earlier build; "" compares with none
	show    bool   // play no cell
}

func (a *app) benchGeo() *cobra.Command {
	f := &geoBench{}
	cmd := &cobra.Command{Use: "geo", Short: "The study of multi-region Keystone deployments: 3 to 45 instances, far apart, on several databases", Args: cobra.NoArgs,
		Long: "Play the study \"Evaluation of OpenStack Multi-Region Keystone Deployments\" (2018) with the program ostiary and with the real Keystone: Rally's\n" +
			"seven scenarios on 3, 9 and 45 instances that share a database (MariaDB, PostgreSQL, Galera), 0, 50 and 150 ms apart, one way, under low and\n" +
			"high load, and with instances in three zones. Instances and databases are started on this machine, in network namespaces whose packets a\n" +
			"delay carries; that needs root. Without it, proxies delay TCP connections, and Galera and zones are left out.\n\n" +
			"The leases of ostiary and the limit of waiting hashes follow from the round trips that the network measures of itself, and from a rehearsal\n" +
			"of a part of the load; the record has them. A cell in which other programs used more than 5 % of a processor is marked as disturbed.\n\n" +
			"Each cell writes its record at its end and is not played again, so the command can be ended at any time and started again. To play a\n" +
			"cell again, remove its record. A cell that failed has a record too.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBenchGeo(cmd, f) }}
	s := cmd.Flags()
	s.StringVar(&f.Records, "records", "geo-records", "folder of the records")
	s.BoolVar(&f.short, "short", false, "play the short form: 3 instances, 0 and 50 ms, low load, hashes of cost 4, --part 0.1, --scenario-max 5s; it takes less than ten minutes")
	s.StringSliceVar(&f.only, "only", nil, `play only cells whose names begin so, for example "ostiary-galera-9" or "keystone"`)
	s.DurationVar(&f.For, "for", 0, "begin no cell that would not end within this time; 0 plays all")
	s.DurationVar(&f.ScenarioMax, "scenario-max", 5*time.Minute, "play fewer iterations of a scenario than Rally's sample if they would take longer, as estimated from the first one")
	s.Float64Var(&f.Part, "part", 1, "part of the iterations of Rally's samples to play")
	s.StringVar(&f.Keystone, "keystone", "", "Python environment with the real Keystone 30 and uwsgi; without it, its cells are left out")
	s.StringVar(&f.Work, "work", "", "folder for the data of running cells; default: /dev/shm, which is in memory as in the study, or the system's temporary folder")
	s.StringVar(&f.page, "html", "", "write all records of the folder with figures to this HTML file")
	s.StringVar(&f.rally, "rally-out", "", "write all records of the folder in the form of Rally's results, in folders with the study's names, to this folder")
	s.BoolVar(&f.Proxies, "proxies", false, "delay TCP connections by proxies even where network namespaces are available")
	s.Float64Var(&f.PartHigh, "part-high", 0, "part to play under high load, where every instance plays it; half of it if they are more than 9; default: --part")
	s.StringVar(&f.figures, "figures", "", "write a picture of each factor, for example geo-delay.png, of all records of the folder to this folder")
	s.StringVar(&f.before, "before", "", "folder of records of an earlier build, with which the page compares the writes of the same cells")
	s.BoolVar(&f.show, "show", false, "play no cell, and only show the records")
	s.BoolVar(&f.Again, "again", false, "play cells again of which it is not known that no other program disturbed them: first those that were disturbed, then 9 and 45 instances")
	s.BoolVar(&f.Quiet, "quiet", false, "begin a cell only while other programs use at most 5 % of a processor, and end if they use more for three minutes")
	s.BoolVar(&f.Mix, "mix", false, "accept records of other commits in the folder; the page shows the commits")
	return cmd
}

func (a *app) runBenchGeo(cmd *cobra.Command, f *geoBench) (err error) {
	if f.show {
		return a.showGeo(f)
	}
	if f.Program, err = a.ostiary(cmd.Context()); err != nil {
		return err
	}
	if f.Work == "" {
		if at, err := os.Stat("/dev/shm"); err == nil && at.IsDir() {
			f.Work = "/dev/shm"
		}
	}
	all := geo.Full()
	if f.short {
		all = geo.Short()
		if !cmd.Flags().Changed("part") {
			f.Part = geo.ShortPart
		}
		if !cmd.Flags().Changed("scenario-max") {
			f.ScenarioMax = geo.ShortScenarioMax
		}
	}
	if f.Cells = geo.Only(all, f.only); len(f.Cells) == 0 {
		return fmt.Errorf("%w: --only %v: no cell has a name that begins so", cli.ErrUsage, f.only)
	}
	line := a.Progress()
	f.Progress = line.Show
	f.Tell = func(text string) {
		line.End()
		fmt.Fprintln(a.Err, text)
	}
	left, err := geo.Run(cmd.Context(), f.Options)
	line.End()
	if errors.Is(err, geo.ErrMixed) {
		return fmt.Errorf("%w (--records, --mix)", err)
	}
	if left > 0 {
		fmt.Fprintf(a.Err, "%d cells are left: start the command again\n", left)
	}
	return errors.Join(err, a.showGeo(f))
}

// showGeo prints the records of the folder and writes the files of the flags.
func (a *app) showGeo(f *geoBench) error {
	records, err := geo.Load(f.Records)
	if err != nil {
		return err
	}
	var before []geo.Record
	if f.before != "" {
		if before, err = geo.Load(f.before); err != nil {
			return err
		}
		if len(before) == 0 {
			return fmt.Errorf("--before %s: the folder has no record", f.before)
		}
	}
	if f.rally != "" {
		err = geo.WriteRally(f.rally, records)
	}
	if f.page != "" {
		file, created := os.Create(f.page)
		if created != nil {
			return errors.Join(err, created)
		}
		err = errors.Join(err, page.HTML(file, records, before), file.Close())
	}
	if f.figures != "" {
		for _, name := range page.Overviews() {
			var b bytes.Buffer
			if drawn := page.PNG(&b, name, records); drawn != nil {
				err = errors.Join(err, drawn)
				continue
			}
			err = errors.Join(err, os.WriteFile(filepath.Join(f.figures, "geo-"+name+".png"), b.Bytes(), 0o644))
		}
	}
	return errors.Join(err, a.Print(geo.Sorted(records), func(w io.Writer) { page.Text(w, records) }))
}
