package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
)

// Public returns what a log or a trace may show of an error: no part of a message, of an answer or
// of a secret. That is what the first error of its chain says of itself that has a method
//
//	Public() string
//
// and, if none has, what the network or a deadline said: that happens to a connection, whatever was
// sent over it. Empty: nothing can be shown; the whole text is for the person who looks at the row.
func Public(err error) string {
	var own interface{ Public() string }
	if errors.As(err, &own) {
		return own.Public()
	}
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &alert):
		return alert.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "it was stopped"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	}
	return ""
}

// PanicText returns what a log may show of the value of a panic: the text of an error of the Go
// runtime, and the type of anything else, which may hold a part of a message.
func PanicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", p)
}
