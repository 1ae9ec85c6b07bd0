package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/queue"
)

// Transport passes requests on, and answers with an error in the place of an answer of the API that
// is not as it is described. It is safe for concurrent use.
type Transport struct {
	// Host of the operator's listener, host:port. What goes elsewhere is not looked at.
	Host string
	// Base carries the requests. Default: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It reads each answer of the API to its end.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	res, err := base.RoundTrip(r)
	if err != nil || r.URL.Host != t.Host {
		return res, err
	}
	spec, err := Own()
	if err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if err := spec.Check(r, res.StatusCode, res.Header, body); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// own is read once: it takes longer than most answers.
var own = sync.OnceValues(func() (*Spec, error) {
	m, err := metrics.New(metrics.Config{
		Counts: func(context.Context) (queue.Counts, error) { return queue.Counts{}, nil }})
	if err != nil {
		return nil, err
	}
	store := struct {
		queue.Browser
		queue.Operator
		queue.Transactor
	}{}
	a, err := api.New(api.Config{Browser: store, Operator: store, Transactor: store,
		Engine: &flow.Engine{}, Metrics: m, Ping: func(context.Context) error { return nil },
		Route:  func(queue.Row) (queue.Arrival, error) { return queue.Arrival{}, nil },
		Listen: "127.0.0.1:1"})
	if err != nil {
		return nil, err
	}
	var document answer
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1"+Path, nil)
	if err != nil {
		return nil, err
	}
	a.ServeHTTP(&document, r)
	return Load(document.Bytes())
})

// Own returns the description that this code gives, of a version "unknown".
func Own() (*Spec, error) { return own() }

// answer keeps the body of an answer.
type answer struct {
	bytes.Buffer
	header http.Header
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(int) {}
