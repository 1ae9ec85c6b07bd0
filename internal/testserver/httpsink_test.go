package testserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

func post(ctx context.Context, url, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Idempotency-Key", "k-"+body)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestASinkKeepsWhatItGets(t *testing.T) {
	s := testserver.NewHTTPSink(t)
	status, _, err := post(t.Context(), s.URL()+"/events?a=1", "one")
	if status != 200 || err != nil {
		t.Fatalf("status %d (%v), want 200", status, err)
	}
	got := s.Await(t, 1, limit)[0]
	if got.Method != "POST" || got.URI != "/events?a=1" || string(got.Body) != "one" {
		t.Errorf("kept %s %s %q", got.Method, got.URI, got.Body)
	}
	if key := got.Header.Get("Idempotency-Key"); key != "k-one" {
		t.Errorf("key is %q, want k-one", key)
	}
	if age := time.Since(got.At); age < 0 || age > limit {
		t.Errorf("received %v ago", age)
	}
}

func TestASinkAnswersByItsScript(t *testing.T) {
	s := testserver.NewHTTPSink(t)
	s.Otherwise(testserver.Answer{Status: 204})
	s.Script(
		testserver.Answer{Status: 503, Header: http.Header{"Retry-After": {"7"}}, Body: "later"},
		testserver.Answer{Body: "fine"},
	)
	for i, want := range []struct {
		status int
		body   string
	}{{503, "later"}, {200, "fine"}, {204, ""}, {204, ""}} {
		status, body, err := post(t.Context(), s.URL(), "x")
		if status != want.status || body != want.body || err != nil {
			t.Errorf("answer %d is %d %q (%v), want %v", i, status, body, err, want)
		}
	}
	if n := len(s.Requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

func TestASinkDelaysItsAnswer(t *testing.T) {
	s := testserver.NewHTTPSink(t)
	const delay = 60 * time.Millisecond
	s.Script(testserver.Answer{Delay: delay, Status: 201})
	begin := time.Now()
	status, _, err := post(t.Context(), s.URL(), "x")
	if took := time.Since(begin); status != 201 || err != nil || took < delay {
		t.Errorf("status %d after %v (%v), want 201 after %v or more", status, took, err, delay)
	}
}

func TestASinkThatHangsHasTheRequest(t *testing.T) {
	s := testserver.NewHTTPSink(t)
	s.Script(testserver.Answer{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, _, err := post(ctx, s.URL(), "x")
		failed <- err
	}()
	s.Await(t, 1, limit)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v, want its own cancellation", err)
	}
}

func TestASinkThatHangsEndsWithTheTest(t *testing.T) {
	failed := make(chan error, 1)
	t.Run("inner", func(t *testing.T) {
		s := testserver.NewHTTPSink(t)
		s.Script(testserver.Answer{Hang: true})
		go func() {
			_, _, err := post(context.Background(), s.URL(), "x")
			failed <- err
		}()
		s.Await(t, 1, limit)
	})
	if err := <-failed; err == nil {
		t.Error("the client got an answer")
	}
}

func TestASinkThatDropsAnswersNothing(t *testing.T) {
	s := testserver.NewHTTPSink(t)
	s.Script(testserver.Answer{Drop: true})
	if status, _, err := post(t.Context(), s.URL(), "x"); err == nil {
		t.Errorf("the client got status %d", status)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
