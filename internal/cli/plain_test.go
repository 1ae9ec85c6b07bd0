package cli_test

import (
	"strings"
	"testing"
)

// The driver tells of each of the two ways in which it tried, in lines of their own.
func TestADatabaseThatIsAwayIsToldOfInOneLine(t *testing.T) {
	t.Parallel()
	_, _, errs := run("migrate", "status", "--store", "postgres://u@127.0.0.1:1/d")
	if strings.Count(errs, "connection refused") != 1 || strings.Count(errs, "\n") != 1 {
		t.Errorf("it says %q", errs)
	}
}
