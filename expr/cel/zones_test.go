package cel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLoadZone loads every zone, and compares some with what is known of them. The machine's
// own files cannot help: a zone that they lack is among them.
func TestLoadZone(t *testing.T) {
	t.Parallel()
	if len(zonesByName()) < 500 {
		t.Errorf("%d zones", len(zonesByName()))
	}
	for name := range zonesByName() {
		if zone, err := loadZone(name); err != nil || zone.String() != name && name != "UTC" {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{"": "12:00", "UTC": "12:00", "Europe/Berlin": "14:00", "America/New_York": "08:00", "Asia/Kolkata": "17:30", "US/Central": "07:00", "EST": "07:00"} {
		zone, err := loadZone(name)
		if err != nil || at.In(zone).Format("15:04") != want {
			t.Errorf("%s: %v %v, want %s", name, at.In(zone), err, want)
		}
	}
	for _, name := range []string{"Local", "europe/berlin", "Europe", "Europe/", "../Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Nowhere", strings.Repeat("a", 1000)} {
		if zone, err := loadZone(name); err == nil || zone != nil || len(err.Error()) > 200 {
			t.Errorf("%s: %v %v", name, zone, err)
		}
	}
}

// TestNewest compares the zones with those of the Go release that builds the program.
func TestNewest(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skip("this distribution of Go has no lib/time/zoneinfo.zip")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, zoneArchive) {
		t.Error("the zones are not those of this Go release: make zones copies them")
	}
}
