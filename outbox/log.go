package outbox

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// LogConfig configures a Log.
type LogConfig struct {
	// URL of the destination that is stood in for; shown before the path. Default: empty.
	URL string
	// MaxPayload is how many bytes of a payload are shown. Default 2048.
	MaxPayload int
	// Now gives the time of a line. Default time.Now.
	Now func() time.Time
}

// Log is a Sender that writes each effect as one line, as it would go out. It acknowledges what
// was written. Safe for concurrent use: one Write a line, one line at a time.
type Log struct {
	cfg LogConfig
	mu  sync.Mutex
	w   io.Writer
}

// NewLog returns a Log that writes to w.
func NewLog(w io.Writer, cfg LogConfig) *Log {
	if cfg.MaxPayload <= 0 {
		cfg.MaxPayload = 2048
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Log{cfg: cfg, w: w}
}

// Send writes the line. A failed write is Transient.
func (l *Log) Send(_ context.Context, m Message) error {
	line := l.line(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.w, line); err != nil {
		return failf(Transient, "write effect: %w", err)
	}
	return nil
}

// line is, for example:
//
//	12:04:05 plant → roadway/17/unlock  {"task":"TASK-001"}  (unlock-roadway, id 0a1b…)
func (l *Log) line(m Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s → %s", l.cfg.Now().Format(time.TimeOnly),
		showText(m.Destination), showText(l.target(m)))
	if m.Meta.Retain {
		b.WriteString(" (retained)")
	}
	if len(m.Payload) > 0 {
		b.WriteString("  " + l.payload(m.Payload))
	}
	fmt.Fprintf(&b, "  (%s, id %s", showText(m.Name), m.ID)
	if m.Fence != 0 {
		fmt.Fprintf(&b, ", fence %d", m.Fence)
	}
	if m.Attempt > 1 {
		fmt.Fprintf(&b, ", try %d", m.Attempt)
	}
	b.WriteString(")\n")
	return b.String()
}

func (l *Log) target(m Message) string {
	if m.Meta.Topic != "" {
		return m.Meta.Topic
	}
	method := m.Meta.Method
	if method == "" {
		method = "POST"
	}
	return strings.TrimSpace(method + " " + l.cfg.URL + m.Meta.Path)
}

func (l *Log) payload(p []byte) string {
	if len(p) <= l.cfg.MaxPayload {
		return showText(string(p))
	}
	cut := p[:l.cfg.MaxPayload]
	for len(cut) > 0 && !utf8.Valid(cut) && len(p[:l.cfg.MaxPayload])-len(cut) < utf8.UTFMax {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s… (%d bytes)", showText(string(cut)), len(p))
}

// showText returns s as it is, or quoted when it holds anything that could move the cursor or
// break the line.
func showText(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
