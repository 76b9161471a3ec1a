package benchmark

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// serverName is the name of the program that the benchmarks start.
const serverName = "ostiary"

// ostiary returns the file of the program ostiary: the one in the folder of this program,
// or else the one in PATH. It fails if there is none, or if the two programs were built
// from different commits: a record names one.
func (a *app) ostiary(ctx context.Context) (string, error) {
	if a.server != "" {
		return a.server, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(self), serverName)
	if _, err := os.Stat(file); err != nil {
		if file, err = exec.LookPath(serverName); err != nil {
			return "", fmt.Errorf("the program %s is neither in %s, the folder of this program, nor in PATH: build both with \"make build\"", serverName, filepath.Dir(self))
		}
	}
	out, err := exec.CommandContext(ctx, file, "version", "--json").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", file, err)
	}
	var its map[string]string
	if err := json.Unmarshal(out, &its); err != nil {
		return "", fmt.Errorf("%s version: %w", file, err)
	}
	for _, key := range []string{"version", "commit"} {
		if ours := cli.Version()[key]; its[key] != ours {
			return "", fmt.Errorf("the program %s has the %s %q, and this program %q: build both with \"make build\", or start another build yourself and name it with --target", file, key, its[key], ours)
		}
	}
	a.server = file
	return file, nil
}
