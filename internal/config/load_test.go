package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoad_TheExamplesLoadAndPrintAsAFixedPoint(t *testing.T) {
	for _, file := range []string{
		"../../examples/robots.yaml", "../../examples/gateway.yaml", "example.yaml", "builtin.yaml",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := Load(file, Env{})
			if err != nil {
				t.Fatalf("%v", err)
			}
			first := printed(t, c)
			again, err := Parse(file, []byte(first), Env{})
			if err != nil {
				t.Fatalf("what was printed doesn't load:\n%v", err)
			}
			if second := printed(t, again); second != first {
				t.Errorf("printed again:\n%s\nfirst:\n%s", second, first)
			}
		})
	}
}

func TestPrint_OfEverythingIsAFixedPoint(t *testing.T) {
	env := Env{Override: Override{AdminToken: "0123456789abcdef"}} // as the printed one is hidden
	first := printed(t, mustParse(t, everything, env))
	secret := strings.Repeat("0123456789abcdef", 4) // as text, hex and base64; *** is refused
	filled := strings.ReplaceAll(first, `"***"`, `"`+secret+`"`)
	if second := printed(t, mustParse(t, filled, env)); second != first {
		t.Errorf("printed again:\n%s\nfirst:\n%s", second, first)
	}
}

func TestLoad_RobotsYAMLMeansWhatItSays(t *testing.T) {
	c, err := Load("../../examples/robots.yaml", Env{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := c.Sources[0]
	if s.Name != "rcs" || s.Paths[0] != "/agv/agvCallbackService/agvCallback" ||
		s.Retention != 7*24*time.Hour || s.MaxBody != 262144 || s.MaxDepth != 64 {
		t.Errorf("source: %+v", s)
	}
	m := machine(t, c, "transport")
	if m.Initial != "created" || m.Early != 24*time.Hour || m.Busy.Wait != 10*time.Minute ||
		m.Overdue["running"].After != 30*time.Minute || m.Retention != 7*24*time.Hour {
		t.Errorf("flow: %+v", m)
	}
	if len(m.Events) != 6 || len(m.Starts) != 1 || len(m.Overdue["running"].Effects) != 1 {
		t.Errorf("flow: %d events, starts %v", len(m.Events), m.Starts)
	}
	if got := m.Events["startFE"].AcquireReads; len(got) != 1 || got[0] != "roadway" {
		t.Errorf("acquire reads %v, want roadway", got)
	}
	if !m.Events["finish"].ReleaseAll || len(m.Events["finishFE"].Release) != 1 {
		t.Error("release was read wrongly")
	}
	d := c.Destinations
	if len(d) != 2 || d[0].MQTT == nil || d[0].MQTT.QoS != 1 || d[0].MQTT.Version != "5" ||
		d[0].Policy.Retry.Base != 500*time.Millisecond || d[0].Policy.Retry.Cap != time.Minute {
		t.Errorf("plant: %+v", d[0])
	}
	if d[1].HTTP.URL != "http://127.0.0.1:9000/events" || d[1].Policy.Timeout != 5*time.Second ||
		d[1].Policy.Retry.Attempts != 20 || !d[1].Policy.Block {
		t.Errorf("wms: %+v", d[1])
	}
	want, _ := filepath.Abs("../../examples/once.db")
	if c.Store.Path != want || !c.Store.Create {
		t.Errorf("store: %+v, want %s", c.Store, want)
	}
}

func TestLoad_GatewayYAMLIsKept(t *testing.T) {
	c, err := Load("../../examples/gateway.yaml", Env{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	g := c.Gateway
	if g == nil || g.Upstream != "http://127.0.0.1:3000" || len(g.Routes) != 4 ||
		g.Auth.URL != "http://127.0.0.1:3000/whoami" {
		t.Fatalf("gateway: %+v", g)
	}
	if r := g.Routes[0]; r.Match != "POST /payments" || r.Key != "required" || !r.HoldUnknown ||
		r.Wait != 10*time.Second || r.Retention != 24*time.Hour {
		t.Errorf("route: %+v", r)
	}
}

func TestLoad_TheExamplesAreThoseThatAreHandedOut(t *testing.T) {
	for file, got := range map[string][]byte{"example.yaml": Example(), "builtin.yaml": Builtin()} {
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: %v", file, err)
		}
	}
	c := mustParse(t, string(Builtin()), Env{})
	for _, d := range c.Destinations {
		if d.Log == nil {
			t.Errorf("the built-in example sends to %s", d.Name)
		}
	}
}

func TestLoad_AFileThatIsMissingOrTooLargeIsTold(t *testing.T) {
	none := filepath.Join(t.TempDir(), "no.yaml")
	if _, err := Load(none, Env{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large, Env{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("large file: %v", err)
	}
}

func TestParse_OddBytesAreRefusedAtTheirPlace(t *testing.T) {
	tests := map[string]struct {
		src  string
		line int
		col  int
	}{
		"invalid UTF-8": {"a: 1\nbé: \xff\n", 2, 5},
		"NUL":           {"a: \x00\n", 1, 4},
		"escape":        {"a: 1\n\n  b: \x1b[0m\n", 3, 6},
		"lone CR":       {"a: 1\rb: 2\n", 1, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.src), Env{})
			var e *Error
			if !errors.As(err, &e) || e.Problems[0].Line != tt.line ||
				e.Problems[0].Column != tt.col {
				t.Errorf("got %v, want line %d column %d", err, tt.line, tt.col)
			}
		})
	}
}

func TestParse_ABOMAndCRLFAreAccepted(t *testing.T) {
	text := "\uFEFF" + strings.ReplaceAll(minimal, "\n", "\r\n")
	c := mustParse(t, text, Env{})
	if c.Listen != "127.0.0.1:8080" || len(c.Sources) != 1 {
		t.Errorf("%+v", c)
	}
	bad := strings.Replace(text, `"body.id"`, `"body.id +"`, 1)
	_, err := Parse("f", []byte(bad), Env{})
	var e *Error
	if !errors.As(err, &e) || e.Problems[0].Line != 3 || e.Problems[0].Column != 21 {
		t.Errorf("got %v, want 3:21", err)
	}
}

func TestParse_LargeAndDeepInputEndsSoon(t *testing.T) {
	const soon = 20 * time.Second // seconds under the race detector; quadratic work takes minutes
	const size = maxFileBytes / 8
	inputs := map[string]string{
		"brackets":  strings.Repeat("[", size),
		"dashes":    strings.Repeat("- ", size/2),
		"questions": strings.Repeat("? ", size/2),
		"tags":      strings.Repeat("!a ", size/3),
		"anchors":   strings.Repeat("&a ", size/3),
		"braces":    strings.Repeat("{a: ", size/4),
		"problems":  "sources:\n" + strings.Repeat("  'a b': {}\n", 4000),
		"words":     strings.Repeat("[],", size/3),
	}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			if _, err := Parse("f", []byte(in), Env{}); err == nil {
				t.Error("accepted")
			}
			if took := time.Since(begin); took > soon {
				t.Errorf("took %s", took)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(minimal)
	f.Add(string(Example()))
	f.Add(everything)
	f.Add(secrets)
	files, err := filepath.Glob("testdata/refusals/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f.yaml", []byte(text), vars(map[string]string{"A": "b"}))
		var e *Error
		if err != nil && (!errors.As(err, &e) || len(e.Problems) == 0 || e.Error() == "") {
			t.Fatalf("an error without a problem: %v", err)
		}
		if err != nil {
			return
		}
		first := printed(t, c)
		again, err := Parse("f.yaml", []byte(first), vars(map[string]string{"A": "b"}))
		if err != nil {
			if strings.Contains(first, masked) {
				return // a hidden secret may be too short, or no URL
			}
			t.Fatalf("what was printed doesn't load: %v\n%s", err, first)
		}
		if second := printed(t, again); second != first {
			t.Fatalf("printed:\n%s\nthen:\n%s", first, second)
		}
	})
}

func TestFlow_IsKeptAsLongAsTheSourcesThatFeedIt(t *testing.T) {
	text := strings.Replace(minimal, "    event", "    retention: 30d\n    event", 1)
	c := mustParse(t, text, Env{})
	if got := machine(t, c, "f").Retention; got != 30*24*time.Hour {
		t.Errorf("got %s, want 30d", got)
	}
	if out := printed(t, c); strings.Count(out, "retention: 30d") != 2 {
		t.Errorf("printed:\n%s", out)
	}
	text = strings.Replace(minimal, "    event", "    retention: 1d\n    event", 1)
	if got := machine(t, mustParse(t, text, Env{}), "f").Retention; got != 7*24*time.Hour {
		t.Errorf("got %s, want 7d", got)
	}
}
