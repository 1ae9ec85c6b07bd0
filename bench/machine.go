package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine writes what the numbers depend on.
func machine(w io.Writer) {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	fmt.Fprintf(w, "machine: %s, %d cores, %s, Linux %s\n", field("/proc/cpuinfo", "model name"),
		runtime.NumCPU(), memory(), kernel)
	fmt.Fprintf(w, "go: %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "load average before the table: %s\n", loadAverage())
}

// field returns the first value of a name in a file of /proc.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return "unknown"
}

func memory() string {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return "unknown memory"
	}
	return fmt.Sprintf("%.0f GiB", float64(s.Totalram)*float64(s.Unit)/(1<<30))
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
