package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/oncekit/once/internal/config"
)

// senderTLS loads what the senders' listener proves itself with. A sender's certificate is asked
// for where there are authorities for it; whether one is needed each source says.
func senderTLS(files *config.TLS, log *slog.Logger) (*tls.Config, error) {
	pair := &keyPair{files: files, log: log}
	if err := pair.load(); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.certificate}
	if files.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("load tls.client_ca: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load tls.client_ca: %s holds no PEM certificate", files.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// keyPair is the listener's certificate and key. They are read again when their files have changed,
// so that a renewed certificate needs no restart. Safe for concurrent use.
type keyPair struct {
	files *config.TLS
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	state   [2]fileState // of the files when they were looked at last
}

// fileState is what changes when a file is written or replaced.
type fileState struct {
	size int64
	at   time.Time
}

// certificate returns the pair of today. Files that don't make one, as in the middle of a renewal,
// leave it what it was.
func (k *keyPair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.state
	if state, err := k.look(); err == nil && state != before {
		if err := k.read(); err != nil {
			k.log.Error("a changed certificate can't be used, the earlier one stays", "error",
				err)
		} else {
			k.log.Info("the certificate was read again", "file", k.files.Cert)
		}
		k.state = state
	}
	return k.current, nil
}

func (k *keyPair) load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		return err
	}
	var err error
	k.state, err = k.look()
	return err
}

func (k *keyPair) read() error {
	pair, err := tls.LoadX509KeyPair(k.files.Cert, k.files.Key)
	if err != nil {
		return fmt.Errorf("load tls.cert and tls.key: %w", err)
	}
	k.current = &pair
	return nil
}

// look returns the state of the files; an error if one can't be seen, as for a moment in a renewal.
func (k *keyPair) look() (state [2]fileState, err error) {
	for i, name := range []string{k.files.Cert, k.files.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return state, err
		}
		state[i] = fileState{info.Size(), info.ModTime()}
	}
	return state, nil
}
