package oncehttp

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekit/once"
)

// ReadAnswer is the reverse of [Answer.Outcome]: what repeats of a completed request get, for
// people who look at its record. kept is false where the body was not kept; then the answer may be
// empty. seal is the Config.Seal of the middleware that made it. The error is [once.ErrCorrupt].
func ReadAnswer(id once.Identity, o once.Outcome, seal *Sealer) (a Answer, kept bool, err error) {
	data := o.Data
	if len(data) == 0 {
		return Answer{}, false, nil
	}
	if seal != nil {
		if data, err = seal.open(id, data); err != nil {
			return Answer{}, false, err
		}
	}
	parsed, err := parseAnswer(data)
	if err != nil {
		return Answer{}, false, err
	}
	a = Answer{Status: parsed.status, Header: http.Header{}, Body: parsed.body}
	for _, f := range parsed.headers {
		if len(f.values) > 0 {
			a.Header[f.name] = f.values
		}
	}
	return a, o.Kind == once.Kept, nil
}

// ReadKey reads the value of an Idempotency-Key header, bare or quoted, as [Middleware] does. An
// empty result is no key.
func ReadKey(text string) (string, error) {
	key, p := parseKey(HeaderKey, text)
	if p != nil {
		return "", fmt.Errorf("read key: %w", errors.New(p.Detail))
	}
	return key, nil
}
