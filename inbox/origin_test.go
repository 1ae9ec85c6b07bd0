package inbox_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/webhook"
)

// seen is a request of which a verifier says under which URL it came, and from whom.
func seen(
	t *testing.T, cfg inbox.Config, publicURL string, r *http.Request,
) (url, peer string, s *memStore) {
	t.Helper()
	source := rcs()
	source.PublicURL = publicURL
	source.Verifier = verifyFunc(func(m *inbox.Message) error {
		url, peer = m.URL(), m.Peer
		return nil
	})
	s = newMemStore()
	w := httptest.NewRecorder()
	newReceiver(t, s, cfg, source).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	return url, peer, s
}

// from makes a request as it comes from an address.
func from(remote, target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(finishFE))
	r.RemoteAddr = remote
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestI03_TheSendersURLAndAddressAreBelievedOfProxiesOnly(t *testing.T) {
	cfg := inbox.Config{Proxies: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
	}}
	const proxy, target = "10.0.0.1:4711", "http://inner:8080/in/rcs?b=2&a=%20x"
	type pairs = []string
	for name, tt := range map[string]struct {
		remote, public string
		header         pairs
		url, peer      string
	}{
		"nobody in between": {"192.0.2.9:99", "", nil,
			"http://inner:8080/in/rcs?b=2&a=%20x", "192.0.2.9:99"},
		"a stranger claims": {"192.0.2.9:99", "", pairs{"X-Forwarded-For", "203.0.113.5",
			"X-Forwarded-Proto", "https", "X-Forwarded-Host", "example.org"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "192.0.2.9:99"},
		"a proxy tells": {proxy, "", pairs{"X-Forwarded-For", "203.0.113.5",
			"X-Forwarded-Proto", "https", "X-Forwarded-Host", "example.org"},
			"https://example.org/in/rcs?b=2&a=%20x", "203.0.113.5"},
		"a proxy tells nothing": {proxy, "", nil,
			"http://inner:8080/in/rcs?b=2&a=%20x", proxy},
		"an IPv6 proxy and sender": {"[fd00::1]:80", "", pairs{"X-Forwarded-For", "2001:db8::5"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "2001:db8::5"},
		"an IPv4 proxy on an IPv6 socket": {"[::ffff:10.0.0.1]:80", "",
			pairs{"X-Forwarded-For", "203.0.113.5"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "203.0.113.5"},
		"with a port": {proxy, "", pairs{"X-Forwarded-For", "203.0.113.5:1234",
			"X-Forwarded-Host", "example.org:8443", "X-Forwarded-Proto", "HTTPS"},
			"https://example.org:8443/in/rcs?b=2&a=%20x", "203.0.113.5:1234"},
		"with a port apart": {proxy, "", pairs{"X-Forwarded-Host", "example.org",
			"X-Forwarded-Proto", "https", "X-Forwarded-Port", "8443"},
			"https://example.org:8443/in/rcs?b=2&a=%20x", proxy},
		"with the standard port": {proxy, "", pairs{"X-Forwarded-Host", "example.org",
			"X-Forwarded-Proto", "https", "X-Forwarded-Port", "443"},
			"https://example.org/in/rcs?b=2&a=%20x", proxy},
		"with a path prefix": {proxy, "", pairs{"X-Forwarded-Host", "example.org",
			"X-Forwarded-Prefix", "/hooks/"},
			"http://example.org/hooks/in/rcs?b=2&a=%20x", proxy},
		"two proxies": {proxy, "", pairs{"X-Forwarded-For", "203.0.113.5, 10.2.2.2",
			"X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "example.org, front"},
			"https://example.org/in/rcs?b=2&a=%20x", "203.0.113.5"},
		"two lines": {proxy, "", pairs{"X-Forwarded-For", "203.0.113.5", "X-Forwarded-For",
			"10.2.2.2"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "203.0.113.5"},
		"what the sender adds in front": {proxy, "", pairs{"X-Forwarded-For",
			"192.0.2.1, 198.51.100.7", "X-Forwarded-Proto", "http, https"},
			"https://inner:8080/in/rcs?b=2&a=%20x", "198.51.100.7"},
		"a zone that is any text": {proxy, "", pairs{"X-Forwarded-For", "fe80::1%<b>"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "fe80::1"},
		"all are proxies": {proxy, "", pairs{"X-Forwarded-For", "10.3.3.3, 10.2.2.2"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "10.3.3.3"},
		"no address": {proxy, "", pairs{"X-Forwarded-For", "203.0.113.5, unknown, 10.2.2.2"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "unknown"},
		"brackets": {proxy, "", pairs{"X-Forwarded-For", "[2001:db8::5]"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "2001:db8::5"},
		"quotes": {proxy, "", pairs{"X-Forwarded-For", `"[2001:db8::5]:99"`},
			"http://inner:8080/in/rcs?b=2&a=%20x", "[2001:db8::5]:99"},
		"nonsense": {proxy, "", pairs{"X-Forwarded-For", ", ,x", "X-Forwarded-Proto", "gopher",
			"X-Forwarded-Host", "a/b", "X-Forwarded-Port", "http", "X-Forwarded-Prefix", "x"},
			"http://inner:8080/in/rcs?b=2&a=%20x", "unknown"},
		"the public URL wins": {proxy, "https://example.net:444/base/", pairs{
			"X-Forwarded-For", "203.0.113.5", "X-Forwarded-Host", "example.org"},
			"https://example.net:444/base/in/rcs?b=2&a=%20x", "203.0.113.5"},
	} {
		url, peer, s := seen(t, cfg, tt.public, from(tt.remote, target, tt.header...))
		if url != tt.url || peer != tt.peer {
			t.Errorf("%s: %s from %s, want %s from %s", name, url, peer, tt.url, tt.peer)
		}
		a := s.accepted()[0]
		kept, err := inbox.DecodeMeta(a.Meta)
		if err != nil || kept.Peer != tt.peer || a.Peer != tt.peer {
			t.Errorf("%s: kept %q and %q, %v", name, kept.Peer, a.Peer, err)
		}
	}
}

func TestI03_WithoutProxiesNobodyIsBelieved(t *testing.T) {
	r := from("127.0.0.1:99", "http://inner/in/rcs", "X-Forwarded-For", "203.0.113.5",
		"X-Forwarded-Host", "example.org")
	url, peer, _ := seen(t, inbox.Config{}, "", r)
	if url != "http://inner/in/rcs" || peer != "127.0.0.1:99" {
		t.Errorf("%s from %s", url, peer)
	}
}

func TestURL_IsAsItWasWritten(t *testing.T) {
	for _, target := range []string{
		"http://h/in/rcs", "http://h/in/rcs?", "http://h/in/rcs?z=1&a=2&a=1&%7E=~",
		"http://h/in/%72cs?x=a+b%20c", "https://h:8443/in/rcs",
	} {
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(finishFE))
		if url, _, _ := seen(t, inbox.Config{}, "", r); url != target {
			t.Errorf("%s became %s", target, url)
		}
	}
	m := &inbox.Message{Path: "/a b", RawQuery: "c=d", Host: "h"}
	if got := m.URL(); got != "http://h/a%20b?c=d" {
		t.Errorf("a message that was made by hand came under %s", got)
	}
}

func TestAnUnknownPathIsKeptWithTheSendersAddress(t *testing.T) {
	s := newMemStore()
	rc := newReceiver(t, s, inbox.Config{Proxies: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8")}})
	rc.ServeHTTP(httptest.NewRecorder(),
		from("10.0.0.1:80", "http://h/none", "X-Forwarded-For", "203.0.113.5"))
	if ring := s.ring(); len(ring) != 1 || ring[0].Peer != "203.0.113.5" {
		t.Errorf("ring %+v", ring)
	}
}

// verified receives one message from an address and returns the answer.
func verified(
	t *testing.T, v webhook.Verifier, r *http.Request,
) (*httptest.ResponseRecorder, *memStore) {
	t.Helper()
	source := rcs()
	source.Verifier = inbox.Signed(v)
	s, w := newMemStore(), httptest.NewRecorder()
	newReceiver(t, s, inbox.Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		source).ServeHTTP(w, r)
	return w, s
}

func TestSigned_TheAddressIsThatBehindTheProxies(t *testing.T) {
	peers, err := webhook.NewPeers(netip.MustParsePrefix("203.0.113.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	for forwarded, want := range map[string]int{
		"203.0.113.5": 200, "203.0.113.5:99": 200, "192.0.2.1": 401, "203.0.113.5, 192.0.2.1": 401,
	} {
		w, s := verified(t, peers, from("10.0.0.1:80", "/in/rcs", "X-Forwarded-For", forwarded))
		if w.Code != want || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: answer %d %v", forwarded, w.Code, w.Header())
		}
		if want == 401 && (len(s.accepted()) != 0 || s.ring()[0].Outcome != queue.Unauthorized) {
			t.Errorf("%s: kept %+v", forwarded, s.ring())
		}
	}
	if w, _ := verified(t, peers, from("203.0.113.9:80", "/in/rcs")); w.Code != 200 {
		t.Errorf("without a proxy: answer %d", w.Code)
	}
}

// A proxy whose word can't be read does not lend its own address to a sender.
func TestSigned_ASenderWhoseAddressIsUnknownIsOnNoList(t *testing.T) {
	peers, err := webhook.NewPeers(netip.MustParsePrefix("::ffff:10.0.0.0/104"))
	if err != nil {
		t.Fatal(err)
	}
	for forwarded, want := range map[string]int{"10.2.3.4": 200, "x": 401, "203.0.113.5": 401} {
		w, _ := verified(t, peers, from("10.0.0.1:80", "/in/rcs", "X-Forwarded-For", forwarded))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", forwarded, w.Code, want)
		}
	}
}

func TestSigned_ClientNamesAreThoseOfAVerifiedCertificate(t *testing.T) {
	v, err := webhook.NewClientNames("rcs-1", "spiffe://plant/rcs")
	if err != nil {
		t.Fatal(err)
	}
	uri := &url.URL{Scheme: "spiffe", Host: "plant", Path: "/rcs"}
	state := func(leaf *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf},
			VerifiedChains: [][]*x509.Certificate{{leaf}}}
	}
	cn := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	unverified := state(&x509.Certificate{DNSNames: []string{"rcs-1"}})
	unverified.VerifiedChains = nil
	for name, tt := range map[string]struct {
		state *tls.ConnectionState
		want  int
	}{
		"no TLS":         {nil, 401},
		"no certificate": {&tls.ConnectionState{}, 401},
		"not verified":   {unverified, 401},
		"DNS":            {state(&x509.Certificate{DNSNames: []string{"a", "rcs-1"}}), 200},
		"URI":            {state(&x509.Certificate{URIs: []*url.URL{uri}}), 200},
		"common name":    {state(&x509.Certificate{Subject: cn("rcs-1")}), 200},
		"another":        {state(&x509.Certificate{DNSNames: []string{"rcs-2"}}), 401},
		"a name decides": {state(&x509.Certificate{Subject: cn("rcs-1"),
			DNSNames: []string{"b"}}), 401},
	} {
		r := from("192.0.2.1:80", "/in/rcs")
		r.TLS = tt.state
		if w, _ := verified(t, v, r); w.Code != tt.want {
			t.Errorf("%s: answer %d, want %d", name, w.Code, tt.want)
		}
	}
}

// Of a combination, what needs no body is asked before the body is read.
func TestSigned_StrangersBodiesAreNotReadForACombination(t *testing.T) {
	github, err := webhook.NewGitHub(webhook.SignedConfig{Secrets: []string{"0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	peers, err := webhook.NewPeers(netip.MustParsePrefix("203.0.113.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	read := false
	body := readFunc(func([]byte) (int, error) {
		read = true
		return 0, io.EOF
	})
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", body)
	r.RemoteAddr = "192.0.2.1:80"
	w, _ := verified(t, webhook.AllOf(github, peers), r)
	if w.Code != 401 || read {
		t.Errorf("answer %d, the body was read: %t", w.Code, read)
	}
	r = from("203.0.113.9:80", "/in/rcs", "X-Hub-Signature-256", "sha256="+strings.Repeat("00", 32))
	if w, s := verified(t, webhook.AllOf(github, peers), r); w.Code != 401 ||
		!strings.Contains(w.Body.String(), "X-Hub-Signature-256 is not valid") ||
		len(s.ring()[0].Body) != 0 {
		t.Errorf("answer %d %s, ring %+v", w.Code, w.Body, s.ring())
	}
}

// Whatever a proxy tells: the address is one, and the URL has a known scheme and ends with the path
// and the query as they were written.
func FuzzForwarded(f *testing.F) {
	f.Add("203.0.113.5, 10.2.2.2", "https, http", "example.org", "8443", "/hooks")
	f.Add("[2001:db8::1]:1,,", "HTTPS", "[::1]", "0", "//x/")
	f.Add("fe80::1%25eth0", "javascript", "a b", "-1", "/?")
	source := rcs()
	var address, peer string
	source.Verifier = verifyFunc(func(m *inbox.Message) error {
		address, peer = m.URL(), m.Peer
		return nil
	})
	rc := newReceiver(f, newMemStore(), inbox.Config{Proxies: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8")}}, source)
	f.Fuzz(func(t *testing.T, addresses, proto, host, port, prefix string) {
		r := from("10.0.0.1:80", "http://inner/in/rcs?b=2&a=%20x")
		r.Header = http.Header{"X-Forwarded-For": {addresses}, "X-Forwarded-Proto": {proto},
			"X-Forwarded-Host": {host}, "X-Forwarded-Port": {port}, "X-Forwarded-Prefix": {prefix}}
		rc.ServeHTTP(httptest.NewRecorder(), r)
		_, errAddr := netip.ParseAddr(peer)
		_, errPort := netip.ParseAddrPort(peer)
		scheme, rest, _ := strings.Cut(address, "://")
		if errAddr != nil && errPort != nil || strings.Contains(peer, "%") ||
			scheme != "http" && scheme != "https" ||
			!strings.HasSuffix(rest, "/in/rcs?b=2&a=%20x") || strings.Count(rest, "?") != 1 {
			t.Errorf("%q from %q", address, peer)
		}
	})
}
