package testserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/child"
)

const (
	// startLimit is how long a broker may take until it accepts connections.
	startLimit = 20 * time.Second
	// stopLimit is how long a broker may take to end by itself before it is killed.
	stopLimit = 5 * time.Second
	// startTries bounds how many ports are tried when another process takes the one chosen.
	startTries = 5
)

var errPortTaken = errors.New("the port was taken meanwhile")

// Broker is a mosquitto process of its own, on one loopback port that it keeps over restarts.
type Broker struct {
	t    testing.TB
	dir  string
	port int
	ca   *CA // nil without TLS
	conf brokerConfig

	mu   sync.Mutex
	proc *child.Process // nil while the broker is down
}

// Mosquitto starts a broker and returns when it accepts MQTT connections. It ends with the test.
func Mosquitto(t testing.TB, options ...BrokerOption) *Broker {
	t.Helper()
	b := &Broker{t: t, dir: t.TempDir()}
	for _, option := range options {
		option(&b.conf)
	}
	if b.conf.tls {
		b.ca = NewCA(t)
	}
	t.Cleanup(b.Kill)
	for range startTries {
		b.port = freePort(t)
		text := b.conf.text(t, b.dir, b.port, b.ca)
		if err := os.WriteFile(b.file("mosquitto.conf"), []byte(text), 0o600); err != nil {
			t.Fatalf("write broker configuration: %v", err)
		}
		err := b.start()
		if err == nil {
			return b
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("start mosquitto: %v", err)
		}
	}
	t.Fatalf("start mosquitto: no free port in %d tries", startTries)
	return nil
}

// URL is where the broker listens: mqtt://127.0.0.1:PORT, or mqtts:// with TLS.
func (b *Broker) URL() string {
	if b.ca != nil {
		return "mqtts://" + b.Addr()
	}
	return "mqtt://" + b.Addr()
}

// Addr is the broker's host and port.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// CA is the authority that signed the broker's certificate; nil without [WithTLS].
func (b *Broker) CA() *CA { return b.ca }

// Log is what the broker has written so far, over all its starts.
func (b *Broker) Log() string {
	b.t.Helper()
	data, err := os.ReadFile(b.file("log"))
	if err != nil {
		b.t.Errorf("read broker log: %v", err)
	}
	return string(data)
}

// Start runs a stopped or killed broker again, on the same port and with the same folder, and
// returns when it accepts connections. It does nothing if the broker runs.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.start(); err != nil {
		b.t.Fatalf("start mosquitto again: %v", err)
	}
}

// Stop ends the broker as an operator would (SIGTERM) and returns when it is gone.
func (b *Broker) Stop() { b.end(syscall.SIGTERM) }

// Kill ends the broker at once (SIGKILL) and returns when it is gone. It does nothing if the
// broker is down.
func (b *Broker) Kill() { b.end(syscall.SIGKILL) }

func (b *Broker) file(name string) string { return filepath.Join(b.dir, name) }

func (b *Broker) end(signal os.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != nil {
		b.proc.End(signal, stopLimit)
		b.proc = nil
	}
}

func (b *Broker) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc != nil {
		return nil
	}
	program, err := mosquittoProgram()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(b.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open broker log: %w", err)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open broker log: %w", err)
	}
	cmd := exec.Command(program, "-c", b.file("mosquitto.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := child.Start(cmd)
	if err != nil {
		return err
	}
	if err := b.awaitReady(proc, from); err != nil {
		proc.Kill()
		return err
	}
	b.proc = proc
	return nil
}

// mosquittoProgram finds the broker, also where it lives on Debian, outside a user's PATH.
func mosquittoProgram() (string, error) {
	if path, err := exec.LookPath("mosquitto"); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("/usr/sbin/mosquitto")
	if err != nil {
		return "", errors.New("mosquitto is missing: apt-get install mosquitto")
	}
	return path, nil
}

// awaitReady waits until this very process says that it runs, and a client gets its CONNACK. The
// log is asked first: on a port that is taken, another broker would answer in its place.
func (b *Broker) awaitReady(proc *child.Process, logFrom int64) error {
	deadline := time.Now().Add(startLimit)
	for {
		log := logSince(b.file("log"), logFrom)
		if brokerRuns.MatchString(log) && b.greets() {
			return nil
		}
		switch {
		case proc.Ended() && addressTaken.MatchString(log):
			return errPortTaken
		case proc.Ended():
			return fmt.Errorf("the broker ended: %s", log)
		case time.Now().After(deadline):
			return fmt.Errorf("the broker is not ready after %v: %s", startLimit, log)
		}
		time.Sleep(pollEvery)
	}
}

// greets sends an MQTT 3.1.1 CONNECT and tells whether a CONNACK comes back, whatever it says: a
// broker that refuses the login is up as well.
func (b *Broker) greets() bool {
	dialer := &net.Dialer{Timeout: time.Second}
	conn, err := dialer.Dial("tcp", b.Addr())
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second)) // a dead connection fails below
	if b.ca != nil {
		config := b.ca.Config()
		config.ServerName = "localhost"
		conn = tls.Client(conn, config)
	}
	connect := []byte("\x10\x15\x00\x04MQTT\x04\x02\x00\x0a\x00\x09testready")
	if _, err := conn.Write(connect); err != nil {
		return false
	}
	answer := make([]byte, 4)
	_, err = io.ReadFull(conn, answer)
	return err == nil && answer[0] == 0x20
}

// freePort is findPort for a test.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := findPort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// findPort finds a port that nobody listens on, below the range from which the system takes the
// ports of outgoing connections, so that it is still free when a server comes back.
func findPort() (int, error) {
	const lowest, count, tries = 20000, 12000, 100
	for range tries {
		port := lowest + rand.IntN(count)
		listener, err := net.Listen("tcp", loopback(port))
		if err == nil {
			_ = listener.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("find free port: none in %d tries", tries)
}
