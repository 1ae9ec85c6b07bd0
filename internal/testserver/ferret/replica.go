package main

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Limits of the transactions.
const (
	// conflictAfter is how long a transaction waits for another one before it is told that it
	// conflicts. MongoDB tells it at once; here one more would succeed as it is.
	conflictAfter = 20 * time.Millisecond
	// abandonedAfter is how long a transaction may say nothing. MongoDB gives it a minute in all.
	abandonedAfter = 5 * time.Second
	// maxAnswers bounds how many answers are kept for writes that are sent again.
	maxAnswers = 4096
)

// The codes of errors that are made here.
const (
	codeWriteConflict     = 112
	codeNoSuchTransaction = 251
)

// replica plays a member of a replica set before FerretDB: it knows retryable writes and
// transactions. One transaction runs at a time, and nobody else reads or writes meanwhile; what it
// has changed is put back if it is aborted. So it is strict about what a client does, and says
// nothing about how MongoDB isolates transactions that run side by side.
type replica struct {
	gate *gate

	mu      sync.Mutex
	open    *transaction    // nil while none runs
	ended   map[string]bool // transactions that have ended: whether they were committed
	answers map[string]bson.D
	order   []string // of the keys of answers
}

// transaction is the one that runs.
type transaction struct {
	id     string
	last   time.Time
	before map[[2]string][]bson.D // the documents of a collection before its first write
}

func newReplica(g *gate) *replica {
	return &replica{
		gate: g, ended: map[string]bool{}, answers: map[string]bson.D{},
	}
}

// answer carries out one command.
func (r *replica) answer(server net.Conn, request []byte) ([]byte, error) {
	command, err := parseCommand(request)
	if err != nil || command == nil {
		answer, err := r.gate.ask(server, request)
		return r.asMember(answer), err
	}
	name := command.doc[0].Key
	switch name {
	case "hello", "ping", "buildInfo", "endSessions", "isMaster", "ismaster":
		answer, err := r.gate.ask(server, command.encode(request))
		return r.asMember(answer), err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if command.transactional {
		doc, err := r.inside(server, command, request)
		return encodeAnswer(request, doc), err
	}
	r.expire(server, command.id, true)
	if command.id != "" {
		if known, found := r.answers[command.id]; found {
			return encodeAnswer(request, known), nil
		}
	}
	doc, err := r.gate.do(server, command.encode(request))
	if err == nil && command.id != "" {
		r.keep(command.id, doc)
	}
	return encodeAnswer(request, doc), err
}

// keep remembers the answer to a write that may be sent again.
func (r *replica) keep(id string, doc bson.D) {
	r.answers[id] = doc
	if r.order = append(r.order, id); len(r.order) > maxAnswers {
		delete(r.answers, r.order[0])
		r.order = r.order[1:]
	}
}

// expire waits until no transaction but the one given runs, or aborts one that says nothing any
// more. Called with the lock held, which it gives up meanwhile. false if it did not wait to the
// end.
func (r *replica) expire(server net.Conn, but string, patient bool) bool {
	until := time.Now().Add(conflictAfter)
	for r.open != nil && r.open.id != but {
		if time.Since(r.open.last) > abandonedAfter {
			_ = r.abort(server)
			return true
		}
		if !patient && time.Now().After(until) {
			return false
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
		r.mu.Lock()
	}
	return true
}

// inside carries out one command of a transaction.
func (r *replica) inside(server net.Conn, c *command, request []byte) (bson.D, error) {
	if c.starts {
		if !r.expire(server, c.id, false) {
			return failure(codeWriteConflict, "WriteConflict"), nil
		}
		r.open = &transaction{id: c.id, before: map[[2]string][]bson.D{}}
	}
	name := c.doc[0].Key
	if r.open == nil || r.open.id != c.id {
		if committed, ended := r.ended[c.id]; ended && committed && name == "commitTransaction" {
			return bson.D{{Key: "ok", Value: 1.0}}, nil
		}
		return failure(codeNoSuchTransaction, "NoSuchTransaction"), nil
	}
	r.open.last = time.Now()
	switch name {
	case "commitTransaction":
		r.ended[c.id], r.open = true, nil
		return bson.D{{Key: "ok", Value: 1.0}}, nil
	case "abortTransaction":
		return bson.D{{Key: "ok", Value: 1.0}}, r.abort(server)
	}
	if writes(name) {
		if err := r.remember(server, c); err != nil {
			return nil, err
		}
	}
	doc, err := r.gate.do(server, c.encode(request))
	if err == nil && failed(doc) {
		err = r.abort(server)
	}
	return doc, err
}

// remember keeps a collection's documents before its first write.
func (r *replica) remember(server net.Conn, c *command) error {
	collection, _ := c.doc[0].Value.(string)
	at := [2]string{c.database(), collection}
	if _, known := r.open.before[at]; known {
		return nil
	}
	const all = 1 << 20
	doc, err := r.gate.do(server, encode(bson.D{
		{Key: "find", Value: collection}, {Key: "batchSize", Value: int32(all)},
		{Key: "singleBatch", Value: true}, {Key: "$db", Value: at[0]},
	}))
	if err != nil {
		return err
	}
	cursor, _ := get(doc, "cursor").(bson.D)
	batch, _ := get(cursor, "firstBatch").(bson.A)
	documents := make([]bson.D, 0, len(batch))
	for _, d := range batch {
		if d, ok := d.(bson.D); ok {
			documents = append(documents, d)
		}
	}
	r.open.before[at] = documents
	return nil
}

// abort puts back what the transaction has changed.
func (r *replica) abort(server net.Conn) error {
	t := r.open
	r.ended[t.id], r.open = false, nil
	for at, documents := range t.before {
		_, err := r.gate.do(server, encode(bson.D{
			{Key: "delete", Value: at[1]}, {Key: "$db", Value: at[0]},
			{Key: "deletes", Value: bson.A{bson.D{
				{Key: "q", Value: bson.D{}}, {Key: "limit", Value: int32(0)},
			}}},
		}))
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(documents, maxBatch) {
			doc, err := r.gate.do(server, encode(bson.D{
				{Key: "insert", Value: at[1]}, {Key: "documents", Value: chunk},
				{Key: "$db", Value: at[0]},
			}))
			if err != nil {
				return err
			}
			if failed(doc) {
				return errors.New("an aborted transaction could not be put back")
			}
		}
	}
	return nil
}

// asMember makes a hello's answer that of a replica set's primary.
func (r *replica) asMember(answer []byte) []byte {
	at := bodyAt(answer)
	if at == 0 {
		return answer
	}
	var doc bson.D
	if bson.Unmarshal(answer[at:], &doc) != nil || get(doc, "maxBsonObjectSize") == nil {
		return answer
	}
	if get(doc, "connectionId") == nil && get(doc, "maxWireVersion") == nil {
		return answer
	}
	address := r.gate.addr()
	doc = append(doc, bson.E{Key: "setName", Value: "emulated"}, bson.E{Key: "me", Value: address},
		bson.E{Key: "primary", Value: address}, bson.E{Key: "hosts", Value: bson.A{address}})
	text, err := bson.Marshal(doc)
	if err != nil {
		return answer
	}
	made := append(slices.Clone(answer[:at]), text...)
	binary.LittleEndian.PutUint32(made, uint32(len(made)))
	return made
}
