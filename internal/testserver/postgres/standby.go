package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StandbyName is how a standby calls itself to the server that it follows: what
// synchronous_standby_names has to say for commits to wait for it.
const StandbyName = "standby"

// PrimaryLines are lines of postgresql.conf for a server that is to be followed, whose commits wait
// for the standby as synchronous_commit says: on, remote_apply, or local for one that is
// asynchronous. From its start on no commit returns before the standby is there.
func PrimaryLines(commit string) []string {
	return []string{
		"synchronous_commit = " + commit, "synchronous_standby_names = '" + StandbyName + "'",
		"wal_keep_size = 512MB", // a standby that was away finds what it has missed
		// A standby that does not answer for a while is still the one that is waited for.
		"wal_sender_timeout = 0",
	}
}

// copyFollowed makes a standby of the server that answers at the address.
func (s *Server) copyFollowed() error {
	host, port, err := net.SplitHostPort(s.conf.Follow)
	if err != nil {
		return err
	}
	err = s.finish(s.command("pg_basebackup", "--pgdata="+s.data(), "--host="+host,
		"--port="+port, "--username="+superuser, "--checkpoint=fast", "--wal-method=fetch",
		"--no-sync"))
	if err != nil {
		return fmt.Errorf("copy the server that is followed: %w", err)
	}
	signal := filepath.Join(s.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if s.as != nil {
		if err := os.Chown(signal, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	return s.configure(append([]string{
		"synchronous_standby_names = ''",
		fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s application_name=%s'",
			host, port, superuser, StandbyName),
		"wal_retrieve_retry_interval = 100ms", "wal_receiver_timeout = 0",
	}, s.conf.Lines...))
}

// AwaitStandby returns when a standby has all that the server has written, and commits wait for it.
func (s *Server) AwaitStandby() error {
	return s.await("the standby follows", `SELECT EXISTS (SELECT FROM pg_stat_replication
WHERE state = 'streaming' AND sync_state = 'sync' AND replay_lsn >= pg_current_wal_flush_lsn())`)
}

// Promote makes a standby a primary, and returns when it can be written.
func (s *Server) Promote() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := s.query(ctx, "SELECT pg_promote(false)", nil); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return s.await("it is promoted", "SELECT NOT pg_is_in_recovery()")
}

// await returns when a question is answered with true.
func (s *Server) await(what, question string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		var is bool
		err := s.query(ctx, question, &is)
		switch {
		case is:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waited %v in vain until %s: %w", startLimit, what,
				errors.Join(err, errors.New(s.log())))
		}
		time.Sleep(pollEvery)
	}
}

// Crash ends the server and each of its processes by SIGKILL, as if the machine were gone, and
// returns when the server is. It does nothing if the server is down.
func (s *Server) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	s.proc.Signal(syscall.SIGSTOP) // it starts no more of them
	for _, pid := range children(s.proc.PID()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
	}
	s.proc.Kill()
	s.proc = nil
}

// children are the processes of a server; none where the system does not tell: they end by
// themselves when they notice that it is gone.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	var list []int
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// "pid (name) state parent …": the name may hold anything.
		fields := strings.Fields(string(b[slices.Index(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}
