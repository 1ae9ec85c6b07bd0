package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// smallest has one of each thing that a file can name, and of each the least that it can say.
const smallest = `
sources:
  flowing:
    key: ["body.id"]
    event: "body.kind"
    to:
      flow: f
  handed:
    key: ["body.id"]
    to:
      http: http://127.0.0.1:9000
  own:
    key: ["body.id"]
    to:
      handler: h
  listing:
    key: ["item.id"]
    each:
      items: "body.list"
    to:
      handler: h
  signed:
    key: ["body.id"]
    auth:
      hmac:
        secret: "0123456789abcdef"
        header: X-Signature
    to:
      handler: h
  stamped:
    key: ["body.id"]
    auth:
      hmac:
        secret: "0123456789abcdef"
        header: X-Signature
        signed: "{timestamp}.{body}"
        timestamp:
          header: X-Time
    to:
      handler: h
  known:
    key: ["body.id"]
    auth:
      slack:
        secret: "0123456789abcdef"
    to:
      handler: h
  probed:
    key: ["body.id"]
    probes:
      - text: test
      - when: "body.type == 'ping'"
    to:
      handler: h
  replying:
    key: ["body.id"]
    reply:
      accepted: {}
    to:
      handler: h
  writing:
    key: ["body.id"]
    to:
      document:
        database: ledger
        in: payments
        id: "${body.payment}"
        set:
          status: "${body.status}"
  counting:
    key: ["body.id"]
    to:
      document:
        database: ledger
        in: counts
        id: "${body.meter}"
        inc:
          n: 1
flows:
  f:
    task: "body.task"
    initial: a
    final: [z]
    events:
      go:
        from: [a]
        to: b
        effects:
          - name: called
            to: service
          - name: published
            to: broker
            topic: t
          - name: told
            to: service
            payload: text
      stay:
        from: [b]
      end:
        from: [b]
        to: z
  endless:
    task: "body.task"
    initial: a
    events:
      on:
        from: [a]
        to: b
        again: stale
      off:
        from: [b]
        to: a
        again: stale
resources:
  r: {}
destinations:
  service:
    http:
      url: http://127.0.0.1:9000
  broker:
    mqtt:
      url: mqtt://127.0.0.1:1883
  printed:
    log: {}
databases:
  ledger:
    url: sqlite:ledger.db
gateway:
  upstream: http://127.0.0.1:9000
  auth:
    url: http://127.0.0.1:9001
  scope: none
  routes:
    - match: POST /payments
`

// places says where in that file the fields of a table stand. A table is named by its heading and,
// where a name with a colon stands alone in a line before it, by that name.
var places = map[string][]string{
	"The process":                      {""},
	"Sources":                          {"sources.own", "sources.flowing"},
	"Several callbacks in one message": {"sources.listing"},
	"Probes":                           {"sources.probed.probes.0", "sources.probed.probes.1"},
	"Who the sender is hmac":           {"sources.signed.auth.hmac", "sources.stamped.auth.hmac"},
	"Replies unavailable":              {"sources.replying.reply.accepted"},
	"Targets":                          {"sources.handed.to", "sources.own.to"},
	"Documents": {"sources.writing.to.document",
		"sources.counting.to.document"},
	"Databases":         {"databases.ledger"},
	"Flows":             {"flows.f", "flows.endless"},
	"Flows events.NAME": {"flows.f.events.go", "flows.f.events.stay"},
	"Effects": {"flows.f.events.go.effects.0", "flows.f.events.go.effects.1",
		"flows.f.events.go.effects.2"},
	"Resources resources.KIND": {"resources.r"},
	"Destinations": {"destinations.service", "destinations.broker",
		"destinations.printed"},
	"Destinations mqtt": {"destinations.broker.mqtt"},
	"Destinations http": {"destinations.service.http"},
	"Gateway":           {"gateway"},
	"Gateway A route":   {"gateway.routes.0"},
}

// row is a field in a table of docs/configuration.md, and what stands there as its default.
type row struct{ table, field, value string }

// documented reads the tables of fields.
func documented(t *testing.T) (rows []row) {
	t.Helper()
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z_.]+)`")
	intro := regexp.MustCompile("^`?([A-Za-z_. ]+)`?:$")
	heading, named, in, code := "", "", false, false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, "|")
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
		case strings.HasPrefix(line, "#"):
			heading, named = strings.Trim(line, "# "), ""
		case strings.HasPrefix(line, "| field | default |"):
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
			if m := intro.FindStringSubmatch(line); m != nil {
				named = " " + m[1]
			}
		case in && !strings.HasPrefix(line, "|---"):
			for _, m := range names.FindAllStringSubmatch(cells[1], -1) {
				rows = append(rows, row{heading + named, m[1], strings.TrimSpace(cells[2])})
			}
		}
	}
	return rows
}

// at returns what a path of names and places of lists leads to; nil: nothing.
func (o *out) at(path string) *out {
	for step := range strings.SplitSeq(path, ".") {
		if n, err := strconv.Atoi(step); err == nil && o != nil && n < len(o.items) {
			o = o.items[n]
		} else if step != "" && o != nil {
			o = o.byKey[step]
		}
	}
	return o
}

// under are the paths of a field in the places of its table.
func (r row) under() (paths []string) {
	for _, place := range places[r.table] {
		paths = append(paths, strings.TrimPrefix(place+"."+r.field, "."))
	}
	return paths
}

// given tells whether the smallest file says what stands at a path.
func given(t *testing.T, file any, path string) bool {
	t.Helper()
	for step := range strings.SplitSeq(path, ".") {
		switch v := file.(type) {
		case yaml.MapSlice:
			i := slices.IndexFunc(v, func(m yaml.MapItem) bool { return m.Key == step })
			if i < 0 {
				return false
			}
			file = v[i].Value
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(v) {
				return false
			}
			file = v[n]
		default:
			return false
		}
	}
	return true
}

// readSmallest reads the smallest file as YAML alone.
func readSmallest(t *testing.T) (file yaml.MapSlice) {
	t.Helper()
	err := yaml.UnmarshalWithOptions([]byte(smallest), &file, yaml.UseOrderedMap())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// without returns the smallest file without what stands at a path.
func without(t *testing.T, path string) string {
	t.Helper()
	var drop func(v any, steps []string) any
	drop = func(v any, steps []string) any {
		switch v := v.(type) {
		case yaml.MapSlice:
			i := slices.IndexFunc(v, func(m yaml.MapItem) bool { return m.Key == steps[0] })
			if len(steps) == 1 {
				return slices.Delete(v, i, i+1)
			}
			v[i].Value = drop(v[i].Value, steps[1:])
		case []any:
			n, err := strconv.Atoi(steps[0])
			if err != nil {
				t.Fatal(err)
			}
			v[n] = drop(v[n], steps[1:])
		}
		return v
	}
	out, err := yaml.Marshal(drop(readSmallest(t), strings.Split(path, ".")))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Each row of each table has to be true of a file that says as little as it can: a default that is
// written as code is what the file means, a required field can't be left out, anything else can,
// and is then not there.
func TestDocs_DefaultsAreTrue(t *testing.T) {
	c := mustParse(t, smallest, Env{})
	c.effective.put("store", lineOut("sqlite:once.db")) // the path is made absolute
	literal := regexp.MustCompile("^`([^`]+)`$")
	rows, tables, file := documented(t), map[string]int{}, readSmallest(t)
	for _, r := range rows {
		tables[r.table]++
		if places[r.table] == nil {
			t.Errorf("no place is known of the fields of the table %q", r.table)
		}
		switch m := literal.FindStringSubmatch(r.value); {
		case m != nil:
			r.isDefault(t, c, file, m[1])
		case r.value == "required":
			r.isRequired(t, file)
		default:
			r.isAbsent(t, c, file)
		}
	}
	for table := range maps.Keys(places) {
		if tables[table] == 0 {
			t.Errorf("the table %q isn't found", table)
		}
	}
	if len(rows) < 120 {
		t.Errorf("only %d rows", len(rows))
	}
}

// isDefault compares a default with what is printed, or meant, where the field is left out.
func (r row) isDefault(t *testing.T, c *Config, file any, want string) {
	t.Helper()
	found := 0
	for _, path := range r.under() {
		if given(t, file, path) {
			continue
		}
		if v := c.effective.at(path); v != nil {
			found++
			if got := strings.Trim(v.flow(), `"`); got != want {
				t.Errorf("%s, %s: documented %s, is %s", r.table, path, want, got)
			}
		}
	}
	meant, ok := meanings[r.table+" "+r.field]
	if ok {
		if got := meant(t, c); got != want {
			t.Errorf("%s, %s: documented %s, means %s", r.table, r.field, want, got)
		}
	}
	if found == 0 && !ok {
		t.Errorf("%s: the default %s of %s is not printed: say in meanings what shows it", r.table,
			want, r.field)
	}
}

// isRequired leaves a field out, which has to be refused by its name.
func (r row) isRequired(t *testing.T, file any) {
	t.Helper()
	found := false
	for _, path := range r.under() {
		if !given(t, file, path) {
			continue
		}
		found = true
		last := path[strings.LastIndex(path, ".")+1:]
		_, err := Parse("/plant/once.yaml", []byte(without(t, path)), Env{})
		if err == nil || !strings.Contains(err.Error(), last) {
			t.Errorf("%s: without %s: the error is %v", r.table, path, err)
		}
	}
	if !found {
		t.Errorf("%s: the required %s isn't in the smallest file", r.table, r.field)
	}
}

func loadsWithout(t *testing.T, path string) bool {
	t.Helper()
	_, err := Parse("/plant/once.yaml", []byte(without(t, path)), Env{})
	return err == nil
}

// isAbsent checks that a field that has no default of its own is not in force where it isn't given,
// and means what stands there.
func (r row) isAbsent(t *testing.T, c *Config, file any) {
	t.Helper()
	if meant := meanings[r.table+" "+r.field]; meant != nil {
		if got := meant(t, c); got != r.value {
			t.Errorf("%s, %s: documented %s, means %s", r.table, r.field, r.value, got)
		}
	}
	optional := false // where all places have it, one can be without it
	for _, path := range r.under() {
		if given(t, file, path) {
			parent := path[:strings.LastIndex(path, ".")]
			optional = optional || loadsWithout(t, path) ||
				strings.Contains(r.field, ".") && loadsWithout(t, parent)
			continue
		}
		optional = true
		want, printed := derived[r.table+" "+r.field]
		v := c.effective.at(path)
		switch {
		case printed && (v == nil || v.flow() != want):
			t.Errorf("%s, %s: %s is documented, want it printed as %s", r.table, path, r.value,
				want)
		case !printed && v != nil:
			t.Errorf("%s, %s: %s is documented, is %s", r.table, path, r.value, v.flow())
		}
	}
	if !optional {
		t.Errorf("%s, %s: %q is documented, and it can't be left out", r.table, r.field, r.value)
	}
}

// TestDocs_DefaultsInTheTextAreTrue does the same for those that stand in a sentence.
func TestDocs_DefaultsInTheTextAreTrue(t *testing.T) {
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	where := map[string]string{"probe": "sources.handed.to.probe",
		"tolerance": "sources.known.auth.slack.tolerance"}
	c := mustParse(t, smallest, Env{})
	for _, m := range regexp.MustCompile("`([a-z_.]+)` \\(default `([^`]+)`\\)").
		FindAllStringSubmatch(string(b), -1) {
		switch v := c.effective.at(where[m[1]]); {
		case where[m[1]] == "":
			t.Errorf("no place is known of %s, whose default is %s", m[1], m[2])
		case v == nil || v.flow() != m[2]:
			t.Errorf("%s: documented %s, is %+v", m[1], m[2], v)
		}
		delete(where, m[1])
	}
	for field := range where {
		t.Errorf("the default of %s isn't found", field)
	}
}
