package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const chartFolder = "packaging/chart"

// charted makes the package of the Helm chart in the folder dir, and returns its name. The
// chart and what it installs have the version of the release.
func charted(s *source, dir string) (string, error) {
	tracked, err := git(s.root, "ls-files", "--", chartFolder)
	if err != nil {
		return "", err
	}
	var files []file
	for name := range strings.SplitSeq(tracked, "\n") {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return "", err
		}
		inside := strings.TrimPrefix(name, chartFolder+"/")
		switch inside {
		case "Chart.yaml":
			if data, err = chartVersions(data, s.version); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		case "README.md":
			data = []byte(s.linked(string(data), chartFolder, func(string) bool { return false }))
		}
		files = append(files, file{name: path.Join("ostiary", inside), mode: 0o644, data: data})
	}
	data, err := packTarGz(files, s.date)
	if err != nil {
		return "", err
	}
	name := "ostiary-" + s.version + ".tgz"
	return name, os.WriteFile(filepath.Join(dir, name), data, 0o644)
}

// chartVersions sets both versions of Chart.yaml. The version of the application is the tag
// of the image.
func chartVersions(text []byte, version string) ([]byte, error) {
	for key, value := range map[string]string{"version": version, "appVersion": imageTag(version)} {
		line := regexp.MustCompile(`(?m)^` + key + `: .*$`)
		if n := len(line.FindAll(text, -1)); n != 1 {
			return nil, fmt.Errorf("%d lines with %s, expected one", n, key)
		}
		text = line.ReplaceAllLiteral(text, []byte(key+": "+value))
	}
	return text, nil
}
