package inbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// nullStore accepts everything and keeps nothing.
type nullStore struct{}

func (nullStore) Append(_ context.Context, as []queue.Arrival) ([]queue.Receipt, error) {
	return []queue.Receipt{{Outcome: queue.Accepted}}, nil
}

// nullWriter is a ResponseWriter whose cost is not the receiver's.
type nullWriter struct {
	header http.Header
	status int
}

func (w *nullWriter) Header() http.Header         { return w.header }
func (w *nullWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *nullWriter) WriteHeader(status int)      { w.status = status }

// What the receiver costs over net/http for a callback of 150 bytes. The key functions are Go, so
// no expression is counted; the decoding is.
func BenchmarkReceiver(b *testing.B) {
	body := []byte(`{"reqCode":"15A0BC96B1112","taskCode":"T16A0E0F39740116Q",` +
		`"callbackMethod":"finishFE","robotCode":"6001","currentPositionCode":"p02","podCode":""}`)
	source := rcs()
	source.Key = func(m *inbox.Message) (once.Key, error) {
		object := m.Body.(map[string]any)
		return once.KeyOf(object["reqCode"], object["taskCode"], object["callbackMethod"])
	}
	source.Event = func(m *inbox.Message) (string, error) {
		return m.Body.(map[string]any)["callbackMethod"].(string), nil
	}
	source.Route = func(m *inbox.Message, _ string) (inbox.Route, error) {
		task := m.Body.(map[string]any)["taskCode"].(string)
		return inbox.Route{Lane: "flow", OrderKey: task, Flow: "f", Task: task}, nil
	}
	source.Replies = nil
	rc := newReceiver(b, nullStore{}, inbox.Config{Observer: &counter{}}, source)
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
	r.ContentLength = int64(len(body))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Java/1.8.0_202"},
		"Accept": {"*/*"}, "Content-Length": {"150"},
	}
	reader := bytes.NewReader(body)
	r.Body = io.NopCloser(reader)
	w := &nullWriter{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		rc.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("answer %d", w.status)
		}
	}
}

// What a message with many elements costs, by element: key, fingerprint, body and item of each.
func BenchmarkElements(b *testing.B) {
	const n = 1000
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `,{"no":%d,"state":3,"startLocation":"p%d","robotCode":"6001"}`, i, i)
	}
	body := []byte(`{"reqCode":"15A0BC96B1112","reqTime":"2026-04-03 10:08:06","data":[` +
		list.String()[1:] + `]}`)
	source := listed()
	source.Replies = nil
	rc := newReceiver(b, newMemStore(), inbox.Config{}, source)
	r := httptest.NewRequest(http.MethodPost, "/in/listed", nil)
	r.ContentLength = int64(len(body))
	r.Header = http.Header{"Content-Type": {"application/json"}}
	reader := bytes.NewReader(body)
	r.Body = io.NopCloser(reader)
	w := &nullWriter{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		rc.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("answer %d", w.status)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
}
