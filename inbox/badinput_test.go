package inbox_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
)

// request writes an HTTP/1.1 POST of a body with its true length.
func request(path, contentType, body string) string {
	const head = "POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
	return fmt.Sprintf(head, path, contentType, len(body)) + body
}

// headed is the source whose key is a header.
func headed() *inbox.Source {
	s := rcs()
	s.Name, s.Paths = "headed", nil
	s.Key = func(m *inbox.Message) (once.Key, error) {
		v, err := m.OneHeader("X-Request-Id")
		if err != nil {
			return nil, err
		}
		return once.KeyOf(v)
	}
	return s
}

func TestBadInput_IsRefusedKeptAndCounted(t *testing.T) {
	const js = "application/json"
	post := func(body string) string { return request("/in/rcs", js, body) }
	head := func(lines string) string {
		return "POST /in/rcs HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n"
	}
	chunked := head("Transfer-Encoding: chunked\r\n")
	for name, c := range map[string]struct {
		request string
		cut     bool
		status  int
		source  string
		reason  string // part of it
	}{
		"wrong method": {"GET /in/rcs HTTP/1.1\r\nHost: h\r\n\r\n", false, 405, "rcs", "method"},
		"other method": {"PUT /in/rcs HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", false,
			405, "rcs", "method"},
		"empty":       {post(""), false, 400, "rcs", "body is empty"},
		"no length":   {head(""), false, 400, "rcs", "body is empty"},
		"only blanks": {post(" \n"), false, 400, "rcs", "empty"},
		"only a BOM":  {post("\xef\xbb\xbf"), false, 400, "rcs", "empty"},
		"cut off": {head("Content-Length: 100\r\n") + `{"reqCode":"1`, true,
			400, "rcs", "cut off: 13 of 100"},
		"cut chunk":      {chunked + "20\r\n{\"a\"", true, 400, "rcs", "cut off"},
		"broken chunks":  {chunked + "zz\r\n{}\r\n", true, 400, "rcs", "can't be read"},
		"cut-off JSON":   {post(finishFE[:30]), false, 400, "rcs", "ends too early"},
		"not JSON":       {post("reqCode=1"), false, 400, "rcs", "invalid JSON"},
		"two values":     {post(finishFE + finishFE), false, 400, "rcs", "invalid JSON"},
		"duplicate name": {post(`{"reqCode":"1","reqCode":"2"}`), false, 400, "rcs", "duplicate"},
		"raw NUL":        {post("{\"reqCode\":\"\x00\"}"), false, 400, "rcs", "invalid JSON"},
		"NUL in text":    {post(`{"reqCode":"a\u0000b"}`), false, 400, "rcs", "NUL"},
		"NUL, BOM": {post("\xef\xbb\xbf" + `{"a":{"b":["\u0000"]}}`), false,
			400, "rcs", "NUL"},
		"invalid UTF-8": {post("{\"reqCode\":\"\xe9\"}"), false, 400, "rcs", "UTF-8"},
		"too deep": {post(strings.Repeat("[", 65) + strings.Repeat("]", 65)), false, 400,
			"rcs", "deep"},
		"too large": {post(`"` + strings.Repeat("x", 1<<20) + `"`), false, 413, "rcs",
			"larger than 262144 bytes"},
		"wrong type": {request("/in/rcs", "application/x-www-form-urlencoded", "a=1"), false, 400,
			"rcs", `, want application/json, another +json, text/json, text/plain, or none`},
		"latin1": {request("/in/rcs", "application/json; charset=latin1", `{"reqCode":"ü"}`),
			false, 400, "rcs", `application/json; charset=latin1`},
		"charset twice": {request("/in/rcs", "text/plain;charset=utf-8;charset=utf-16", finishFE),
			false, 400, "rcs", "wrong charset"},
		"XML": {request("/in/rcs", "application/xml", "<a/>"), false, 400, "rcs",
			"wrong content type"},
		"doubled type": {head("Content-Type: text/json\r\nContent-Type: text/json\r\n"+
			"Content-Length: 2\r\n") + "{}", false, 400, "rcs", "wrong content type"},
		"gzip": {head("Content-Encoding: gzip\r\nContent-Length: 2\r\n") + "{}", false, 400, "rcs",
			"content encoding"},
		"key part missing": {post(`{"taskCode":"T","callbackMethod":"m"}`), false, 400, "rcs",
			"key part 1 is missing"},
		"key part null": {post(`{"reqCode":"1","taskCode":null,"callbackMethod":"m"}`), false, 400,
			"rcs", "key part 2 is missing"},
		"key part empty": {post(`{"reqCode":"","taskCode":"T","callbackMethod":"m"}`), false, 400,
			"rcs", "key part 1 is empty"},
		"key part object": {post(`{"reqCode":{"a":1},"taskCode":"T","callbackMethod":"m"}`), false,
			400, "rcs", "key part 1 is an object"},
		"body is a list": {post(`[]`), false, 400, "rcs", "not an object"},
		"doubled key header": {"POST /in/headed HTTP/1.1\r\nHost: h\r\nX-Request-Id: K\r\n" +
			"x-request-id: K\r\nContent-Length: 2\r\n\r\n{}", false, 400, "headed", "2 times"},
		"empty key header": {"POST /in/headed HTTP/1.1\r\nHost: h\r\nX-Request-Id: \r\n" +
			"Content-Length: 2\r\n\r\n{}", false, 400, "headed", "is empty"},
		"no key header":  {request("/in/headed", js, "{}"), false, 400, "headed", "is missing"},
		"unknown source": {request("/in/other", js, finishFE), false, 404, "", "no source"},
		"doubled slash":  {request("//in/rcs", js, finishFE), false, 404, "", "no source"},
		"trailing slash": {request("/in/rcs/", js, finishFE), false, 404, "", "no source"},
		"dots":           {request("/in/x/../rcs", js, finishFE), false, 404, "", "no source"},
		"encoded slash":  {request("/in%2Frcs", js, finishFE), false, 404, "", "no source"},
		"own path, more": {request("/agv/agvCallbackService/agvCallback/", js, finishFE), false,
			404, "", "no source"},
		"admin": {request("/metrics", js, ""), false, 404, "", "no source"},
	} {
		t.Run(name, func(t *testing.T) {
			store, seen := newMemStore(), &counter{}
			cfg := inbox.Config{Observer: seen}
			srv := httptest.NewServer(newReceiver(t, store, cfg, rcs(), headed()))
			defer srv.Close()
			status, header, body := raw(t, srv.Listener.Addr().String(), c.request, c.cut)
			if status != c.status || !strings.Contains(body, c.reason) {
				t.Errorf("answer %d %s, want %d with %q", status, body, c.status, c.reason)
			}
			if c.status != 404 && !strings.HasPrefix(body, `{"code":"1","message":"`) {
				t.Errorf("body %s is not the source's invalid reply", body)
			}
			if allow := header.Get("Allow"); (c.status == 405) != (allow == "POST") {
				t.Errorf("Allow is %q", allow)
			}
			ring := store.ring()
			if len(ring) != 1 || ring[0].Source != c.source ||
				!strings.Contains(ring[0].Reason, c.reason) || ring[0].Outcome != "invalid" ||
				!strings.HasPrefix(ring[0].Peer, "127.0.0.1:") || ring[0].At.IsZero() {
				t.Errorf("ring holds %+v", ring)
			}
			if len(ring) == 1 {
				if _, err := inbox.DecodeMeta(ring[0].Meta); err != nil {
					t.Error(err)
				}
			}
			if len(store.accepted()) != 0 {
				t.Error("something was appended")
			}
			srv.Close() // waits for the handler, which counts after its answer
			if seen.count(c.source+"/invalid") != 1 {
				t.Errorf("counted %v", seen.n)
			}
		})
	}
}

func TestOddInput_IsAccepted(t *testing.T) {
	const js = "application/json"
	for name, c := range map[string]string{
		"plain":         request("/in/rcs", js, finishFE),
		"own path":      request("/agv/agvCallbackService/agvCallback", js, finishFE),
		"BOM":           request("/in/rcs", js, "\xef\xbb\xbf"+finishFE),
		"charset":       request("/in/rcs", "Application/JSON; charset=UTF-8", finishFE),
		"latin1, plain": request("/in/rcs", "text/plain; charset=ISO-8859-1", finishFE),
		"GBK, plain":    request("/in/rcs", "application/json;charset=GBK", finishFE),
		"US-ASCII":      request("/in/rcs", `text/json; charset="us-ascii"`, finishFE),
		"+json":         request("/in/rcs", "application/vnd.robot+json;v=1", finishFE),
		"text/json":     request("/in/rcs", "text/json", finishFE),
		"text/plain":    request("/in/rcs", "text/plain;charset=utf-8", finishFE),
		"empty type":    request("/in/rcs", "", finishFE),
		"identity": "POST /in/rcs HTTP/1.1\r\nHost: h\r\nContent-Encoding: identity\r\n" +
			"Content-Length: 72\r\n\r\n" + finishFE,
		"no type": "POST /in/rcs HTTP/1.1\r\nHost: h\r\nContent-Length: 72\r\n\r\n" +
			finishFE,
		"chunked": "POST /in/rcs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"48\r\n" + finishFE + "\r\n0\r\n\r\n",
		"absolute form": request("http://h/in/rcs", js, finishFE),
		"longer than said": "POST /in/rcs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" +
			"Content-Length: 72\r\n\r\n" + finishFE + "more",
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemStore()
			srv := httptest.NewServer(newReceiver(t, store, inbox.Config{}))
			defer srv.Close()
			status, _, body := raw(t, srv.Listener.Addr().String(), c, false)
			want := `{"code":"0","message":"Success","reqCode":"REQ-1024"}`
			if status != 200 || body != want {
				t.Errorf("answer %d %s", status, body)
			}
			got := store.accepted()
			if len(got) != 1 || len(store.ring()) != 0 {
				t.Fatalf("%d accepted, ring %v", len(got), store.ring())
			}
			if n := cap(got[0].Body); n > 2*len(got[0].Body) {
				t.Errorf("the stored body holds on to %d bytes", n)
			}
		})
	}
}

func TestI05_LimitIsExact(t *testing.T) {
	fill := func(size int) string {
		const head, tail = `{"reqCode":"1","taskCode":"2","callbackMethod":"e","note":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	for _, chunked := range []bool{false, true} {
		for size, want := range map[int]int{
			4095: 200, 4096: 200, 4097: 200, 8192: 200, 10000: 200, 10001: 413, 20000: 413,
		} {
			source := rcs()
			source.MaxBody = 10000
			source.Key = func(*inbox.Message) (once.Key, error) { return once.KeyOf("k") }
			store := newMemStore()
			srv := httptest.NewServer(newReceiver(t, store, inbox.Config{}, source))
			var body io.Reader = strings.NewReader(fill(size))
			if chunked {
				body = io.MultiReader(body)
			}
			res, err := http.Post(srv.URL+"/in/rcs", "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			srv.Close()
			if res.StatusCode != want {
				t.Errorf("size %d, chunked %v: %d, want %d", size, chunked, res.StatusCode, want)
			}
			if got := store.accepted(); want == 200 && string(got[0].Body) != fill(size) {
				t.Errorf("size %d, chunked %v: another body was stored", size, chunked)
			}
		}
	}
}

func TestI05_EndlessChunkedBodyIsStopped(t *testing.T) {
	store := newMemStore()
	srv := httptest.NewServer(newReceiver(t, store, inbox.Config{}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	head := "POST /in/rcs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	sent := make(chan int)
	go func() {
		n, chunk := 0, "1000\r\n"+strings.Repeat(" ", 0x1000)+"\r\n"
		for { // ends when the server closes the connection
			if _, err := io.WriteString(conn, chunk); err != nil {
				break
			}
			n += 0x1000
		}
		sent <- n
	}()
	status, header, _ := readAnswer(t, conn)
	if status != 413 || header.Get("Connection") != "close" {
		t.Errorf("answer %d, %v", status, header)
	}
	if n := <-sent; n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if ring := store.ring(); len(ring) != 1 || len(ring[0].Body) != 4096 {
		t.Errorf("ring holds %d", len(ring))
	}
}

func TestNumberAbove2To53_StaysExactInTheKey(t *testing.T) {
	store := newMemStore()
	rc := newReceiver(t, store, inbox.Config{})
	for _, n := range []string{"9007199254740992", "9007199254740993", "9007199254740993.0"} {
		post(rc, "/in/rcs", `{"reqCode":`+n+`,"taskCode":3,"callbackMethod":"m"}`)
	}
	got := store.accepted()
	if len(got) != 2 || got[1].Key[0] != "9007199254740993" {
		t.Fatalf("accepted %d", len(got))
	}
}

func TestSlowBody_EndsWithTheServersReadTimeout(t *testing.T) {
	store := newMemStore()
	srv := httptest.NewUnstartedServer(newReceiver(t, store, inbox.Config{}))
	srv.Config.ReadTimeout = 50 * time.Millisecond
	srv.Start()
	defer srv.Close()
	const head = "POST /in/rcs HTTP/1.1\r\nHost: h\r\nContent-Length: 72\r\n\r\n{"
	status, _, body := raw(t, srv.Listener.Addr().String(), head, false)
	if status != 400 || !strings.Contains(body, "too slowly: 1 bytes") {
		t.Errorf("answer %d %s", status, body)
	}
}

func TestShortBody_IsCutOffInAnyServer(t *testing.T) {
	for _, ends := range []error{io.EOF, io.ErrUnexpectedEOF} {
		store := newMemStore()
		rest := finishFE
		r := httptest.NewRequest(http.MethodPost, "/in/rcs", readFunc(func(p []byte) (int, error) {
			n := copy(p, rest)
			rest = rest[n:]
			return n, ends
		}))
		r.ContentLength = 100
		w := httptest.NewRecorder()
		newReceiver(t, store, inbox.Config{}).ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "cut off: 72 of 100 bytes") ||
			len(store.accepted()) != 0 {
			t.Errorf("answer %d %s", w.Code, w.Body)
		}
	}
}
