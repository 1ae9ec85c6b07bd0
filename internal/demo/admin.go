package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// Bounds of what is asked of the operator's listener.
const (
	askLimit  = 20 * time.Second // of one question
	maxAnswer = 64 << 20
	pageSize  = 1000
	askers    = 6 // questions at the same time
)

// admin asks the operator's listener of the server.
type admin struct {
	url    string
	client *http.Client
}

func newAdmin(addr string) *admin {
	return &admin{url: "http://" + addr, client: &http.Client{Timeout: askLimit,
		Transport: &http.Transport{MaxIdleConnsPerHost: askers}}}
}

func (a *admin) close() { a.client.CloseIdleConnections() }

// errNotFound says that the server knows no such thing.
var errNotFound = errors.New("not found")

// get reads an answer of status 200.
func (a *admin) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask server: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask server: %w", err)
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("ask server for %s: %w", path, errNotFound)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask server for %s: %s: %.200s", path, res.Status, b)
	}
	return b, nil
}

// ready reports whether the server can write its store.
func (a *admin) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := a.get(ctx, "/readyz")
	return err == nil
}

// pages reads all pages of a list and hands the items of each on.
func pages[T any](ctx context.Context, a *admin, path string, add func(T)) error {
	for cursor := ""; ; {
		b, err := a.get(ctx, path+"&limit="+strconv.Itoa(pageSize)+"&cursor="+
			url.QueryEscape(cursor))
		if err != nil {
			return err
		}
		var page struct {
			Items []T
			Next  string
		}
		if err := json.Unmarshal(b, &page); err != nil {
			return fmt.Errorf("read answer to %s: %w", path, err)
		}
		for _, item := range page.Items {
			add(item)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// store asks for all that the server has, of tasks for those that are named.
func (a *admin) store(ctx context.Context, tasks []string) (model.Store, error) {
	s := model.Store{Tasks: map[string]*model.StoredTask{}}
	err := pages(ctx, a, "/api/v1/callbacks?source=rcs", func(c model.StoredCallback) {
		s.Callbacks = append(s.Callbacks, c)
	})
	if err != nil {
		return s, err
	}
	err = pages(ctx, a, "/api/v1/effects?state=", func(e model.StoredEffect) {
		s.Effects = append(s.Effects, e)
	})
	if err != nil {
		return s, err
	}
	if s.Resources, err = a.resources(ctx); err != nil {
		return s, err
	}
	return s, a.tasks(ctx, tasks, s.Tasks)
}

// resources asks for all resources.
func (a *admin) resources(ctx context.Context) (out []model.StoredResource, err error) {
	type resource struct {
		Kind, Name string
		Owner      *struct{ Task string }
		Fence      int64
		Waiting    int
	}
	err = pages(ctx, a, "/api/v1/resources?kind=", func(r resource) {
		one := model.StoredResource{Name: r.Kind + "/" + r.Name, Fence: r.Fence, Waiting: r.Waiting}
		if r.Owner != nil {
			one.Owner = r.Owner.Task
		}
		out = append(out, one)
	})
	return out, err
}

// tasks asks for tasks, several at the same time. Those that the server does not know are left out.
func (a *admin) tasks(
	ctx context.Context, names []string, into map[string]*model.StoredTask,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for name := range work {
				t, err := a.task(ctx, name)
				if err != nil {
					cancel(err)
				}
				if t != nil {
					mu.Lock()
					into[name] = t
					mu.Unlock()
				}
			}
		})
	}
	for _, name := range names {
		if ctx.Err() == nil {
			work <- name
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// task asks for one task; nil: the server does not know it.
func (a *admin) task(ctx context.Context, name string) (*model.StoredTask, error) {
	b, err := a.get(ctx, "/api/v1/tasks/transport/"+url.PathEscape(name))
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var t struct {
		State   string
		Fields  map[string]json.RawMessage
		History []model.Change
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("read task %s: %w", name, err)
	}
	out := &model.StoredTask{State: t.State, Fields: map[string]string{}, History: t.History}
	for k, v := range t.Fields {
		var flat bytes.Buffer
		if err := json.Compact(&flat, v); err != nil {
			return nil, fmt.Errorf("read task %s: %w", name, err)
		}
		out.Fields[k] = flat.String()
	}
	return out, nil
}

// unfinished matches a kept counter of what is not worked yet.
var unfinished = regexp.MustCompile(`(?m)^once_(callbacks|effects)\{.*` +
	`state="(pending|running|sending)".*\} (\S+)$`)

// backlog is what the server still has to do.
type backlog struct{ callbacks, effects, owned int }

func (b backlog) none() bool { return b == backlog{} }

func (b backlog) String() string {
	return fmt.Sprintf("%d callbacks, %d effects, %d roadways and stations", b.callbacks, b.effects,
		b.owned)
}

// left asks what is not done yet. Events that are parked because their predecessor never came don't
// count.
func (a *admin) left(ctx context.Context) (backlog, error) {
	var out backlog
	b, err := a.get(ctx, "/metrics")
	if err != nil {
		return out, err
	}
	for _, m := range unfinished.FindAllStringSubmatch(string(b), -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return out, fmt.Errorf("read metrics: %w", err)
		}
		if m[1] == "callbacks" {
			out.callbacks += int(n)
		} else {
			out.effects += int(n)
		}
	}
	resources, err := a.resources(ctx)
	for _, r := range resources {
		if r.Owner != "" || r.Waiting > 0 {
			out.owned++
		}
	}
	return out, err
}
