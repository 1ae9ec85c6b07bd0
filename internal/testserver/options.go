package testserver

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// BrokerOption changes how [Mosquitto] starts its broker.
type BrokerOption func(*brokerConfig)

type brokerConfig struct {
	tls      bool
	persist  bool
	user     string
	password string
	lines    []string
}

// WithTLS makes the broker speak TLS only, with a certificate of an authority made for the test
// ([Broker.CA]).
func WithTLS() BrokerOption { return func(c *brokerConfig) { c.tls = true } }

// WithLogin makes the broker refuse everyone but this user. Without it everyone may connect.
func WithLogin(user, password string) BrokerOption {
	return func(c *brokerConfig) { c.user, c.password = user, password }
}

// WithMessageLimit sets message_size_limit: the largest payload that the broker takes, in bytes.
// To an MQTT 5 client it is told as Maximum Packet Size in CONNACK only by max_packet_size
// ([WithLine]).
func WithMessageLimit(bytes int) BrokerOption {
	return WithLine(fmt.Sprintf("message_size_limit %d", bytes))
}

// WithPersistence keeps sessions and retained messages over a restart. Without it a restarted
// broker knows nothing.
func WithPersistence() BrokerOption { return func(c *brokerConfig) { c.persist = true } }

// WithLine adds a line to mosquitto.conf, before the listener.
func WithLine(line string) BrokerOption {
	return func(c *brokerConfig) { c.lines = append(c.lines, line) }
}

// text is mosquitto.conf for one port. The broker keeps the user who runs the test: it would else
// give up root, and could not read what the test wrote for it.
func (c brokerConfig) text(t testing.TB, dir string, port int, ca *CA) string {
	t.Helper()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if u, err := user.Current(); err == nil {
		line("user %s", u.Username)
	}
	line("log_dest stderr")
	line("persistence %t", c.persist)
	line("persistence_location %s/", dir)
	line("autosave_interval 1")
	line("autosave_on_changes true")
	line("set_tcp_nodelay true")
	for _, l := range c.lines {
		line("%s", l)
	}
	line("allow_anonymous %t", c.user == "")
	if c.user != "" {
		line("password_file %s", writePasswords(t, dir, c.user, c.password))
	}
	line("listener %d 127.0.0.1", port)
	if c.tls {
		cert, key := ca.Server(t)
		line("cafile %s", ca.File())
		line("certfile %s", cert)
		line("keyfile %s", key)
	}
	return b.String()
}

// writePasswords makes a password file of one line, user:$7$rounds$salt$hash, in which the hash is
// PBKDF2 with SHA-512 over 64 bytes: what mosquitto_passwd writes since 2.0.
func writePasswords(t testing.TB, dir, user, password string) string {
	t.Helper()
	const rounds, saltBytes, hashBytes = 101, 12, 64
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the program instead
	hash, err := pbkdf2.Key(sha512.New, password, salt, rounds, hashBytes)
	if err != nil {
		t.Fatalf("hash password: %v", err)
	}
	encode := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf("%s:$7$%d$%s$%s\n", user, rounds, encode(salt), encode(hash))
	file := filepath.Join(dir, "passwords")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write passwords: %v", err)
	}
	return file
}
