package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func TestRefusals_TellPlaceReasonAndExpectation(t *testing.T) {
	files, err := filepath.Glob("testdata/refusals/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d refusals, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(name+".yaml", src, Env{ReadFile: noFile})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("accepted: %v", err)
			}
			got := e.Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

func noFile(string) ([]byte, error) { return nil, os.ErrNotExist }
