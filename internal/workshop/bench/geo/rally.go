package geo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// WriteRally writes the results of records in the form of Rally, one file for each
// scenario, into folders with the study's names: SYSTEM/DATABASE-…/rally_home/NAME.json.
// Its notebook reads the folder of one system.
func WriteRally(folder string, all []Record) error {
	for i := range all {
		r := &all[i]
		home := filepath.Join(folder, r.Cell.folder(), r.Cell.Name(), "rally_home")
		if err := os.MkdirAll(home, 0o755); err != nil {
			return err
		}
		for _, s := range r.Scenarios {
			title := fmt.Sprintf("%s; hash cost %d; %s; commit %s", r.Cell, r.Cell.Rounds, r.Mark, r.Commit)
			if played := s.Result.Workload.Times; played < s.Times {
				title += fmt.Sprintf("; %d of %d iterations of each instance", played, s.Times)
			}
			if err := writeRally(filepath.Join(home, s.Result.Workload.Scenario+".json"), title, s.Result); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeRally(name, title string, result bench.RallyResult) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(bench.WriteRally(file, title, []bench.RallyResult{result}), file.Close())
}
