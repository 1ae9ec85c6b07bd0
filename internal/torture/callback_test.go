package torture_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// callback is one message of a sender, with what the sender knows about it.
type callback struct {
	source, event string
	key           []string
	line          string // what it is in order with: task, meter, order
	group         int    // later than every group below it in its line, which were acknowledged
	fields        map[string]any

	mu        sync.Mutex
	sends     int // of this very content
	acks      int
	conflicts int // of other content under its key
	told      int // of these, acknowledged
}

// id names a callback among all.
func (c *callback) id() string { return c.source + " " + keyText(c.key) }

// keyText is a key as the store keeps it.
func keyText(key []string) string {
	b, err := json.Marshal(key)
	if err != nil {
		panic(err) // texts always marshal
	}
	return string(b)
}

// body is the message. changed differs in a field that is compared; stamp is one that is not.
func (c *callback) body(changed bool, stamp int64) []byte {
	m := map[string]any{}
	for k, v := range c.fields {
		m[k] = v
	}
	if changed {
		m["robotCode"] = "another"
	}
	if c.source == "rcs" {
		m["reqTime"] = fmt.Sprint(stamp)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return b
}

func (c *callback) text(field string) string {
	s, _ := c.fields[field].(string)
	return s
}

// data is a field of the robots' `data`.
func (c *callback) data(field string) any {
	m, _ := c.fields["data"].(map[string]any)
	return m[field]
}

// robotCallback is one of a robot control system.
func robotCallback(task, event string, n int, data map[string]any) *callback {
	req := fmt.Sprintf("REQ-%s-%d", strings.TrimPrefix(task, "TASK-"), n)
	return &callback{
		source: "rcs", event: event, key: []string{req, task, event}, line: task,
		fields: map[string]any{
			"reqCode": req, "taskCode": task, "callbackMethod": event, "robotCode": "AGV-7",
			"currentPositionCode": "S-" + task, "data": data,
		},
	}
}

// plainCallback is one whose key is its id. order names the field that puts it into a line.
func plainCallback(source, event, id, order, line string, n int) *callback {
	f := map[string]any{"id": id, "event": event, "n": n}
	if order != "" {
		f[order] = line
	}
	return &callback{source: source, event: event, key: []string{id}, line: line, fields: f}
}

// book is what the senders know: which callbacks there are, and of which an answer came.
type book struct {
	mu   sync.Mutex
	all  []*callback
	told []*callback // acknowledged, of sources that remember them
}

func (b *book) add(c *callback) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, c)
}

func (b *book) acknowledged(c *callback) {
	if c.source == "lamps" { // soon forgotten, so a late repeat is a new one
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, c)
}

// earlier returns an acknowledged callback by a random number; nil if there is none yet.
func (b *book) earlier(pick func(n int) int) *callback {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.told) == 0 {
		return nil
	}
	return b.told[pick(len(b.told))]
}

func (b *book) callbacks() []*callback {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*callback(nil), b.all...)
}
