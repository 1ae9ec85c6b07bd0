package server_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
)

// secured has a source for each of two clients, one for anybody, and one for addresses that a proxy
// tells.
func secured(t *testing.T) (*service, *testserver.CA) {
	t.Helper()
	ca := testserver.NewCA(t)
	cert, key := ca.Server(t)
	s := serve(t, t.TempDir(), `
tls: {cert: "`+cert+`", key: "`+key+`", client_ca: "`+ca.File()+`"}
proxies: [127.0.0.0/8]
sources:
  rcs: {key: ["body.id"], auth: {client_names: [rcs-1.plant.example]}, to: {handler: h}}
  open: {key: ["body.id"], auth: none, to: {handler: h}}
  near: {key: ["body.id"], auth: {ips: [203.0.113.0/24]}, to: {handler: h}}
`, handles(inbox.WorkFunc(accept)))
	s.url = "https" + strings.TrimPrefix(s.url, "http")
	return s, ca
}

// as makes the client show certificates.
func (s *service) as(ca *testserver.CA, certs ...tls.Certificate) {
	cfg := ca.Config()
	cfg.Certificates = certs
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true,
		DisableKeepAlives: true}
	s.client = &http.Client{Transport: transport, Timeout: patience}
}

func TestTLS_ASourceWantsTheNameOfItsClient(t *testing.T) {
	t.Parallel()
	s, ca := secured(t)
	const body = `{"id":"1"}`
	s.as(ca)
	s.post(200, "open", body)
	s.post(401, "rcs", body)
	s.as(ca, ca.Client(t, "rcs-1.plant.example"))
	s.post(200, "rcs", body)
	s.as(ca, ca.Client(t, "rcs-2.plant.example"))
	s.post(401, "rcs", body)
	s.post(200, "open", body)
	stranger := testserver.NewCA(t).Client(t, "rcs-1.plant.example")
	s.as(ca, stranger)
	if a, err := s.send(http.MethodPost, s.url+"/in/rcs", body); err == nil && a.status == 200 {
		t.Errorf("a client of another authority was answered %d %s", a.status, a.body)
	}
	s.as(ca)
	s.client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	if _, err := s.send(http.MethodPost, s.url+"/in/open", body); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestI03_AddressesAreThoseThatAProxyTells(t *testing.T) {
	t.Parallel()
	s, ca := secured(t)
	s.as(ca)
	s.post(401, "near", `{"id":"1"}`)
	s.post(401, "near", `{"id":"1"}`, "X-Forwarded-For", "203.0.113.5, 192.0.2.1")
	s.post(200, "near", `{"id":"1"}`, "X-Forwarded-For", "192.0.2.1, 203.0.113.5")
	s.awaitCallback("source=near", "done")
	if !strings.Contains(s.log.String(), "peer=192.0.2.1") {
		t.Errorf("the log has not the sender's address:\n%s", s.log)
	}
}

func TestTLS_FilesThatCannotBeLoadedAreNamed(t *testing.T) {
	t.Parallel()
	ca := testserver.NewCA(t)
	cert, key := ca.Server(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no PEM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string][3]string{
		"load tls.cert and tls.key":                   {empty, key, ca.File()},
		"load tls.client_ca: open /none/ca.pem":       {cert, key, "/none/ca.pem"},
		"empty.pem holds no PEM certificate":          {cert, key, empty},
		"load tls.cert and tls.key: open /none/a.pem": {"/none/a.pem", key, ca.File()},
	} {
		err := openError(t, `
tls: {cert: "`+files[0]+`", key: "`+files[1]+`", client_ca: "`+files[2]+`"}
sources: {a: {key: ["body.id"], to: {http: "http://127.0.0.1:1"}}}
`)
		if !strings.Contains(err, want) {
			t.Errorf("%s, want %s", err, want)
		}
	}
}

func TestTLS_ARenewedCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	ca, dir := testserver.NewCA(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	// renew moves files to the place of the earlier ones, as programs that renew do.
	renew := func(newCert, newKey string) {
		t.Helper()
		for from, to := range map[string]string{newCert: cert, newKey: key} {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	renew(ca.Server(t))
	s := serve(t, dir, `
tls: {cert: "`+cert+`", key: "`+key+`"}
sources: {open: {key: ["body.id"], to: {handler: h}}}
`, handles(inbox.WorkFunc(accept)))
	address := strings.TrimPrefix(s.url, "http://")
	serial := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", address, ca.Config())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	renew(ca.Server(t))
	second := serial()
	if first == second || serial() != second {
		t.Errorf("the certificate is %s, then %s", first, second)
	}
	if err := os.WriteFile(cert, []byte("half of a renewal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != second {
		t.Errorf("with a broken file the certificate is %s, want %s", got, second)
	}
	if n := strings.Count(s.log.String(), "can't be used"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != second {
		t.Errorf("without the file the certificate is %s, want %s", got, second)
	}
	renew(ca.Server(t))
	if got := serial(); got == second {
		t.Error("what was repaired is not used")
	}
}

// accept works a callback by doing nothing.
func accept(context.Context, inbox.Callback) (any, error) { return nil, nil }
