package load

import (
	"strings"
	"testing"
)

func TestParseReplyTakesTheFirstWholeReply(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
		"content-length:  4\r\n\r\nabcd"
	for name, c := range map[string]struct {
		in   string
		want reply
	}{
		"a whole one":         {whole, reply{len(whole), 200, []byte("abcd"), false}},
		"with more behind it": {whole + "HTTP", reply{len(whole), 200, []byte("abcd"), false}},
		"its body is cut off": {whole[:len(whole)-1], reply{}},
		"its head is cut off": {whole[:40], reply{}},
		"nothing":             {"", reply{}},
		"a replay": {"HTTP/1.1 201 Created\r\nIdempotent-Replayed: true\r\n" +
			"Content-Length: 0\r\n\r\n", reply{70, 201, nil, true}},
		"an empty body":        {"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", reply{size: 36, status: 503}},
		"no text after status": {"HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n", reply{size: 35, status: 204}},
	} {
		got, err := parseReply([]byte(c.in))
		if err != nil || got.size != c.want.size || got.status != c.want.status ||
			string(got.body) != string(c.want.body) || got.replay != c.want.replay {
			t.Errorf("%s: %+v, error %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestParseReplyRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"ICY 200 OK\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("x", maxHead+1),
	} {
		if got, err := parseReply([]byte(in)); err == nil {
			t.Errorf("%.60q: %+v, want an error", in, got)
		}
	}
}

func TestCheckReplyFindsWrongAnswers(t *testing.T) {
	want, id := []byte(`{"code":"0"`), []byte("REQ-7")
	for name, c := range map[string]struct {
		reply reply
		bad   bool
	}{
		"right":         {reply{0, 200, []byte(`{"code":"0","reqCode":"REQ-7"}`), false}, false},
		"status":        {reply{0, 503, []byte(`{"code":"0","reqCode":"REQ-7"}`), false}, true},
		"code":          {reply{0, 200, []byte(`{"code":"1","reqCode":"REQ-7"}`), false}, true},
		"other request": {reply{0, 200, []byte(`{"code":"0","reqCode":"REQ-8"}`), false}, true},
	} {
		if err := checkReply(c.reply, 200, want, id); (err != nil) != c.bad {
			t.Errorf("%s: error %v, want one: %v", name, err, c.bad)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200\r\n\r\n"))
	f.Add([]byte("\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseReply(b)
		if err != nil || r.size == 0 {
			return
		}
		if r.size > len(b) || len(r.body) > r.size || r.status < 0 {
			t.Errorf("%q: %+v", b, r)
		}
	})
}
