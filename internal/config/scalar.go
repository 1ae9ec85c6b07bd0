package config

import (
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type unit struct {
	name string
	size time.Duration
}

// durationUnits in falling order, as they are written.
func durationUnits() []unit {
	return []unit{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute},
		{"s", time.Second}, {"ms", time.Millisecond}}
}

// maxDuration is the longest time that a file can name: longer ones are a slip of the keyboard.
const maxDuration = 3650 * 24 * time.Hour

// parseDuration reads 500ms, 30s, 10m, 24h, 7d and 1d12h: whole numbers with units in falling
// order.
func parseDuration(s string) (time.Duration, bool) {
	var sum time.Duration
	last := -1
	for rest := s; rest != ""; {
		i := 0
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		n, err := strconv.ParseInt(rest[:i], 10, 64)
		if err != nil {
			return 0, false
		}
		j := i
		for j < len(rest) && (rest[j] < '0' || rest[j] > '9') {
			j++
		}
		k := unitIndex(rest[i:j])
		if k <= last || n > int64(maxDuration/durationUnits()[k].size) {
			return 0, false
		}
		last, sum, rest = k, sum+time.Duration(n)*durationUnits()[k].size, rest[j:]
		if sum > maxDuration {
			return 0, false
		}
	}
	return sum, s != ""
}

func unitIndex(name string) int {
	for i, u := range durationUnits() {
		if u.name == name {
			return i
		}
	}
	return -1
}

// formatDuration writes a duration as parseDuration reads it.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range durationUnits() {
		if n := d / u.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

type sizeUnit struct {
	name string
	size int64
}

func sizeUnits() []sizeUnit {
	return []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}}
}

// maxSize is the largest size that a file can name.
const maxSize = 1 << 40

// parseSize reads 256KiB, 1MiB, 10MB and 512B.
func parseSize(s string) (int64, bool) {
	for _, u := range sizeUnits() {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || digits[0] < '0' || digits[0] > '9' || n > maxSize/u.size {
			return 0, false
		}
		return n * u.size, true
	}
	return 0, false
}

// formatSize writes a size as parseSize reads it.
func formatSize(n int64) string {
	for _, u := range sizeUnits() {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// validAddress reports whether s is HOST:PORT as a listener takes it.
func validAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " /") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n <= math.MaxUint16
}

// isLoopback reports whether only this machine can reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// sameListener reports whether two addresses can't both be listened on.
func sameListener(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	any := func(h string) bool { return h == "" || h == "0.0.0.0" || h == "::" }
	return hostA == hostB || any(hostA) || any(hostB)
}

// checkURL says what is wrong with a URL; empty: nothing.
func checkURL(s string, schemes ...string) string {
	u, err := url.Parse(s)
	want := "expected " + schemes[0] + "://HOST[:PORT]"
	switch {
	case err != nil || u.Scheme == "" || u.Host == "":
		return "is no URL; " + want
	case !slices.Contains(schemes, u.Scheme):
		return "has the scheme " + quote(u.Scheme) + "; expected " +
			strings.Join(schemes, ", ")
	case u.Hostname() == "":
		return "names no host; " + want
	case u.Fragment != "":
		return "has a fragment (#…), which is never sent; expected none"
	}
	return ""
}
