package testserver

import (
	"os"
	"regexp"
)

var (
	brokerRuns   = regexp.MustCompile(`mosquitto version \S+ running`)
	addressTaken = regexp.MustCompile(`(?i)address already in use`)
)

// logSince is what a log holds from an offset on.
func logSince(file string, from int64) string {
	data, err := os.ReadFile(file)
	if err != nil || int64(len(data)) < from {
		return ""
	}
	return string(data[from:])
}
