package testserver_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

// echo is a TCP server that answers each byte with itself, and keeps what it got.
type echo struct {
	listener net.Listener
	mu       sync.Mutex
	got      bytes.Buffer
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { e.answer(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return e
}

func (e *echo) answer(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		e.mu.Lock()
		e.got.Write(buf[:n])
		e.mu.Unlock()
		if _, werr := conn.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (e *echo) addr() string { return e.listener.Addr().String() }

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.String()
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("received %q (%v), want %q", got, err, want)
	}
}

// expectEnd wants the connection ended, with no byte before that.
func expectEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	got, err := io.ReadAll(conn)
	if len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q (%v), want the end", got, err)
	}
}

// expectSilence wants an open connection on which nothing comes.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := conn.Read(make([]byte, 1))
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %d bytes (%v), want silence", n, err)
	}
}

func TestAProxyForwardsBothWays(t *testing.T) {
	p := testserver.NewProxy(t, newEcho(t).addr())
	conn := dial(t, p.Addr())
	defer conn.Close()
	for range 3 {
		send(t, conn, "ping")
		expect(t, conn, "ping")
	}
	if p.Forwarded() != 12 || p.Accepted() != 1 {
		t.Errorf("%d bytes of %d connections, want 12 of 1", p.Forwarded(), p.Accepted())
	}
}

func TestACutEndsAllConnectionsAndNotTheNext(t *testing.T) {
	p := testserver.NewProxy(t, newEcho(t).addr())
	first, second := dial(t, p.Addr()), dial(t, p.Addr())
	defer first.Close()
	defer second.Close()
	for _, conn := range []net.Conn{first, second} {
		send(t, conn, "a")
		expect(t, conn, "a")
	}
	p.Cut()
	expectEnd(t, first)
	expectEnd(t, second)
	next := dial(t, p.Addr())
	defer next.Close()
	send(t, next, "b")
	expect(t, next, "b")
}

func TestACutAfterBytesLetsThemThroughAndNoAnswer(t *testing.T) {
	for range 50 { // an answer that slips through would be a race
		e := newEcho(t)
		p := testserver.NewProxy(t, e.addr())
		conn := dial(t, p.Addr())
		send(t, conn, "hello ")
		expect(t, conn, "hello ")
		p.CutAfter(5)
		send(t, conn, "world, and more")
		expectEnd(t, conn)
		_ = conn.Close()
		testserver.Until(t, limit, "the target had the bytes before the cut", func() bool {
			return e.received() == "hello world"
		})
		next := dial(t, p.Addr())
		send(t, next, "b")
		expect(t, next, "b")
		_ = next.Close()
		if got := e.received(); got != "hello worldb" {
			t.Fatalf("the target received %q", got)
		}
	}
}

func TestACutAfterBytesCountsOverSeveralWrites(t *testing.T) {
	e := newEcho(t)
	p := testserver.NewProxy(t, e.addr())
	conn := dial(t, p.Addr())
	defer conn.Close()
	p.CutAfter(4)
	send(t, conn, "ab")
	expect(t, conn, "ab")
	send(t, conn, "cd")
	expectEnd(t, conn)
	testserver.Until(t, limit, "the target had all four", func() bool {
		return e.received() == "abcd"
	})
}

func TestAHeldTargetWorksUnheard(t *testing.T) {
	e := newEcho(t)
	p := testserver.NewProxy(t, e.addr())
	before := dial(t, p.Addr())
	idle := dial(t, p.Addr())
	defer before.Close()
	defer idle.Close()
	for _, conn := range []net.Conn{before, idle} {
		send(t, conn, "0")
		expect(t, conn, "0")
	}
	p.Hold()
	during := dial(t, p.Addr())
	defer during.Close()
	send(t, before, "1")
	send(t, during, "2")
	testserver.Until(t, limit, "the target had both", func() bool {
		return len(e.received()) == len("0012")
	})
	expectSilence(t, before)
	expectSilence(t, during)

	p.Restore()
	expectEnd(t, before)
	expectEnd(t, during)
	send(t, idle, "3") // it lost nothing, so it goes on
	expect(t, idle, "3")
}

func TestARefusingProxyEndsConnectionsAtOnce(t *testing.T) {
	e := newEcho(t)
	p := testserver.NewProxy(t, e.addr())
	before := dial(t, p.Addr())
	defer before.Close()
	send(t, before, "0")
	expect(t, before, "0")
	p.Refuse()
	expectEnd(t, before)
	during := dial(t, p.Addr())
	defer during.Close()
	expectEnd(t, during)
	p.Restore()
	after := dial(t, p.Addr())
	defer after.Close()
	send(t, after, "1")
	expect(t, after, "1")
	if got := e.received(); got != "01" {
		t.Errorf("the target received %q, want 01", got)
	}
}

func TestATargetThatIsDownEndsTheConnection(t *testing.T) {
	e := newEcho(t)
	_ = e.listener.Close()
	conn := dial(t, testserver.NewProxy(t, e.addr()).Addr())
	defer conn.Close()
	expectEnd(t, conn)
}
