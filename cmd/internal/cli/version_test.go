package cli

import "testing"

func TestVersionText(t *testing.T) {
	t.Parallel()
	v := map[string]string{"version": "v0.1.0", "go": "go1.26.8", "platform": "linux/amd64"}
	if got, want := versionText(v), "v0.1.0 (go1.26.8, linux/amd64)"; got != want {
		t.Errorf("without a commit: %s, expected %s", got, want)
	}
	v["commit"], v["date"] = "d5c22d0e1b3f29df58ba2b4d1250f0b6f3a5e117", "2026-11-28T13:54:58Z"
	if got, want := versionText(v), "v0.1.0 (commit d5c22d0e1b3f of 2026-11-28, go1.26.8, linux/amd64)"; got != want {
		t.Errorf("with a commit: %s, expected %s", got, want)
	}
}
