package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority that exists for one test. It signs server certificates for
// 127.0.0.1 and localhost.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority whose files live in a folder of the test.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber:          serial(t),
		Subject:               pkix.Name{CommonName: "once test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	ca.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		t.Fatalf("sign authority: %v", err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("parse authority: %v", err)
	}
	writePEM(t, ca.File(), "CERTIFICATE", der)
	return ca
}

// File is the path of the authority's certificate, in PEM.
func (ca *CA) File() string { return filepath.Join(ca.dir, "ca.pem") }

// Config is a client configuration that trusts this authority and no other.
func (ca *CA) Config() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// Server signs a new server certificate and gives the paths of it and of its key, in PEM.
func (ca *CA) Server(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	return ca.sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// Client signs a new client certificate with a name.
func (ca *CA) Client(t testing.TB, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(ca.sign(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name},
	}))
	if err != nil {
		t.Fatalf("load client certificate: %v", err)
	}
	return pair
}

// sign fills a certificate in, signs it, and writes it and its key to files.
func (ca *CA) sign(t testing.TB, template *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template.SerialNumber = serial(t)
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatalf("sign certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	name := fmt.Sprintf("leaf-%x", template.SerialNumber)
	certFile = filepath.Join(ca.dir, name+".pem")
	keyFile = filepath.Join(ca.dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", keyDER)
	return certFile, keyFile
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return key
}

// serial is a random one: RFC 5280, 4.1.2.2 wants it positive and unique per authority.
func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatalf("make serial number: %v", err)
	}
	return n.Add(n, big.NewInt(1))
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatalf("write %s: %v", kind, err)
	}
}
