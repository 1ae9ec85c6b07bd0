package webhook

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// DefaultTolerance is how far a time stamp may be from the time of the request, in both directions,
// where a configuration doesn't say: what Stripe, Slack and Standard Webhooks recommend.
const DefaultTolerance = 5 * time.Minute

// clock judges time stamps.
type clock struct {
	format    string // seconds, milliseconds or rfc3339
	tolerance time.Duration
}

func newClock(format string, tolerance time.Duration) (clock, error) {
	c := clock{format: format, tolerance: tolerance}
	switch {
	case tolerance < 0:
		return c, errors.New("the tolerance is negative")
	case tolerance == 0:
		c.tolerance = DefaultTolerance
	}
	switch format {
	case "":
		c.format = "seconds"
	case "seconds", "milliseconds", "rfc3339":
	default:
		return c, fmt.Errorf("the format %q of a time stamp is none of seconds, milliseconds,"+
			" rfc3339", format)
	}
	return c, nil
}

// judge returns an error unless a time stamp is near enough to now. The header is for the reason.
func (c clock) judge(header, text string, now time.Time) error {
	at, ok := c.parse(text)
	if !ok {
		return &Error{Malformed, "the time stamp in " + header + " is not one in " + c.format}
	}
	switch past := now.Sub(at); {
	case past > c.tolerance:
		return &Error{Expired, fmt.Sprintf("the time stamp in %s is more than %s in the past",
			header, c.tolerance)}
	case past < -c.tolerance:
		return &Error{Expired, fmt.Sprintf("the time stamp in %s is more than %s in the future",
			header, c.tolerance)}
	}
	return nil
}

// maxStampDigits bounds a time stamp of digits: with milliseconds it reaches the year 33658.
const maxStampDigits = 15

func (c clock) parse(text string) (time.Time, bool) {
	if c.format == "rfc3339" {
		at, err := time.Parse(time.RFC3339, text)
		return at, err == nil
	}
	if text == "" || len(text) > maxStampDigits {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(text, 10, 64) // no sign, no blank
	if err != nil {
		return time.Time{}, false
	}
	if c.format == "milliseconds" {
		return time.UnixMilli(int64(n)), true
	}
	return time.Unix(int64(n), 0), true
}
