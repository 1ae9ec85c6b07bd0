package main

import (
	"bytes"
	"encoding/binary"
)

// The parts of a message that the gate has to know (MongoDB wire protocol, OP_MSG).
const (
	headerBytes = 16
	opMsg       = 2013
	// moreToCome in the flags of a request says that no answer is wanted.
	moreToCome = 1 << 1
	// flagBytes stand after the header.
	flagBytes = 4
)

// writes tells whether a command changes documents, collections or indexes. FerretDB makes a
// collection at its first document, so what makes and drops them is among them.
func writes(command string) bool {
	switch command {
	case "insert", "update", "delete", "findAndModify", "findandmodify",
		"create", "createIndexes", "drop", "dropDatabase", "dropIndexes", "renameCollection",
		"collMod":
		return true
	}
	return false
}

// maxBatch is how many writes of one command FerretDB is given. It holds a connection to SQLite for
// each until the last one is done, has 100 of them, and waits for ever for the next.
const maxBatch = 20

// batchMember is the member of a hello's answer by which drivers divide their batches, an int32.
var batchMember = []byte("\x10maxWriteBatchSize\x00")

// limitBatches changes what a server says of itself, if a message is that.
func limitBatches(answer []byte) {
	const near = 2048 // a hello's answer is short
	at := bytes.Index(answer[:min(len(answer), near)], batchMember)
	if at < 0 || at+len(batchMember)+4 > len(answer) {
		return
	}
	binary.LittleEndian.PutUint32(answer[at+len(batchMember):], maxBatch)
}

// wantsAnswer tells whether the client waits for an answer. If not, the flag is taken out of the
// message: the gate wants one, to know when the next command may pass.
func wantsAnswer(message []byte) bool {
	flags, ok := flagsOf(message)
	if !ok || flags&moreToCome == 0 {
		return true
	}
	binary.LittleEndian.PutUint32(message[headerBytes:], flags&^moreToCome)
	return false
}

// timeLimit begins the member maxTimeMS of a command, as the driver writes it: a 64-bit number.
var timeLimit = []byte("\x12maxTimeMS\x00")

// takeLimit lets a command take as long as it does, as if it had no maxTimeMS. Where FerretDB ends
// one that takes too long, its connection to SQLite may be left inside a transaction: later
// commands fail on it, or are acknowledged and never written.
func takeLimit(message []byte) {
	const size = 8
	at := bytes.Index(message, timeLimit)
	if at < 0 || len(message) < at+len(timeLimit)+size {
		return
	}
	binary.LittleEndian.PutUint64(message[at+len(timeLimit):], 0)
}

func flagsOf(message []byte) (uint32, bool) {
	if len(message) < headerBytes+flagBytes ||
		binary.LittleEndian.Uint32(message[12:]) != opMsg {
		return 0, false
	}
	return binary.LittleEndian.Uint32(message[headerBytes:]), true
}

// commandOf is the name of a message's command: the first member of the document in its section of
// kind 0. Sections of kind 1, lists of documents, may stand before or after it. It is empty for
// messages of another kind and for broken ones, which the server refuses.
func commandOf(message []byte) string {
	if _, ok := flagsOf(message); !ok {
		return ""
	}
	rest := message[headerBytes+flagBytes:]
	for len(rest) > 5 {
		kind, size := rest[0], int(binary.LittleEndian.Uint32(rest[1:]))
		if kind == 0 {
			return firstName(rest[1:])
		}
		if kind != 1 || size < 4 || size > len(rest)-1 {
			return ""
		}
		rest = rest[1+size:]
	}
	return ""
}

// firstName is the name of a BSON document's first member: after four bytes of length and one of
// its type, up to a zero.
func firstName(document []byte) string {
	const before = 5
	if len(document) < before {
		return ""
	}
	name, _, found := bytes.Cut(document[before:], []byte{0})
	if !found {
		return ""
	}
	return string(name)
}
