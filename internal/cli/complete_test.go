package cli

import (
	"slices"
	"testing"
)

// A shell runs what it completes.
func TestAShellIsOfferedNothingThatItWouldRun(t *testing.T) {
	got := offerable([]string{"roadway/R7", "roadway/größe-路:1.x_y", "roadway/R$(id)",
		"a/`id`", "a/b;c",
		"a/b c", "a/\x1b[31m", "a/'b", `a/"b`, "a/b\n", "a/*", "a/~", "a/b\\c", "--yes", "",
		"5o0jfbn13d9glfao4209p6fstc\tE\x1b[31m dead"})
	want := []string{"roadway/R7", "roadway/größe-路:1.x_y",
		`5o0jfbn13d9glfao4209p6fstc` + "\t" + `E\x1b[31m dead`}
	if !slices.Equal(got, want) {
		t.Errorf("offered %q, want %q", got, want)
	}
}

func TestACommandToBeCopiedIsOneForTheShell(t *testing.T) {
	for text, want := range map[string]string{
		"transport/TASK-1": "transport/TASK-1", "f/T$(id)": "'f/T$(id)'", "f/it's": `'f/it'\''s'`,
		"f/a b": "'f/a b'", "": "''", "-x": "'-x'",
	} {
		if got := shellQuoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
