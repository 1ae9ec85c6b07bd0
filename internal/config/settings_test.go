package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSettings_TheCommandLineGoesBeforeTheEnvironmentBeforeTheFile(t *testing.T) {
	text := "listen: 127.0.0.1:1\nadmin: {listen: \"127.0.0.1:2\"}\nstore: sqlite:a.db\n" + minimal
	env := vars(map[string]string{
		"ONCE_LISTEN": "127.0.0.1:11", "ONCE_ADMIN_LISTEN": "127.0.0.1:12",
		"ONCE_STORE": "sqlite:/data/b.db", "ONCE_ADMIN_TOKEN": "0123456789abcdef"})
	c := mustParse(t, text, Env{})
	if c.Listen != "127.0.0.1:1" || c.Admin.Listen != "127.0.0.1:2" ||
		c.Store.Path != "/plant/a.db" || c.Store.URL != "sqlite:/plant/a.db" {
		t.Errorf("file: %+v %+v", c.Admin, c.Store)
	}
	c = mustParse(t, text, env)
	if c.Listen != "127.0.0.1:11" || c.Admin.Listen != "127.0.0.1:12" ||
		c.Store.Path != "/data/b.db" || c.Admin.Token != "0123456789abcdef" {
		t.Errorf("environment: %s %+v %+v", c.Listen, c.Admin, c.Store)
	}
	env.Override = Override{Listen: "127.0.0.1:21", AdminListen: "127.0.0.1:22",
		AdminToken: "fedcba9876543210", Store: "sqlite:c.db"}
	c = mustParse(t, text, env)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:21" || c.Admin.Listen != "127.0.0.1:22" ||
		c.Store.Path != filepath.Join(here, "c.db") || c.Admin.Token != "fedcba9876543210" {
		t.Errorf("command line: %s %+v %+v", c.Listen, c.Admin, c.Store)
	}
	if out := printed(t, c); !strings.Contains(out, `listen: "127.0.0.1:21"`) ||
		strings.Contains(out, "fedcba") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestSettings_AWrongValueFromOutsideIsToldByItsName(t *testing.T) {
	_, err := Parse("f", []byte(minimal), vars(map[string]string{
		"ONCE_LISTEN": "nowhere", "ONCE_ADMIN_TOKEN": "hunter2"}))
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != 2 || e.Problems[0].File != "ONCE_LISTEN" ||
		e.Problems[0].Line != 0 || e.Problems[1].File != "ONCE_ADMIN_TOKEN" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is told: %v", err)
	}
}

func TestSettings_AnOpenAdminListenerNeedsAToken(t *testing.T) {
	for _, listen := range []string{":8081", "0.0.0.0:8081", "192.0.2.1:8081", "[::]:8081"} {
		env := Env{Override: Override{AdminListen: listen}}
		if _, err := Parse("f", []byte(minimal), env); err == nil {
			t.Errorf("%s is open without a token", listen)
		}
		env.Override.AdminToken = "0123456789abcdef"
		if _, err := Parse("f", []byte(minimal), env); err != nil {
			t.Errorf("%s with a token: %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:8081", "[::1]:8081", "localhost:8081"} {
		env := Env{Override: Override{AdminListen: listen}}
		if _, err := Parse("f", []byte(minimal), env); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestDuration_IsReadAndWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "10m": 10 * time.Minute,
		"24h": 24 * time.Hour, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
		"1m30s": 90 * time.Second, "0s": 0, "3650d": 3650 * 24 * time.Hour,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%s: %s %v", text, got, ok)
		}
		if back, ok := parseDuration(formatDuration(want)); !ok || back != want {
			t.Errorf("%s is written as %s", text, formatDuration(want))
		}
	}
	for _, text := range []string{"", "5", "s", "1.5h", "-1s", "1h1d", "1s1s", "1 s", "3651d",
		"9999999999999999999s", "1w", "1S", "7d "} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestSize_IsReadAndWritten(t *testing.T) {
	for text, want := range map[string]int64{
		"256KiB": 262144, "1MiB": 1048576, "10MB": 10000000, "512B": 512, "1GiB": 1 << 30,
		"2kB": 2000,
	} {
		if got, ok := parseSize(text); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
		if back, ok := parseSize(formatSize(want)); !ok || back != want {
			t.Errorf("%s is written as %s", text, formatSize(want))
		}
	}
	for _, text := range []string{"", "5", "B", "MiB", "-1B", "+1B", "1.5MiB", "1 MiB", "1mib",
		"99999999GiB", "9223372036854775807KiB"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
