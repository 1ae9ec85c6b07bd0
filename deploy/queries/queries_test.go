package queries_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// ofTheScrape are labels that Prometheus itself gives to what it scrapes.
var ofTheScrape = []string{"job", "instance"}

// query is one PromQL expression, and where it stands.
type query struct{ at, text string }

func TestQueriesNameOnlyWhatARunningServerShows(t *testing.T) {
	s := serveAndScrape(t)
	for name, all := range map[string][]query{
		"dashboard":     dashboard(t),
		"alerts":        alerts(t),
		"documentation": slices.Concat(page(t, "docs/operating.md"), page(t, "deploy/README.md")),
	} {
		if len(all) < 2 {
			t.Errorf("%s: only %d queries were found", name, len(all))
		}
		for _, q := range all {
			for _, wrong := range s.check(q.text) {
				t.Errorf("%s: %s\n\t%s", q.at, wrong, q.text)
			}
		}
	}
}

// A check that lets everything pass would hold nothing.
func TestWrongQueriesAreFound(t *testing.T) {
	s := read(t, strings.Join([]string{
		`# TYPE c_total counter`, `c_total{source="a",outcome="x"} 1`,
		`# TYPE g gauge`, `g{state="dead"} 1`,
		`# TYPE h histogram`, `h_bucket{source="a",le="+Inf"} 1`, `h_sum{source="a"} 1`,
		`h_count{source="a"} 1`, ``}, "\n"))
	for text, want := range map[string]string{
		`sum(rate(c_total{outcome="x"}[5m]))`:              "",
		`g{state=~"dead|held"} > 0`:                        `no state="held"`,
		`g{state=~"dead"} > 0`:                             "",
		`g{states="dead"}`:                                 "no label states",
		`gone > 0`:                                         "no metric gone",
		`rate(g[5m])`:                                      "rate of g, which is no counter",
		`sum by (outcom) (c_total)`:                        "by outcom",
		`sum by (outcome) (rate(c_total[5m])) > 0`:         "",
		`histogram_quantile(0.9, rate(h_bucket[5m]))`:      "",
		`histogram_quantile(0.9, sum(rate(h_bucket[5m])))`: "without le",
		`h > 0`:                                   "no metric h",
		`sum(rate(c_total[5m])`:                   "parse",
		`up{job="x"} == 0`:                        "",
		`g{job="x",instance=~".*"}`:               "",
		`g{state=~".*"}`:                          "",
		`{state="dead"}`:                          "without a name",
		`changes(g[1h]) > 3`:                      "",
		`sum by (le) (rate(c_total[5m]))`:         "by le",
		`g unless on (nothing) g`:                 "on nothing",
		`sum by (job) (g) > on (job) sum(up)`:     "",
		`sum without (state) (g) > 0`:             "",
		`c_total{outcome!="y"} > 0`:               `no outcome="y"`,
		`histogram_quantile(0.9, sum by (le)(g))`: "by le",
	} {
		got := s.check(text)
		if want == "" && len(got) > 0 || want != "" && !strings.Contains(fmt.Sprint(got), want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// check says what is wrong with a query.
func (s *shown) check(text string) (wrong []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{"parse: " + err.Error()}
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			wrong = append(wrong, s.selector(n)...)
		case *parser.AggregateExpr:
			wrong = append(wrong, s.grouped("by", n.Grouping, n.Expr)...)
		case *parser.BinaryExpr:
			if m := n.VectorMatching; m != nil && m.On {
				wrong = append(wrong, s.grouped("on", m.MatchingLabels, n)...)
			}
		case *parser.Call:
			wrong = append(wrong, s.call(n)...)
		}
		return nil
	})
	return wrong
}

// selector says what of a selector no series has.
func (s *shown) selector(v *parser.VectorSelector) (wrong []string) {
	if v.Name == "" {
		return []string{"a selector without a name of a metric"}
	}
	name, bucket, ok := s.family(v.Name)
	if !ok && v.Name != "up" { // Prometheus makes that one
		return []string{"there is no metric " + v.Name}
	}
	for _, m := range v.LabelMatchers {
		values := s.labels[name][m.Name]
		switch {
		case m.Name == model.MetricNameLabel, slices.Contains(ofTheScrape, m.Name):
		case bucket && m.Name == model.BucketLabel:
		case values == nil:
			wrong = append(wrong, fmt.Sprintf("%s has no label %s", v.Name, m.Name))
		default:
			for _, one := range chosen(m) {
				if !values[one] {
					wrong = append(wrong, fmt.Sprintf("%s has no %s=%q", v.Name, m.Name, one))
				}
			}
		}
	}
	return wrong
}

// chosen are the values that a matcher names: one, or alternatives. A pattern names none.
func chosen(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return []string{m.Value}
	}
	all := strings.Split(m.Value, "|")
	if slices.ContainsFunc(all, func(v string) bool { return regexp.QuoteMeta(v) != v }) {
		return nil
	}
	return all
}

// grouped says which labels no series below an expression has.
func (s *shown) grouped(how string, by []string, below parser.Expr) (wrong []string) {
	known := slices.Clone(ofTheScrape)
	parser.Inspect(below, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			name, bucket, _ := s.family(v.Name)
			for label := range s.labels[name] {
				known = append(known, label)
			}
			if bucket {
				known = append(known, model.BucketLabel)
			}
		}
		return nil
	})
	for _, label := range by {
		if !slices.Contains(known, label) {
			wrong = append(wrong, fmt.Sprintf("%s %s, which nothing below it has", how, label))
		}
	}
	return wrong
}

// call says where a function gets what it makes no sense of.
func (s *shown) call(c *parser.Call) (wrong []string) {
	switch c.Func.Name {
	case "rate", "irate", "increase":
		parser.Inspect(c.Args[0], func(n parser.Node, _ []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			name, _, found := s.family(v.Name)
			kind := s.types[name]
			if found && kind != dto.MetricType_COUNTER && kind != dto.MetricType_HISTOGRAM {
				wrong = append(wrong, fmt.Sprintf("%s of %s, which is no counter", c.Func.Name,
					v.Name))
			}
			return nil
		})
	case "histogram_quantile":
		sum, ok := c.Args[1].(*parser.AggregateExpr)
		if ok && slices.Contains(sum.Grouping, model.BucketLabel) == sum.Without {
			wrong = append(wrong, "a quantile of buckets that were summed without le")
		}
	}
	return wrong
}

// dashboard are the queries of the dashboard, with what Grafana fills in.
func dashboard(t *testing.T) (all []query) {
	t.Helper()
	var d struct {
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct {
			List []struct{ Name, Expr string }
		}
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	b := file(t, "deploy/grafana/once.json")
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	// For a variable Grafana fills in what was chosen of it; for all of it, `.*`.
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$source", ".*",
		"$route", ".*")
	add := func(at, text string) {
		all = append(all, query{"dashboard, " + at, fill.Replace(text)})
	}
	values := regexp.MustCompile(`^label_values\((.+), ([a-z]+)\)$`)
	for _, v := range d.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			add("variable "+v.Name, "count by ("+m[2]+") ("+m[1]+")")
		} else if v.Definition != "" {
			t.Errorf("variable %s: %s is not understood", v.Name, v.Definition)
		}
	}
	for _, a := range d.Annotations.List {
		add("annotation "+a.Name, a.Expr)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %s has no query", p.Title)
		}
		for _, target := range p.Targets {
			add("panel "+p.Title, target.Expr)
		}
	}
	return all
}

// alerts are the expressions of the rules. A field that Prometheus doesn't know is refused.
func alerts(t *testing.T) (all []query) {
	t.Helper()
	var f struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(file(t, "deploy/prometheus/alerts.yaml"), &f,
		yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	summarized := regexp.MustCompile(`\$labels\.([a-z]+)`)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			all = append(all, query{"alert " + r.Alert, r.Expr})
			if r.For != "" {
				if _, err := model.ParseDuration(r.For); err != nil {
					t.Errorf("%s: %v", r.Alert, err)
				}
			}
			if !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
			}
			for _, m := range summarized.FindAllStringSubmatch(r.Annotations["summary"], -1) {
				// What is told of an alert is a label of its result.
				all = append(all, query{"summary of " + r.Alert,
					"count by (" + m[1] + ") (" + r.Expr + ")"})
			}
		}
	}
	return all
}

// page are the queries of a page: what stands in backquotes and names a metric.
func page(t *testing.T, name string) (all []query) {
	t.Helper()
	names := regexp.MustCompile(`\b(once|process|go)_[a-z]+`)
	for i, line := range strings.Split(string(file(t, name)), "\n") {
		for n, span := range strings.Split(line, "`") {
			if n%2 == 1 && names.MatchString(span) {
				text := strings.ReplaceAll(span, `\|`, "|") // in a table
				all = append(all, query{fmt.Sprintf("%s:%d", name, i+1), text})
			}
		}
	}
	return all
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
