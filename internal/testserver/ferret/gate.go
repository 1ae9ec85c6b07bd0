package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Limits of the gate.
const (
	dialLimit = 10 * time.Second
	// writeLimit is for a client that does not read its answer.
	writeLimit = 10 * time.Second
	// maxMessage is MongoDB's own limit, in bytes.
	maxMessage = 48_000_000
)

// gate forwards connections to a server, message by message, and holds a lock from the moment at
// which a writing command goes to the server until the server has answered it. That the client is
// gone meanwhile changes nothing: the command is carried out.
type gate struct {
	listener net.Listener
	target   string
	writing  *sync.Mutex
	member   *replica // nil: transactions and sessions are not known
}

func newGate(listen, target string) (*gate, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	return &gate{listener: l, target: target, writing: &sync.Mutex{}}, nil
}

func (g *gate) addr() string { return g.listener.Addr().String() }

func (g *gate) serve() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		go g.forward(client)
	}
}

// forward carries one connection: each message is a command, and has one answer.
func (g *gate) forward(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", g.target, dialLimit)
	if err != nil {
		return
	}
	defer server.Close()
	for {
		request, err := readMessage(client)
		if err != nil {
			return
		}
		wanted := wantsAnswer(request)
		takeLimit(request)
		answer, err := g.answer(server, request)
		if err != nil {
			return
		}
		if !wanted {
			continue
		}
		limitBatches(answer)
		_ = client.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

func (g *gate) answer(server net.Conn, request []byte) ([]byte, error) {
	if g.member != nil {
		return g.member.answer(server, request)
	}
	return g.ask(server, request)
}

// ask sends one message and returns its answer.
func (g *gate) ask(server net.Conn, request []byte) ([]byte, error) {
	if writes(commandOf(request)) {
		g.writing.Lock()
		defer g.writing.Unlock()
	}
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	return readMessage(server)
}

// readMessage reads one message of MongoDB's wire protocol: its length first, in four bytes.
func readMessage(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n < headerBytes || n > maxMessage {
		return nil, errors.New("a message of a wrong length")
	}
	message := make([]byte, n)
	copy(message, size[:])
	_, err := io.ReadFull(from, message[len(size):])
	return message, err
}
