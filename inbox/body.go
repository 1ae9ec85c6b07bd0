package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/oncekit/once/queue"
)

const (
	// firstRead is the first buffer for a body of unknown or larger length. Memory is given only
	// for what has come, so a sender can't hold much of it by announcing a long body.
	firstRead = 4 << 10

	// maxEmptyReads bounds reads that return nothing at all, as in package bufio.
	maxEmptyReads = 100
)

// reserve takes n bytes of the memory for bodies. It is given back when the message is answered.
func (in *intake) reserve(n int64) bool {
	if in.rc.inFlight.Add(n) > in.rc.cfg.MaxInFlightBytes {
		in.rc.inFlight.Add(-n)
		return false
	}
	in.reserved += n
	return true
}

// What decoding takes for each list, object and further member, in bytes, beside the text; measured
// with Go 1.26 on 64 bits. Values, not their text, are what fills the memory.
const (
	objectCost = 512
	listCost   = 128
	memberCost = 96

	// freeDecoded is what a message may cost so without taking memory for it: the number of
	// connections bounds those.
	freeDecoded = 16 << 10
)

// decodedCost is about what decoding content takes. It is never much less; marks inside of texts
// make it more.
func decodedCost(content []byte) int64 {
	n := objectCost*bytes.Count(content, []byte{'{'}) + listCost*bytes.Count(content, []byte{'['}) +
		memberCost*bytes.Count(content, []byte{','})
	return int64(n)
}

// reserveDecoded takes memory for what a body becomes when it is decoded. It returns false and the
// verdict if there is none.
func (in *intake) reserveDecoded(content []byte) (verdict, bool) {
	cost := decodedCost(content)
	switch {
	case cost <= freeDecoded:
	case cost > in.rc.cfg.MaxInFlightBytes/2:
		return verdict{
			outcome: queue.Invalid, status: http.StatusRequestEntityTooLarge,
			reason: "body holds more values than there is memory for",
		}, false
	case !in.reserve(cost):
		return crowded(), false
	}
	return verdict{}, true
}

// readBody reads the whole body into the message. It returns false and the verdict if it can't.
func (in *intake) readBody(w http.ResponseWriter, r *http.Request) (verdict, bool) {
	if r.ContentLength > in.src.MaxBody {
		w.Header().Set("Connection", "close")
		return in.tooLarge(), false
	}
	limit := in.src.MaxBody
	if r.ContentLength >= 0 {
		limit = r.ContentLength
	}
	size := min(limit, firstRead)
	if !in.reserve(size) {
		return crowded(), false
	}
	body := make([]byte, 0, size)
	empty := 0
	for {
		if int64(len(body)) == limit {
			break
		}
		if len(body) == cap(body) {
			more := min(int64(cap(body)), limit-int64(cap(body)))
			if !in.reserve(more) {
				return crowded(), false
			}
			body = append(make([]byte, 0, int64(cap(body))+more), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		in.msg.Raw = body
		if empty++; n > 0 {
			empty = 0
		}
		if err == nil && empty < maxEmptyReads {
			continue
		}
		return in.bodyEnd(r, err)
	}
	in.msg.Raw = body
	if r.ContentLength < 0 && !atEnd(w, r) {
		return in.tooLarge(), false
	}
	return verdict{}, true
}

// bodyEnd judges a body that ended before its limit.
func (in *intake) bodyEnd(r *http.Request, err error) (verdict, bool) {
	got := len(in.msg.Raw)
	var tooLarge *http.MaxBytesError
	switch {
	case err == io.EOF && r.ContentLength >= 0 && int64(got) < r.ContentLength,
		err == io.ErrUnexpectedEOF:
		if r.ContentLength < 0 {
			return invalid(fmt.Sprintf("body is cut off after %d bytes", got)), false
		}
		return invalid(fmt.Sprintf("body is cut off: %d of %d bytes", got, r.ContentLength)), false
	case err == io.EOF:
		if 2*got < cap(in.msg.Raw) { // what is stored shall not hold on to an empty rest
			in.msg.Raw = append(make([]byte, 0, got), in.msg.Raw...)
		}
		return verdict{}, true
	case errors.As(err, &tooLarge):
		return in.tooLarge(), false
	case errors.Is(err, os.ErrDeadlineExceeded):
		return invalid(fmt.Sprintf("body came too slowly: %d bytes in time", got)), false
	}
	return invalid(fmt.Sprintf("body can't be read after %d bytes", got)), false
}

// atEnd reports whether a body of unknown length ends here. If it doesn't, the connection is closed
// after the answer, as http.MaxBytesReader does it.
func atEnd(w http.ResponseWriter, r *http.Request) bool {
	var one [1]byte
	rest := http.MaxBytesReader(w, r.Body, 0)
	for range maxEmptyReads {
		n, err := rest.Read(one[:])
		if n > 0 {
			return false
		}
		if err != nil {
			return err == io.EOF
		}
	}
	return false
}

func (in *intake) tooLarge() verdict {
	return verdict{
		outcome: queue.Invalid, status: http.StatusRequestEntityTooLarge,
		reason: fmt.Sprintf("body is larger than %d bytes", in.src.MaxBody),
	}
}

// crowded is the verdict when the bodies in flight fill their memory.
func crowded() verdict {
	return verdict{outcome: queue.Unavailable, reason: "too many messages at once, try again"}
}
