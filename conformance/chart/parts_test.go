package chart

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type manifest struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		Claims  []any `yaml:"volumeClaimTemplates"`
		Ports   []struct{ Name string }
		Targets []struct{ Port string } `yaml:"endpoints"`
	}
}

type pod struct {
	Grace      int  `yaml:"terminationGracePeriodSeconds"`
	Mount      bool `yaml:"automountServiceAccountToken"`
	Containers []struct {
		Args  []string
		Ports []struct {
			Name string
			Port int `yaml:"containerPort"`
		}
		Mounts []struct {
			Name string
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
		Startup   probe `yaml:"startupProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Readiness probe `yaml:"readinessProbe"`
		Security  struct {
			ReadOnly bool `yaml:"readOnlyRootFilesystem"`
			Escalate bool `yaml:"allowPrivilegeEscalation"`
		} `yaml:"securityContext"`
		Lifecycle struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
	}
	Security struct {
		NonRoot bool `yaml:"runAsNonRoot"`
		User    int  `yaml:"runAsUser"`
		Group   int  `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Volumes []struct {
		Name   string
		Secret *struct {
			Name string `yaml:"secretName"`
			Mode int    `yaml:"defaultMode"`
		}
	}
}

type probe struct {
	Get struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

// checkParts requires that the parts of manifests fit each other.
func checkParts(t *testing.T, file, text string) {
	t.Helper()
	var set, monitor *manifest
	var services []*manifest
	kinds := map[string]int{}
	for from := yaml.NewDecoder(strings.NewReader(text)); ; {
		m := &manifest{}
		err := from.Decode(m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && m.Kind != "Service" { // its selector has no matchLabels
			t.Fatalf("%s: %v", file, err)
		}
		kinds[m.Kind]++
		switch m.Kind {
		case "StatefulSet":
			set = m
		case "Service":
			services = append(services, m)
		case "ServiceMonitor":
			monitor = m
		}
	}
	if set == nil || len(set.Spec.Template.Spec.Containers) != 1 || kinds["Service"] != 2 {
		t.Fatalf("%s: %v, expected a StatefulSet of one container and two Services", file, kinds)
	}
	for name, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Metadata.Labels[name] != value {
			t.Errorf("%s: pods lack the label %s: %s of the selector", file, name, value)
		}
	}
	p := set.Spec.Template.Spec
	c := p.Containers[0]
	if !p.Security.NonRoot || p.Security.User != 65532 || p.Security.Group != 65532 || p.Mount || !c.Security.ReadOnly || c.Security.Escalate {
		t.Errorf("%s: the pod has more rights than it needs: %+v, %+v", file, p.Security, c.Security)
	}
	flags := map[string]string{}
	for _, arg := range c.Args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	var drain, stop int
	if _, err := fmt.Sscanf(flags["drain-time"]+" "+flags["stop-timeout"], "%ds %ds", &drain, &stop); err != nil || p.Grace < c.Lifecycle.PreStop.Sleep.Seconds+drain+stop+5 {
		t.Errorf("%s: %d seconds until a pod is killed, which waits for %d, --drain-time %s and --stop-timeout %s: %v", file, p.Grace,
			c.Lifecycle.PreStop.Sleep.Seconds, flags["drain-time"], flags["stop-timeout"], err)
	}
	if flags["auth"] != "keys" || flags["auth-keys-file"] == "" {
		t.Errorf("%s: the server starts open: %q", file, c.Args)
	}
	for path, probes := range map[string][]probe{"/healthz": {c.Startup, c.Liveness}, "/readyz": {c.Readiness}} {
		for _, have := range probes {
			port := slices.IndexFunc(c.Ports, func(p struct {
				Name string
				Port int `yaml:"containerPort"`
			}) bool {
				return p.Name == have.Get.Port
			})
			if have.Get.Path != path || port < 0 || !strings.HasSuffix(flags[have.Get.Port], fmt.Sprint("0.0.0.0:", c.Ports[port].Port)) {
				t.Errorf("%s: a probe asks %+v, and the server has %q", file, have.Get, c.Args)
			}
		}
	}
	// Files of flags are in a volume, and the volumes of Secrets are closed to others.
	mounts := map[string]string{}
	for _, m := range c.Mounts {
		mounts[m.Path] = m.Name
	}
	for name, value := range flags {
		if strings.HasPrefix(value, "/etc/") && mounts[value]+mounts[filepath.Dir(value)] == "" {
			t.Errorf("%s: --%s=%s is in no volume", file, name, value)
		}
	}
	named := map[string]bool{"data": len(set.Spec.Claims) == 1}
	for _, v := range p.Volumes {
		named[v.Name] = true
		if v.Secret != nil && (v.Secret.Mode != 0o440 || v.Secret.Name == "") {
			t.Errorf("%s: the volume %s has %+v", file, v.Name, *v.Secret)
		}
	}
	for path, name := range mounts {
		if !named[name] {
			t.Errorf("%s: %s is of the volume %q, which the pod does not have", file, path, name)
		}
	}
	if several := set.Spec.Replicas > 1; several != (kinds["PodDisruptionBudget"] == 1) || several != (flags["nodes-address"] != "") {
		t.Errorf("%s: %d replicas, objects %v, --nodes-address %q", file, set.Spec.Replicas, kinds, flags["nodes-address"])
	}
	if monitor != nil {
		found := slices.DeleteFunc(services, func(s *manifest) bool {
			for name, value := range monitor.Spec.Selector.MatchLabels {
				if s.Metadata.Labels[name] != value {
					return true
				}
			}
			return false
		})
		if len(found) != 1 || !slices.ContainsFunc(found[0].Spec.Ports, func(p struct{ Name string }) bool { return p.Name == monitor.Spec.Targets[0].Port }) {
			t.Errorf("%s: the ServiceMonitor finds %d Services, expected one with the port %s", file, len(found), monitor.Spec.Targets[0].Port)
		}
	}
}
