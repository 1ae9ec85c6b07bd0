package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

// sayer is an error that says what may be shown of it.
type sayer struct{ text, public string }

func (e *sayer) Error() string  { return e.text }
func (e *sayer) Public() string { return e.public }

func TestPublicShowsOnlyWhatMayBeShown(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp",
		Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, Err: os.NewSyscallError("connect",
			syscall.ECONNREFUSED)}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing", nil, ""},
		{"an own text", errors.New("card 4711"), ""},
		{"one that says it", &sayer{"card 4711", "the card"}, "the card"},
		{"one below", fmt.Errorf("pay card 4711: %w", &sayer{"4711", "the card"}), "the card"},
		{"the first one", fmt.Errorf("%w: %w", &sayer{"", "first"}, &sayer{"", "second"}), "first"},
		{"one that shows nothing", fmt.Errorf("%w: %w", &sayer{"4711", ""}, refused), ""},
		{"the network", &url.Error{Op: "Post", URL: "http://x/4711", Err: refused},
			"dial tcp 127.0.0.1:9: connect: connection refused"},
		{"a deadline", fmt.Errorf("4711: %w", context.DeadlineExceeded), "no answer in time"},
		{"a deadline of a connection", fmt.Errorf("4711: %w", os.ErrDeadlineExceeded),
			"no answer in time"},
		{"an end", fmt.Errorf("4711: %w", context.Canceled), "it was stopped"},
		{"a closed connection", fmt.Errorf("4711: %w", io.ErrUnexpectedEOF),
			"the connection was closed"},
	} {
		if got := Public(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOfAPanicOnlyTheRuntimesTextIsShown(t *testing.T) {
	panicking := func(f func()) (text string) {
		defer func() { text = PanicText(recover()) }()
		f()
		return ""
	}
	var list []int
	for name, c := range map[string]struct {
		f    func()
		want string
	}{
		"a text":   {func() { panic("card 4711") }, "a value of type string"},
		"an error": {func() { panic(errors.New("4711")) }, "a value of type *errors.errorString"},
		"of the runtime": {func() { _ = list[3] },
			"runtime error: index out of range [3] with length 0"},
	} {
		if got := panicking(c.f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
