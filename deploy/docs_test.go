package deploy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The page for operators has each alert as it is in the rules, with what it means; the page for
// what is stuck names no others.
func TestTheAlertsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	var f struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal([]byte(file(t, "deploy/prometheus/alerts.yaml")), &f))
	page, known := file(t, "docs/operating.md"), map[string]bool{}
	for _, r := range f.Groups[0].Rules {
		known[r.Alert] = true
		wait := r.For
		if wait == "" {
			wait = "–"
		}
		row := fmt.Sprintf("| `%s` | `%s` | %s | %s | ", r.Alert,
			strings.ReplaceAll(r.Expr, "|", `\|`), wait, r.Labels["severity"])
		if !strings.Contains(page, "\n"+row) {
			t.Errorf("docs/operating.md has no row\n%s", row)
		}
	}
	if len(known) < 20 {
		t.Errorf("only %d alerts", len(known))
	}
	names := regexp.MustCompile("`(Once[A-Z][A-Za-z]+)`")
	for _, m := range names.FindAllStringSubmatch(page+file(t, "docs/stuck.md"), -1) {
		if !known[m[1]] {
			t.Errorf("there is no alert %s", m[1])
		}
	}
}

// The times of an end that the page gives are those of the files.
func TestTheTimesOfAnEndAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	page := file(t, "docs/operating.md")
	grace := deployments(t)[0].workload.Spec.Template.Spec.TerminationGracePeriodSeconds
	for _, want := range []string{
		"`TimeoutStopSec=" + unit(t)["TimeoutStopSec"][0] + "`",
		"`stop_grace_period: " + compose(t).Services["once"].StopGracePeriod + "`",
		fmt.Sprintf("`terminationGracePeriodSeconds: %d`", grace),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/operating.md lacks %s", want)
		}
	}
}
