package testserver

import (
	"net"
	"sync"
	"testing"
	"time"
)

const (
	dialLimit  = 5 * time.Second // to reach the target
	writeLimit = 5 * time.Second // for a peer that doesn't read: its connection is cut
	drainLimit = time.Second     // for a target that doesn't close after its client is gone
	pumpBytes  = 32 << 10
)

// Proxy forwards TCP connections from a loopback port to a target, and disturbs them on demand.
// It knows no protocol: it counts and drops bytes.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	// gate is read-locked while bytes go to a client: whoever holds it for writing knows that
	// none pass.
	gate      sync.RWMutex
	target    string
	mode      proxyMode
	links     map[*link]struct{}
	budget    int64 // bytes from clients until all is cut; below zero: no limit
	forwarded int64
	accepted  int
}

type proxyMode int

const (
	forwarding proxyMode = iota
	holding
	refusing
)

// link is one client's connection and the one made for it to the target.
type link struct {
	client, server net.Conn
	deaf           bool // answers of the target are dropped
	lost           bool // answers of the target were dropped: this stream can't go on
	once           sync.Once
}

// NewProxy starts a proxy to a target, given as host:port. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}, budget: -1}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		p.Refuse()
		_ = listener.Close()
		p.running.Wait()
	})
	return p
}

// Addr is the host and port on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Forwarded is how many bytes of clients have been sent on to the target so far.
func (p *Proxy) Forwarded() int64 {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.forwarded
}

// Accepted is how many connections have been taken from clients so far, refused ones too.
func (p *Proxy) Accepted() int {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.accepted
}

// Cut ends all present connections. What clients had sent before still reaches the target; new
// connections are forwarded as before.
func (p *Proxy) Cut() {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.cutLocked(func(*link) bool { return true })
}

// CutAfter ends all connections as soon as clients have sent n more bytes, which reach the target
// while no answer to them reaches a client. Connections made after that are forwarded. It is meant
// for a cut in the middle of a message. A client may send more than the test asks for (an MQTT
// client its PINGREQ at any time), so between a message and its acknowledgement Hold and Cut are
// exact.
func (p *Proxy) CutAfter(n int64) {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.budget = max(n, 0)
}

// Hold takes connections and what clients send, and drops each byte that the target answers, until
// [Proxy.Restore]: the target works, and nobody hears of it.
func (p *Proxy) Hold() { p.setMode(holding) }

// Refuse ends all connections, and new ones at once, until [Proxy.Restore].
func (p *Proxy) Refuse() {
	p.setMode(refusing)
	p.Cut()
}

// Restore ends Hold and Refuse, and takes back CutAfter. Connections that lost bytes meanwhile are
// cut, for their streams can't go on.
func (p *Proxy) Restore() {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.mode, p.budget = forwarding, -1
	p.cutLocked(func(l *link) bool { return l.lost })
}

// Retarget has connections that are made from now on forwarded to another target. Those that are
// there keep theirs.
func (p *Proxy) Retarget(target string) {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.target = target
}

func (p *Proxy) setMode(m proxyMode) {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.mode = m
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed by the test's end
		}
		p.running.Go(func() { p.forward(client) })
	}
}

// forward carries one connection until either side ends it.
func (p *Proxy) forward(client net.Conn) {
	p.gate.Lock()
	p.accepted++
	refused, target := p.mode == refusing, p.target
	p.gate.Unlock()
	if refused {
		_ = client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", target, dialLimit)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	if !p.add(l, target) {
		return
	}
	p.running.Go(func() { p.pumpAnswers(l) })
	p.pumpRequests(l)
}

// add registers a link, unless connections began to be refused while it was dialled, or to go to
// another target.
func (p *Proxy) add(l *link, target string) bool {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.mode == refusing || p.target != target {
		l.close(p)
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// pumpRequests carries bytes from the client to the target.
func (p *Proxy) pumpRequests(l *link) {
	defer p.end(l)
	buf := make([]byte, pumpBytes)
	for {
		n, err := l.client.Read(buf)
		if n > 0 {
			allowed, cut := p.grant(n)
			_ = l.server.SetWriteDeadline(time.Now().Add(writeLimit))
			if _, werr := l.server.Write(buf[:allowed]); werr != nil {
				return
			}
			if cut {
				p.cutDeaf()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// grant tells how many of n bytes may go to the target, and whether all is cut after them. If so,
// no answer passes from here on.
func (p *Proxy) grant(n int) (allowed int, cut bool) {
	p.gate.Lock()
	defer p.gate.Unlock()
	allowed = n
	if p.budget >= 0 && int64(n) >= p.budget {
		allowed, cut = int(p.budget), true
		p.budget = -1
		for l := range p.links {
			l.deaf = true
		}
	} else if p.budget >= 0 {
		p.budget -= int64(n)
	}
	p.forwarded += int64(allowed)
	return allowed, cut
}

// pumpAnswers carries bytes from the target to the client, or drops them.
func (p *Proxy) pumpAnswers(l *link) {
	defer p.end(l)
	buf := make([]byte, pumpBytes)
	for {
		n, err := l.server.Read(buf)
		if n > 0 && !p.answer(l, buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// answer passes an answer on, or drops it, and tells whether the connection goes on.
func (p *Proxy) answer(l *link, data []byte) bool {
	p.gate.RLock()
	if !l.deaf && p.mode == forwarding {
		defer p.gate.RUnlock()
		_ = l.client.SetWriteDeadline(time.Now().Add(writeLimit))
		_, err := l.client.Write(data)
		return err == nil
	}
	p.gate.RUnlock()
	p.gate.Lock()
	defer p.gate.Unlock()
	l.lost = true
	return l.deaf || p.mode != forwarding // else Restore came in between, and did not see the loss
}

func (p *Proxy) end(l *link) {
	p.gate.Lock()
	defer p.gate.Unlock()
	delete(p.links, l)
	l.close(p)
}

func (p *Proxy) cutDeaf() {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.cutLocked(func(l *link) bool { return l.deaf })
}

func (p *Proxy) cutLocked(which func(*link) bool) {
	for l := range p.links {
		if which(l) {
			delete(p.links, l)
			l.close(p)
		}
	}
}

// close ends the client's side at once. The target's side is only ended for writing and then read
// to its end: closing it with answers unread would reset it, and the target might drop what it had
// been sent before the cut.
func (l *link) close(p *Proxy) {
	l.once.Do(func() {
		_ = l.client.Close()
		p.running.Go(func() {
			defer l.server.Close()
			if half, ok := l.server.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			_ = l.server.SetReadDeadline(time.Now().Add(drainLimit))
			buf := make([]byte, pumpBytes)
			for {
				if _, err := l.server.Read(buf); err != nil {
					return
				}
			}
		})
	})
}
