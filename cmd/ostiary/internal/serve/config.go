package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// configBytesMax bounds a configuration file, in bytes.
const configBytesMax = 1 << 20

// applyConfig sets each flag that neither the command line nor the environment
// sets from a YAML file. An unknown name is an error, so that a misspelt setting
// is not silently ignored.
func applyConfig(flags *pflag.FlagSet, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer f.Close()
	settings, document := map[string]yaml.Node{}, yaml.Node{}
	err = yaml.NewDecoder(io.LimitReader(f, configBytesMax)).Decode(&document)
	if err == nil {
		err = document.Decode(&settings)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: %w", cli.ErrUsage, file, err)
	}
	lines := map[string]int{} // on which a setting is
	if len(document.Content) == 1 {
		for _, key := range document.Content[0].Content {
			if lines[key.Value] == 0 {
				lines[key.Value] = key.Line
			}
		}
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := flags.Lookup(name)
		if f == nil || name == "config" || name == "help" || name == "help-all" {
			var known []string
			flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
			return fmt.Errorf("%w: %s:%d: unknown setting %q%s", cli.ErrUsage, file, lines[name], name, cli.Suggestion(name, known))
		}
		value, err := configValue(settings[name])
		if err != nil {
			return fmt.Errorf("%w: %s: %s: %w", cli.ErrUsage, file, name, err)
		}
		if value == "" {
			return fmt.Errorf("%w: %s:%d: the setting %s has no value", cli.ErrUsage, file, lines[name], name)
		}
		if f.Changed {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				return cli.ValueError(file+": "+name, invalid)
			}
			return fmt.Errorf("%w: %s: %s: %w", cli.ErrUsage, file, name, err)
		}
	}
	return nil
}

// configValue returns a scalar, or a list in the form of flags: separated by
// commas.
func configValue(n yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, nil
	case yaml.SequenceNode:
		var items []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || strings.ContainsAny(item.Value, ",\"\n") {
				return "", errors.New("a list item is not a plain word")
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("expected a value or a list of values")
}
