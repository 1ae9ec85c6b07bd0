package outbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// TLSFiles names what a destination's TLS needs on disk.
type TLSFiles struct {
	// CA is a PEM file of the authorities to trust in place of the system's. Default: the system's.
	CA string
	// Cert and Key are PEM files of our certificate, for a server that asks for one. They are read
	// again at each handshake, so they can be renewed while we run. Default: none.
	Cert, Key string
	// ServerName that the server's certificate must bear. Default: the host of the URL.
	ServerName string
}

// Load reads the files once, so that a wrong one is told at the start. The result demands TLS 1.2
// or later.
func (f TLSFiles) Load() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA: %s holds no PEM certificate", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("read certificate: certificate and key belong together")
	}
	if f.Cert == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		return &cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return load()
	}
	return c, nil
}

// handshake makes a TLS connection of conn, which it closes on failure. Without a configuration
// the system's authorities count; addr gives the server's name where the configuration names
// none.
func handshake(ctx context.Context, conn net.Conn, c *tls.Config, addr string) (*tls.Conn, error) {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c = c.Clone()
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		c.ServerName = host
	}
	secured := tls.Client(conn, c)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("secure connection: %w", err)
	}
	return secured, nil
}
