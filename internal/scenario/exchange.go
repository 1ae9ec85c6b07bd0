package scenario

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxPause bounds the pauses that a scenario can ask for.
	maxPause = 10 * time.Second
	// maxReply bounds the body of an answer.
	maxReply = 64 << 20
)

// reply is what came back.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	trailer http.Header
	early   []int
	// headAfter and firstAfter are when the header and the body's first byte came.
	headAfter, firstAfter time.Duration
	// err is why there is no whole answer.
	err error
	// sent is the body as it was sent, without its framing.
	sent []byte
}

// exchange sends a request on a connection of its own and reads the answer. Faults of the
// connection are part of the reply.
type exchange struct {
	conn net.Conn
	done chan struct{}
	got  *reply
}

// begin connects and starts the exchange.
func begin(ctx context.Context, target *url.URL, patience time.Duration, b *built) (
	*exchange, error,
) {
	conn, err := dial(ctx, target, patience)
	if err != nil {
		return nil, fmt.Errorf("connect to the target: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	x := &exchange{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		defer conn.Close()
		x.got = converse(conn, b)
	}()
	return x, nil
}

// wait returns what came back. It never takes longer than the connection's deadline.
func (x *exchange) wait() *reply {
	<-x.done
	return x.got
}

// hangUp closes the connection.
func (x *exchange) hangUp() {
	_ = x.conn.Close()
	<-x.done
}

func dial(ctx context.Context, target *url.URL, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address := target.Host
	if target.Port() == "" {
		address = net.JoinHostPort(target.Hostname(), target.Scheme)
	}
	if target.Scheme == "https" {
		return (&tls.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func converse(conn net.Conn, b *built) *reply {
	r := &reply{sent: b.payload}
	start := time.Now()
	in := bufio.NewReader(conn)
	written := make(chan error, 1)
	first := b.head
	if !b.await100 {
		first = append(first[:len(first):len(first)], b.body...)
	}
	go func() {
		_, err := conn.Write(first)
		written <- err
	}()
	resp, err := r.head(in, b, func() error {
		_, err := conn.Write(b.body)
		return err
	})
	r.headAfter = time.Since(start)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		return r.echo(conn, in, resp, b.switched)
	}
	if err == nil {
		err = r.read(resp, start)
	}
	_ = conn.Close() // ends what is still written
	r.err = errors.Join(err, ignoreIf(<-written, err == nil))
	return r
}

// ignoreIf drops an error that doesn't count: a server may answer before it has read all.
func ignoreIf(err error, ignore bool) error {
	if ignore {
		return nil
	}
	return err
}

// head reads up to the header of the final answer.
func (r *reply) head(in *bufio.Reader, b *built, goOn func() error) (*http.Response, error) {
	const most = 10 // answers before the final one
	asked := &http.Request{Method: b.method}
	for range most {
		resp, err := http.ReadResponse(in, asked)
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			r.status, r.header = resp.StatusCode, resp.Header
			return resp, nil
		case resp.StatusCode == http.StatusContinue && b.await100:
			if err := goOn(); err != nil {
				return nil, err
			}
		}
		r.early = append(r.early, resp.StatusCode)
	}
	return nil, fmt.Errorf("more than %d answers before the final one", most)
}

func (r *reply) read(resp *http.Response, start time.Time) error {
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	if _, err := in.Peek(1); err == nil {
		r.firstAfter = time.Since(start)
	}
	var err error
	if r.body, err = io.ReadAll(io.LimitReader(in, maxReply)); err != nil {
		return err
	}
	r.trailer = resp.Trailer
	if len(r.body) == maxReply {
		return fmt.Errorf("the answer is larger than %d bytes", maxReply)
	}
	return nil
}

// echo sends a text over a connection that has switched protocols, and reads as much.
func (r *reply) echo(conn net.Conn, in io.Reader, resp *http.Response, text string) *reply {
	r.header = resp.Header
	if _, r.err = io.WriteString(conn, text); r.err != nil {
		return r
	}
	r.body = make([]byte, len(text))
	_, r.err = io.ReadFull(in, r.body)
	return r
}
