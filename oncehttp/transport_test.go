package oncehttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// script is a server that gives its answers in order, the last one for ever. It is asked without a
// network, so that a test's clock is its own.
type script struct {
	answers []func(*http.Request) (*http.Response, error)

	mu    sync.Mutex
	tries []sent
}

type sent struct {
	at         time.Time
	key, body  string
	repeatable bool // http.Transport could send it again by itself
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	s.mu.Lock()
	s.tries = append(s.tries, sent{
		at: time.Now(), key: strings.Join(req.Header["Idempotency-Key"], "|"), body: string(b),
		repeatable: req.Body == nil || req.Body == http.NoBody || req.GetBody != nil,
	})
	answer := s.answers[min(len(s.tries), len(s.answers))-1]
	s.mu.Unlock()
	return answer(req)
}

// pauses are the times between the tries.
func (s *script) pauses() []time.Duration {
	var list []time.Duration
	for i := 1; i < len(s.tries); i++ {
		list = append(list, s.tries[i].at.Sub(s.tries[i-1].at))
	}
	return list
}

func answer(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{
			StatusCode: status, Header: http.Header{}, Request: req,
			Body: io.NopCloser(strings.NewReader(body)),
		}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Add(header[i], header[i+1])
		}
		return resp, nil
	}
}

func problem(status int, kind string, header ...string) tryFunc {
	return answer(status, `{"type":"`+kind+`","status":409}`,
		append(header, "Content-Type", "application/problem+json")...)
}

func cut(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// hang answers when the request's context ends.
func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

type (
	tryFunc = func(*http.Request) (*http.Response, error)
	answers = []tryFunc
)

func transport(t *testing.T, cfg oncehttp.TransportConfig) *oncehttp.Transport {
	t.Helper()
	tr, err := oncehttp.NewTransport(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// post sends a request through a transport over the script.
func post(t *testing.T, s *script, cfg oncehttp.TransportConfig, body io.Reader) (
	status int, text string, err error,
) {
	t.Helper()
	cfg.Base = s
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://api.test/orders", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport(t, cfg).RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), nil
}

func TestWhichAnswersAreTriedAgain(t *testing.T) {
	const ours = "urn:once:problem:"
	for name, c := range map[string]struct {
		first func(*http.Request) (*http.Response, error)
		again bool
	}{
		"200":                          {answer(200, "x"), false},
		"303":                          {answer(303, "x"), false},
		"400":                          {answer(400, "x"), false},
		"401":                          {answer(401, "x", "Retry-After", "1"), false},
		"404":                          {answer(404, "x"), false},
		"408":                          {answer(408, "x"), false},
		"409 without Retry-After":      {answer(409, "x"), false},
		"409 with Retry-After":         {answer(409, "x", "Retry-After", "1"), true},
		"409 in flight":                {problem(409, ours+"in-flight", "Retry-After", "1"), true},
		"409 in flight, no time":       {problem(409, ours+"in-flight"), true},
		"409 held":                     {problem(409, ours+"held"), false},
		"409 held, with Retry-After":   {problem(409, ours+"held", "Retry-After", "1"), false},
		"409 problem of somebody else": {problem(409, "about:blank"), false},
		"422":                          {answer(422, "x"), false},
		"425":                          {answer(425, "x"), true},
		"429":                          {answer(429, "x"), true},
		"500":                          {answer(500, "x"), true},
		"500 of a replay":              {answer(500, "x", "Idempotent-Replayed", "true"), false},
		"501":                          {answer(501, "x"), false},
		"502":                          {answer(502, "x"), true},
		"503":                          {answer(503, "x"), true},
		"504":                          {answer(504, "x"), true},
		"a broken connection":          {cut, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: answers{c.first, answer(201, "done")}}
				status, _, err := post(t, s, oncehttp.TransportConfig{}, strings.NewReader("{}"))
				want := 1
				if c.again {
					want = 2
				}
				if len(s.tries) != want || err != nil || c.again != (status == 201 && want == 2) {
					t.Errorf("%d tries, want %d; status %d, error %v", len(s.tries), want, status,
						err)
				}
			})
		})
	}
}

func TestEachTryBearsTheSameKeyAndBytesAndIsNotSentByGoItself(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		want string
	}{
		"no body":                 {nil, ""},
		"an empty body":           {http.NoBody, ""},
		"a body in memory":        {strings.NewReader("some"), "some"},
		"a body that is buffered": {io.MultiReader(strings.NewReader("some")), "some"},
		"an empty stream":         {io.MultiReader(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: answers{answer(503, "x"), cut, answer(201, "done")}}
				status, text, err := post(t, s, oncehttp.TransportConfig{}, c.body)
				if err != nil || status != 201 || text != "done" {
					t.Fatalf("status %d, %q, error %v", status, text, err)
				}
				if len(s.tries) != 3 {
					t.Fatalf("%d tries, want 3", len(s.tries))
				}
				for i, try := range s.tries {
					if try.key != s.tries[0].key || try.body != c.want || try.repeatable {
						t.Errorf("try %d: %+v", i+1, try)
					}
				}
			})
		})
	}
}

func TestALargeStreamIsTriedOnceAndTheErrorSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: answers{cut}}
		_, _, err := post(t, s, oncehttp.TransportConfig{MaxBuffer: 3},
			io.MultiReader(strings.NewReader("some")))
		if len(s.tries) != 1 || s.tries[0].body != "some" {
			t.Errorf("tries %+v, want one with the whole body", s.tries)
		}
		if !errors.Is(err, oncehttp.ErrNotRepeatable) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error %v", err)
		}
		s = &script{answers: answers{answer(503, "x")}}
		status, _, err := post(t, s, oncehttp.TransportConfig{MaxBuffer: 3},
			io.MultiReader(strings.NewReader("some")))
		if status != 503 || err != nil || len(s.tries) != 1 {
			t.Errorf("status %d, error %v after %d tries", status, err, len(s.tries))
		}
	})
}

func TestRetryAfterIsWaitedAndNeverLess(t *testing.T) {
	// A bubble's clock begins at midnight UTC 2000-01-01.
	for name, c := range map[string]struct {
		after, date string // Retry-After and Date
		least       time.Duration
	}{
		"seconds":                  {"7", "", 7 * time.Second},
		"a date":                   {"Sat, 01 Jan 2000 00:00:09 GMT", "", 9 * time.Second},
		"a date that is past":      {"Fri, 31 Dec 1999 00:00:00 GMT", "", 0},
		"something else":           {"soon", "", 0},
		"a time before the origin": {"-4", "", 0},
		"a date by another clock": {
			"Sat, 01 Jan 2000 06:00:05 GMT", "Sat, 01 Jan 2000 06:00:00 GMT", 5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := answer(503, "x", "Retry-After", c.after, "Date", c.date)
				s := &script{answers: answers{first, answer(201, "done")}}
				if _, _, err := post(t, s, oncehttp.TransportConfig{}, nil); err != nil {
					t.Fatal(err)
				}
				const jitter = 250 * time.Millisecond // FirstPause
				if p := s.pauses()[0]; p < c.least || p > c.least+jitter {
					t.Errorf("a pause of %s, want %s and up to %s more", p, c.least, jitter)
				}
			})
		})
	}
}

func TestPausesGrowAreCappedAndJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := oncehttp.TransportConfig{
			MaxTries: 12, FirstPause: 100 * time.Millisecond, MaxPause: 3 * time.Second,
			MaxTime: time.Hour,
		}
		caps := []time.Duration{100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000, 3000, 3000}
		distinct, above := map[time.Duration]bool{}, 0
		for range 20 {
			s := &script{answers: answers{answer(503, "last")}}
			status, text, err := post(t, s, cfg, nil)
			if status != 503 || text != "last" || err != nil || len(s.tries) != 12 {
				t.Fatalf("%d %q %v after %d tries; want the last answer after 12", status, text,
					err, len(s.tries))
			}
			for i, p := range s.pauses() {
				most := caps[i] * time.Millisecond
				if p < 0 || p > most {
					t.Errorf("pause %d is %s, want at most %s", i+1, p, most)
				}
				if p > most/2 {
					above++
				}
				distinct[p] = true
			}
		}
		// 220 even draws: the chance of fewer than 70 above the middle is below 1e-7.
		if above < 70 || above > 150 || len(distinct) < 200 {
			t.Errorf("%d of 220 pauses above their middle, %d distinct", above, len(distinct))
		}
	})
}

func TestTimeIsBounded(t *testing.T) {
	start := func(t *testing.T, s *script, cfg oncehttp.TransportConfig) (
		int, time.Duration, error,
	) {
		t.Helper()
		begin := time.Now()
		status, _, err := post(t, s, cfg, nil)
		return status, time.Since(begin), err
	}
	t.Run("a try that hangs is given up and tried again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: answers{hang, answer(201, "done")}}
			status, took, err := start(t, s, oncehttp.TransportConfig{TryTime: 4 * time.Second})
			if status != 201 || err != nil || took < 4*time.Second || took > 5*time.Second {
				t.Errorf("status %d, error %v after %s", status, err, took)
			}
		})
	})
	t.Run("tries that hang end with MaxTime", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: answers{hang}}
			_, took, err := start(t, s, oncehttp.TransportConfig{MaxTime: 50 * time.Second})
			if err == nil || took > 50*time.Second || len(s.tries) < 2 {
				t.Errorf("error %v after %s and %d tries", err, took, len(s.tries))
			}
		})
	})
	t.Run("an answer is returned at once if the pause would pass MaxTime", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: answers{answer(503, "x", "Retry-After", "3600")}}
			status, took, err := start(t, s, oncehttp.TransportConfig{})
			if status != 503 || err != nil || took != 0 {
				t.Errorf("status %d, error %v after %s", status, err, took)
			}
		})
	})
	t.Run("an answer whose body hangs is dropped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			slow := func(req *http.Request) (*http.Response, error) {
				resp, err := answer(503, "")(req)
				resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
					<-req.Context().Done()
					return 0, req.Context().Err()
				}))
				return resp, err
			}
			s := &script{answers: answers{slow, answer(201, "done")}}
			status, took, err := start(t, s, oncehttp.TransportConfig{TryTime: time.Second})
			if status != 201 || err != nil || took > 2*time.Second {
				t.Errorf("status %d, error %v after %s", status, err, took)
			}
		})
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTheCallersContextEndsPausesAndTries(t *testing.T) {
	for name, first := range map[string]func(*http.Request) (*http.Response, error){
		"in a pause": answer(503, "x", "Retry-After", "60"), "in a try": hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(3*time.Second, cancel)
				s := &script{answers: answers{first}}
				req, err := http.NewRequestWithContext(ctx, "POST", "http://api.test/", nil)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				_, err = transport(t, oncehttp.TransportConfig{Base: s}).RoundTrip(req)
				if took := time.Since(begin); !errors.Is(err, context.Canceled) ||
					took != 3*time.Second || len(s.tries) != 1 {
					t.Errorf("error %v after %s and %d tries", err, took, len(s.tries))
				}
			})
		})
	}
	t.Run("a deadline that a pause would pass", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := &script{answers: answers{answer(503, "x", "Retry-After", "60")}}
			req, err := http.NewRequestWithContext(ctx, "POST", "http://api.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			resp, err := transport(t, oncehttp.TransportConfig{Base: s}).RoundTrip(req)
			if err != nil || resp.StatusCode != 503 || time.Since(begin) != 0 {
				t.Fatalf("%v, %v after %s", resp, err, time.Since(begin))
			}
			_ = resp.Body.Close()
		})
	})
}

func TestOtherMethodsGoAsTheyAre(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://api.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var got *http.Request
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r
			return answer(503, "")(r)
		})
		resp, err := transport(t, oncehttp.TransportConfig{Base: base}).RoundTrip(req)
		if err != nil || got != req {
			t.Errorf("%s: the request was changed, or %v", method, err)
			continue
		}
		_ = resp.Body.Close()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
