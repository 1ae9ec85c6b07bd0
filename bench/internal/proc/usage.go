package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTicks is the unit of processor times in /proc: USER_HZ is 100 on every Linux that Go runs
// on.
const clockTicks = 100

// OwnCPU returns the processor time that this process used.
func OwnCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// CPU returns the processor time that the process used, with a resolution of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", p.PID())
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseCPU(b)
}

// parseCPU reads utime and stime, fields 14 and 15 of proc_pid_stat(5). The name of the program, in
// parentheses, may hold spaces.
func parseCPU(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if end < 0 || len(fields) <= stime {
		return 0, fmt.Errorf("read processor time: %.60q has too few fields", stat)
	}
	ticks := int64(0)
	for _, f := range []string{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / clockTicks), nil
}

// Memory returns the resident memory without file pages, in bytes: VmRSS less RssFile.
func (p *Process) Memory() (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", p.PID())
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return parseMemory(b)
}

func parseMemory(status []byte) (int64, error) {
	rss, err := kib(status, "VmRSS:")
	if err != nil {
		return 0, err
	}
	file, err := kib(status, "RssFile:")
	return rss - file, err
}

func kib(status []byte, name string) (int64, error) {
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %s: %w", name, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("read memory: there is no %s", name)
}
