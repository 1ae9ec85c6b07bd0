package outbox

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errPublishEnded error = plainError("a message was not acknowledged in time")
	errStopped      error = plainError("sender stopped")
	errLost         error = plainError("connection lost")
)

// blameWithin is how soon after a message the connection must have gone for the message to be
// blamed: a broker that can't bear it disconnects as soon as it has read it.
const blameWithin = 5 * time.Second

// packet is a message as the link's client wants it.
type packet any

// client is one connection of an MQTT library.
type client interface {
	// publish returns nil when the message was acknowledged, a *Failure for what the broker
	// answered, and any other error if there is no answer. It sets t.written before it may have
	// written something.
	publish(ctx context.Context, t *track, p packet) error
	// stop says goodbye if the connection is still there, closes it, and returns when the
	// library's goroutines have ended.
	stop()
}

// link is one connection to a broker, from its making to its end.
type link struct {
	ctx      context.Context // ends with the connection; its cause says why
	cancel   context.CancelCauseFunc
	conn     net.Conn
	client   client
	limits   limits
	suspects *suspects
	slots    chan struct{} // one a message in flight
	alone    chan struct{} // held by the one message that wants all slots

	mu     sync.Mutex
	ended  bool
	flight map[*track]struct{}
}

// track follows one message.
type track struct {
	id      string
	started time.Time
	written atomic.Bool
	// unheard is set when the broker said that nobody has subscribed (QoS 2).
	unheard atomic.Bool
}

func newLink(conn net.Conn, s *suspects) *link {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &link{
		ctx: ctx, cancel: cancel, conn: conn, suspects: s,
		alone: make(chan struct{}, 1), flight: map[*track]struct{}{},
	}
}

// acquire waits for a place among the messages in flight. A message upon which a connection has
// ended before gets the link for itself, so that only the one to blame is blamed again.
func (l *link) acquire(ctx context.Context, alone bool) (release func(), err error) {
	want := 1
	if alone {
		if err := l.take(ctx, l.alone); err != nil {
			return nil, err
		}
		want = cap(l.slots)
	}
	got := 0
	release = func() {
		for range got {
			<-l.slots
		}
		if alone {
			<-l.alone
		}
	}
	for ; got < want; got++ {
		if err := l.take(ctx, l.slots); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

func (l *link) take(ctx context.Context, from chan struct{}) error {
	select {
	case from <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// begin registers a message as being in flight; finish ends that.
func (l *link) begin(id string) *track {
	t := &track{id: id, started: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flight[t] = struct{}{}
	return t
}

func (l *link) finish(t *track) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flight, t)
}

// fail ends the link; the first call counts. With blame the messages in flight are remembered as
// possible reasons before anybody learns of the end.
func (l *link) fail(cause error, blame bool) {
	if l.end(cause, blame) {
		_ = l.conn.Close()
	}
}

// lost ends the link because the other side or the network did.
func (l *link) lost(cause error) { l.fail(cause, true) }

// refused ends the link because the broker said that it ends it, and with which reason code.
func (l *link) refused(code byte, text string) {
	cause := fmt.Errorf("%w: %s", errLost, reasonText("broker disconnects", code, text))
	l.fail(cause, blamesMessage(code))
}

func (l *link) end(cause error, blame bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.ended = true
	if blame {
		for t := range l.flight {
			if t.written.Load() && time.Since(t.started) < blameWithin {
				l.suspects.add(t.id)
			}
		}
	}
	l.cancel(cause)
	return true
}
