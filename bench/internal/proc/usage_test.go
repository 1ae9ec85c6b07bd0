package proc

import (
	"testing"
	"time"
)

func TestParseCPUAddsUserAndSystemTime(t *testing.T) {
	stat := "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 3 4 20 0 9 0 100 1000 10"
	got, err := parseCPU([]byte(stat))
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, error %v, want 3s", got, err)
	}
	for _, bad := range []string{"", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 0 1 0 0 0 x 5 3 4"} {
		if got, err := parseCPU([]byte(bad)); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestParseMemoryLeavesFilePagesOut(t *testing.T) {
	status := "Name:\tonce\nVmRSS:\t  5000 kB\nRssAnon:\t  4000 kB\nRssFile:\t  1000 kB\n"
	got, err := parseMemory([]byte(status))
	if err != nil || got != 4000<<10 {
		t.Errorf("%d bytes, error %v, want %d", got, err, 4000<<10)
	}
	for _, bad := range []string{"", "VmRSS: 5 kB\n", "VmRSS: x kB\nRssFile: 1 kB\n"} {
		if got, err := parseMemory([]byte(bad)); err == nil {
			t.Errorf("%q: %d, want an error", bad, got)
		}
	}
}
