package oncehttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestNoTunnelToHTTP2OrTLSIsAskedFor(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	origin := originOf(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	proxy := through(t, origin, nil)
	for upgrade, passes := range map[string]bool{
		"h2c": false, "H2C": false, "websocket, h2c": false, "TLS/1.2": false, "HTTP/2.0": false,
		"websocket": true, "h2cx": true,
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: "+upgrade+"\r\n"+
			"Connection: Upgrade\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v, want the answer without an upgrade", upgrade, res, err)
		}
		h := <-got
		asked := h.Get("Upgrade") == upgrade && h.Get("Connection") == "Upgrade"
		if asked != passes {
			t.Errorf("%s: the service got %v", upgrade, h)
		}
		if !passes && (h["Upgrade"] != nil || h["Http2-Settings"] != nil) {
			t.Errorf("%s: the service got %v", upgrade, h)
		}
		_ = c.Close()
	}
}

func TestHeadersThatLookLikeTheProxysOwnAreDropped(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	origin := originOf(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	res := send(t, "POST", through(t, origin, nil)+"/", nil, "X_Forwarded_For", "192.0.2.1",
		"X-Forwarded_Proto", "https", "X_Real_Ip", "192.0.2.1", "Idempotency_Key", "k",
		"X_Idempotency_Key", "k", "Idempotency_Fence", "9", "X_Team", "a")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	h := <-got
	for name := range h {
		if strings.Contains(name, "_") && name != "X_team" {
			t.Errorf("the service got %s", name)
		}
	}
	if h.Get("X_team") != "a" {
		t.Errorf("a header of its own with underscores is gone: %v", h)
	}
}
