package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/child"
)

// Bouncer is a running PgBouncer in transaction mode: each transaction of a client may get another
// connection of few to the server. It keeps no prepared statements, as none did before 1.21.
type Bouncer struct {
	root string
	port int
	proc *child.Process
}

// bouncerConns are its connections to the server: fewer than its clients, so that they change.
const bouncerConns = 4

// StartBouncer starts a PgBouncer before a server, and returns when it answers. Lines are further
// ones of its section [pgbouncer]. The error names the package that is missing.
func StartBouncer(s *Server, lines ...string) (*Bouncer, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not on every user's path
		if _, err := os.Stat(program); err != nil {
			return nil, errors.New("PgBouncer is missing: apt-get install pgbouncer")
		}
	}
	root, err := os.MkdirTemp("", "once-pgbouncer-")
	if err != nil {
		return nil, err
	}
	b := &Bouncer{root: root}
	for range startTries {
		if b.port, err = freePort(); err != nil {
			break
		}
		if err = b.start(program, s, lines); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bouncer) start(program string, s *Server, lines []string) error {
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return err
	}
	if keepsStatements(string(version)) {
		lines = append([]string{"max_prepared_statements = 0"}, lines...)
	}
	users, conf := filepath.Join(b.root, "users"), filepath.Join(b.root, "conf")
	text := strings.Join(append([]string{
		"[databases]",
		fmt.Sprintf("* = host=127.0.0.1 port=%d", s.port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", b.port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + users,
		"pool_mode = transaction", fmt.Sprintf("default_pool_size = %d", bouncerConns),
		// Without this the connection used last is used first, and few would change.
		"server_round_robin = 1",
		"max_client_conn = 200", "server_login_retry = 1",
	}, lines...), "\n") + "\n"
	if err := errors.Join(os.Chmod(b.root, 0o755),
		os.WriteFile(users, []byte(strconv.Quote(superuser)+" \"\"\n"), 0o644),
		os.WriteFile(conf, []byte(text), 0o644)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(b.root, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, conf)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + b.root}
	start := child.Start
	if s.as != nil {
		start = func(cmd *exec.Cmd) (*child.Process, error) { return child.StartAs(cmd, s.as) }
	}
	if b.proc, err = start(cmd); err != nil {
		return err
	}
	return b.awaitReady()
}

// firstKeeping is the minor version of PgBouncer 1 from which on it can keep prepared statements,
// which is then switched off, so that all versions do the same.
const firstKeeping = 21

func keepsStatements(version string) bool {
	var major, minor int
	_, err := fmt.Sscanf(version, "PgBouncer %d.%d", &major, &minor)
	return err == nil && (major > 1 || minor >= firstKeeping)
}

// awaitReady waits until this very PgBouncer passes a question on.
func (b *Bouncer) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := b.ping(ctx)
		log, _ := os.ReadFile(filepath.Join(b.root, "log")) // it may be empty yet
		switch {
		case b.proc.Ended() && portTaken.Match(log):
			return errPortTaken
		case b.proc.Ended():
			return fmt.Errorf("PgBouncer ended: %s", log)
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("PgBouncer is not ready after %v: %w: %s", startLimit, err, log)
		}
		time.Sleep(pollEvery)
	}
}

func (b *Bouncer) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeExec)
	return err
}

// Addr is its host and port.
func (b *Bouncer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// URL is how to connect to a database through it.
func (b *Bouncer) URL(database string) string { return URL(b.Addr(), database) }

// Close ends it and removes its files. It is safe twice.
func (b *Bouncer) Close() error {
	if b.proc != nil {
		b.proc.End(syscall.SIGTERM, stopLimit)
	}
	return os.RemoveAll(b.root)
}
