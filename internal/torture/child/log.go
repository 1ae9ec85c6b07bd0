package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// record is one effect as it was counted. The order of the file is the order of arrival.
type record struct {
	To    string          `json:"to"`
	Key   string          `json:"key"`
	Fence string          `json:"fence,omitempty"`
	Body  json.RawMessage `json:"body"`
}

// effectLog is a file of records, each flushed to the disk before it counts. Those that come in
// together share a flush.
type effectLog struct {
	file  *os.File
	queue chan entry
	done  chan struct{}
	once  sync.Once
}

type entry struct {
	line []byte
	err  chan error
}

// logBacklog bounds the records that share a flush.
const logBacklog = 1024

func openLog(path string) (*effectLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &effectLog{file: f, queue: make(chan entry, logBacklog), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// write returns when the record is durable.
func (l *effectLog) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	e := entry{append(line, '\n'), make(chan error, 1)}
	select {
	case l.queue <- e:
	case <-l.done:
		return os.ErrClosed
	}
	select {
	case err := <-e.err:
		return err
	case <-l.done:
		return os.ErrClosed
	}
}

func (l *effectLog) run() {
	for {
		var batch []entry
		select {
		case e := <-l.queue:
			batch = append(batch, e)
		case <-l.done:
			return
		}
		for len(l.queue) > 0 {
			batch = append(batch, <-l.queue)
		}
		var text []byte
		for _, e := range batch {
			text = append(text, e.line...)
		}
		_, err := l.file.Write(text)
		if err == nil {
			err = l.file.Sync()
		}
		for _, e := range batch {
			e.err <- err
		}
	}
}

func (l *effectLog) close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		err = errors.Join(l.file.Sync(), l.file.Close())
	})
	return err
}
