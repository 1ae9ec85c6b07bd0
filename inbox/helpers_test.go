package inbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// memStore is a store of one map. Its hooks run before anything is stored.
type memStore struct {
	mu       sync.Mutex
	rows     map[once.Identity]queue.Arrival
	order    []queue.Arrival // as they were accepted
	arrivals int
	appends  int
	rejected []queue.Rejected

	before       func(ctx context.Context) error
	beforeReject func(ctx context.Context) error
}

func newMemStore() *memStore { return &memStore{rows: map[once.Identity]queue.Arrival{}} }

func (s *memStore) Append(ctx context.Context, as []queue.Arrival) ([]queue.Receipt, error) {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends++
	out := make([]queue.Receipt, len(as))
	for i, a := range as {
		s.arrivals++
		first, known := s.rows[a.Identity]
		switch {
		case !known:
			s.rows[a.Identity] = a
			s.order = append(s.order, a)
			out[i].Outcome = queue.Accepted
		case first.Fingerprint == a.Fingerprint:
			out[i].Outcome = queue.Duplicate
		default:
			out[i].Outcome = queue.Conflict
		}
	}
	return out, nil
}

func (s *memStore) Reject(ctx context.Context, r queue.Rejected) error {
	if s.beforeReject != nil {
		if err := s.beforeReject(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = append(s.rejected, r)
	return nil
}

func (s *memStore) accepted() []queue.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]queue.Arrival(nil), s.order...)
}

func (s *memStore) ring() []queue.Rejected {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]queue.Rejected(nil), s.rejected...)
}

// counter is an Observer that counts.
type counter struct {
	mu    sync.Mutex
	n     map[string]int // "source/outcome"
	drops int
}

func (c *counter) Receipt(source string, o queue.Outcome, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[source+"/"+string(o)]++
	if d < 0 {
		c.n["negative"]++
	}
}

func (c *counter) RejectedDropped(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
}

func (c *counter) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *counter) dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// bodyField returns a member of the decoded body.
func bodyField(m *inbox.Message, name string) (any, error) {
	object, ok := m.Body.(map[string]any)
	if !ok {
		return nil, errors.New("body is not an object")
	}
	return object[name], nil
}

// rcs is the source of the robot example.
func rcs() *inbox.Source {
	return &inbox.Source{
		Name:    "rcs",
		Paths:   []string{"/agv/agvCallbackService/agvCallback"},
		MaxBody: 256 << 10,
		Key: func(m *inbox.Message) (once.Key, error) {
			var parts []any
			for _, name := range []string{"reqCode", "taskCode", "callbackMethod"} {
				v, err := bodyField(m, name)
				if err != nil {
					return nil, err
				}
				parts = append(parts, v)
			}
			return once.KeyOf(parts...)
		},
		Event: func(m *inbox.Message) (string, error) {
			v, err := bodyField(m, "callbackMethod")
			return fmt.Sprint(v), err
		},
		Fingerprint: func(m *inbox.Message) (once.Fingerprint, error) {
			return once.FingerprintRaw(m.Raw), nil
		},
		Route: func(m *inbox.Message, event string) (inbox.Route, error) {
			v, err := bodyField(m, "taskCode")
			task := fmt.Sprint(v)
			return inbox.Route{
				Lane: "flow", OrderKey: task, Flow: "transport", Task: task,
				Unrouted: event == "unheardOf",
			}, err
		},
		Replies: map[queue.Outcome]inbox.Reply{
			queue.Accepted: {Status: 200, Body: text(func(m *inbox.Message) (string, error) {
				v, err := bodyField(m, "reqCode")
				return fmt.Sprintf(`{"code":"0","message":"Success","reqCode":%q}`, v), err
			})},
			queue.Invalid: {Status: 400, Body: text(func(m *inbox.Message) (string, error) {
				return fmt.Sprintf(`{"code":"1","message":%q}`, m.Error), nil
			})},
			queue.Unavailable: {Status: 503, Body: text(func(*inbox.Message) (string, error) {
				return `{"code":"99","message":"try again"}`, nil
			})},
		},
	}
}

func text(f func(*inbox.Message) (string, error)) func(*inbox.Message) ([]byte, string, error) {
	return func(m *inbox.Message) ([]byte, string, error) {
		s, err := f(m)
		return []byte(s), "application/json", err
	}
}

const finishFE = `{"reqCode":"REQ-1024","taskCode":"TASK-001","callbackMethod":"finishFE"}`

func newReceiver(
	t testing.TB, store inbox.Store, cfg inbox.Config, sources ...*inbox.Source,
) *inbox.Receiver {
	t.Helper()
	if len(sources) == 0 {
		sources = []*inbox.Source{rcs()}
	}
	rc, err := inbox.New(store, sources, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

// post serves one request in this goroutine.
func post(h http.Handler, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		if r.Header.Del(header[i]); header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// raw sends bytes to a real server and returns its answer. After the bytes the sending side is
// closed if cut is true.
func raw(
	t *testing.T, addr, request string, cut bool,
) (status int, header http.Header, body string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if cut {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	return readAnswer(t, conn)
}

func readAnswer(t *testing.T, conn net.Conn) (status int, header http.Header, body string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read body of answer: %v", err)
	}
	if res.Close { // net/http takes the header out
		res.Header.Set("Connection", "close")
	}
	return res.StatusCode, res.Header, string(b)
}
