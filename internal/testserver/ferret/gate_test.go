package main

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// message makes an OP_MSG of sections.
func message(flags uint32, sections ...[]byte) []byte {
	m := make([]byte, headerBytes+flagBytes)
	for _, s := range sections {
		m = append(m, s...)
	}
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	binary.LittleEndian.PutUint32(m[12:], opMsg)
	binary.LittleEndian.PutUint32(m[headerBytes:], flags)
	return m
}

// body is a section of kind 0 with the document {NAME: 1}.
func body(name string) []byte {
	doc := append([]byte{0, 0, 0, 0, 0x10}, name...)
	doc = append(doc, 0, 1, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
	return append([]byte{0}, doc...)
}

// list is a section of kind 1 named "documents" without any.
func list() []byte {
	s := append([]byte{0, 0, 0, 0}, "documents\x00"...)
	binary.LittleEndian.PutUint32(s, uint32(len(s)))
	return append([]byte{1}, s...)
}

func TestTheCommandIsFoundBehindAndBeforeLists(t *testing.T) {
	other := message(0, body("insert"))
	binary.LittleEndian.PutUint32(other[12:], 2004)
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"alone", message(0, body("update")), "update"},
		{"list after", message(0, body("insert"), list()), "insert"},
		{"list before", message(0, list(), body("insert")), "insert"},
		{"two lists before", message(0, list(), list(), body("delete")), "delete"},
		{"with a checksum", append(message(1, body("find")), 1, 2, 3, 4), "find"},
		{"another kind of message", other, ""},
		{"no section", message(0), ""},
		{"a kind that is unknown", message(0, []byte{9, 5, 0, 0, 0, 0}), ""},
		{"a list too long", message(0, []byte{1, 99, 0, 0, 0, 0}), ""},
	} {
		if got := commandOf(c.message); got != c.want {
			t.Errorf("%s: command %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAWriteWithoutAnswerIsAnsweredToTheGateOnly(t *testing.T) {
	m := message(moreToCome, body("insert"))
	if wantsAnswer(m) {
		t.Error("a message that wants no answer was taken for one that does")
	}
	if !wantsAnswer(m) {
		t.Error("the flag is still in the message")
	}
}

func TestOneWriteIsAtTheServerAtATimeAndReadsPass(t *testing.T) {
	server := listen(t)
	g, err := newGate("127.0.0.1:0", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.listener.Close() })
	go g.serve()

	first, atFirst := connect(t, g, server)
	second, atSecond := connect(t, g, server)
	reader, atReader := connect(t, g, server)

	send(t, first, message(0, body("update")))
	receive(t, atFirst)
	send(t, second, message(0, body("insert"), list()))
	came := make(chan []byte, 1)
	go func() {
		m, _ := readMessage(atSecond)
		came <- m
	}()
	send(t, reader, message(0, body("find")))
	receive(t, atReader) // a read passes while a write is under way
	select {
	case <-came:
		t.Fatal("a second write reached the server before the first was answered")
	default:
	}
	send(t, atFirst, message(0, body("ok")))
	receive(t, first)
	if got := commandOf(<-came); got != "insert" {
		t.Fatalf("the second write came as %q", got)
	}
}

func TestAWriteWhoseClientIsGoneHoldsTheGateToItsEnd(t *testing.T) {
	server := listen(t)
	g, err := newGate("127.0.0.1:0", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.listener.Close() })
	go g.serve()

	first, atFirst := connect(t, g, server)
	send(t, first, message(0, body("update")))
	receive(t, atFirst)
	_ = first.Close()
	if g.writing.TryLock() {
		t.Fatal("the gate is open although the server has not answered")
	}
	send(t, atFirst, message(0, body("ok")))
	g.writing.Lock() // the answer opens it
	defer g.writing.Unlock()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect makes a connection through the gate and returns both of its ends.
func connect(t *testing.T, g *gate, server net.Listener) (client, at net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", g.addr())
	if err != nil {
		t.Fatal(err)
	}
	at, err = server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), at.Close() })
	return client, at
}

func send(t *testing.T, to io.Writer, m []byte) {
	t.Helper()
	if _, err := to.Write(m); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, from io.Reader) {
	t.Helper()
	if _, err := readMessage(from); err != nil {
		t.Fatal(err)
	}
}

func TestACommandsTimeLimitIsTakenAway(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"a limit": {"a\x12maxTimeMS\x00\x07\x01\x00\x00\x00\x00\x00\x00b",
			"a\x12maxTimeMS\x00\x00\x00\x00\x00\x00\x00\x00\x00b"},
		"none":            {"a\x12maxTime\x00\x07b", "a\x12maxTime\x00\x07b"},
		"one that is cut": {"a\x12maxTimeMS\x00\x07\x01", "a\x12maxTimeMS\x00\x07\x01"},
	} {
		message := []byte(c.in)
		takeLimit(message)
		if string(message) != c.out {
			t.Errorf("%s: %q, want %q", name, message, c.out)
		}
	}
}

func TestAHelloPromisesBatchesThatTheServerCanTake(t *testing.T) {
	doc := append([]byte{0, 0, 0, 0}, "\x10maxWriteBatchSize\x00\xa0\x86\x01\x00\x00"...)
	m := message(0, append([]byte{0}, doc...))
	want := append([]byte{}, m...)
	copy(want[len(want)-5:], []byte{20, 0, 0, 0})
	limitBatches(m)
	if string(m) != string(want) {
		t.Errorf("answer %q, want %q", m, want)
	}
	other := message(0, body("ok"))
	before := string(other)
	limitBatches(other)
	limitBatches(nil)
	if string(other) != before {
		t.Error("another answer was changed")
	}
}
