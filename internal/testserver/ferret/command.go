package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// command is a message whose body has been read.
type command struct {
	doc bson.D
	// id names the transaction, or the write that may be sent again; empty if it is neither.
	id string
	// transactional: it belongs to a transaction, which it starts if starts is set.
	transactional, starts bool
	lists                 []byte // the sections of kind 1, as they came
}

// parseCommand reads an OP_MSG; nil for another message. What speaks of sessions and of concerns is
// taken out: FerretDB has neither.
func parseCommand(request []byte) (*command, error) {
	if _, ok := flagsOf(request); !ok {
		return nil, nil
	}
	c := &command{}
	rest := request[headerBytes+flagBytes:]
	for len(rest) > 5 {
		kind, size := rest[0], int(binary.LittleEndian.Uint32(rest[1:]))
		if size < 4 || size > len(rest)-1 {
			return nil, fmt.Errorf("a section of %d bytes", size)
		}
		section := rest[1 : 1+size]
		if kind == 0 {
			if err := bson.Unmarshal(section, &c.doc); err != nil {
				return nil, err
			}
		} else {
			c.lists = append(c.lists, rest[:1+size]...)
		}
		rest = rest[1+size:]
	}
	if len(c.doc) == 0 {
		return nil, nil
	}
	if number := get(c.doc, "txnNumber"); number != nil {
		c.id = fmt.Sprint(get(c.doc, "lsid"), number)
		c.transactional = get(c.doc, "autocommit") == false
		c.starts = get(c.doc, "startTransaction") == true
		if c.transactional {
			c.id = "transaction " + c.id
		}
	}
	c.doc = slices.DeleteFunc(c.doc, func(e bson.E) bool {
		switch e.Key {
		case "lsid", "txnNumber", "autocommit", "startTransaction", "$clusterTime",
			"readConcern", "writeConcern", "recoveryToken":
			return true
		}
		return false
	})
	return c, nil
}

func (c *command) database() string {
	name, _ := get(c.doc, "$db").(string)
	return name
}

// encode makes the message of the command, with the number of the request.
func (c *command) encode(request []byte) []byte {
	m := encode(c.doc)
	m = append(m, c.lists...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	copy(m[4:8], request[4:8])
	return m
}

// encode makes an OP_MSG of one document.
func encode(doc bson.D) []byte {
	body, err := bson.Marshal(doc)
	if err != nil {
		panic(err) // it was read from BSON, or is written here
	}
	m := make([]byte, headerBytes+flagBytes+1, headerBytes+flagBytes+1+len(body))
	m = append(m, body...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	binary.LittleEndian.PutUint32(m[12:], opMsg)
	return m
}

// encodeAnswer makes the answer to a request.
func encodeAnswer(request []byte, doc bson.D) []byte {
	m := encode(doc)
	copy(m[8:12], request[4:8])
	return m
}

// do sends a command and reads the document of its answer.
func (g *gate) do(server net.Conn, request []byte) (bson.D, error) {
	answer, err := g.ask(server, request)
	if err != nil {
		return nil, err
	}
	at := bodyAt(answer)
	if at == 0 {
		return nil, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	var doc bson.D
	err = bson.Unmarshal(answer[at:], &doc)
	return doc, err
}

// bodyAt is where the document of an answer begins; 0 if it has none.
func bodyAt(answer []byte) int {
	const opReply, replyBytes = 1, 20
	if len(answer) < headerBytes+replyBytes {
		return 0
	}
	switch binary.LittleEndian.Uint32(answer[12:]) {
	case opReply:
		return headerBytes + replyBytes
	case opMsg:
		return headerBytes + flagBytes + 1
	}
	return 0
}

func get(doc bson.D, name string) any {
	for _, e := range doc {
		if e.Key == name {
			return e.Value
		}
	}
	return nil
}

// failed tells whether a command, or a part of it, was refused.
func failed(doc bson.D) bool {
	return get(doc, "ok") != 1.0 || get(doc, "writeErrors") != nil
}

// failure is an error after which the transaction may be begun again.
func failure(code int32, name string) bson.D {
	return bson.D{
		{Key: "ok", Value: 0.0}, {Key: "code", Value: code}, {Key: "codeName", Value: name},
		{Key: "errmsg", Value: name},
		{Key: "errorLabels", Value: bson.A{"TransientTransactionError"}},
	}
}
