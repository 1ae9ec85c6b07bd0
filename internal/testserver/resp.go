package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// respLimit bounds one command to a Redis server.
const respLimit = 5 * time.Second

// maxBulk bounds a text in an answer, in bytes.
const maxBulk = 16 << 20

// redisDo sends one command over a connection of its own and returns the answer: texts and numbers
// as text, lists with a line an element. An error of the server is an error.
func redisDo(addr string, args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(respLimit)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	return readAnswer(bufio.NewReader(conn))
}

func readAnswer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty answer")
	}
	rest := line[1:]
	switch line[0] {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n > maxBulk {
		return "", fmt.Errorf("answer begins with %q", line)
	}
	switch {
	case n < 0:
		return "", nil
	case line[0] == '$':
		data := make([]byte, n+2)
		_, err := io.ReadFull(r, data)
		return string(data[:n]), err
	case line[0] == '*':
		elements := make([]string, n)
		for i := range elements {
			if elements[i], err = readAnswer(r); err != nil {
				return "", err
			}
		}
		return strings.Join(elements, "\n"), nil
	}
	return "", fmt.Errorf("answer begins with %q", line)
}
