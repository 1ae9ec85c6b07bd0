package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/internal/gateway"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/oncehttp"
)

// recordsAPI is what the operator sees of the gateway's records; nil: there is no gateway, or
// people can't look into its store.
func (s *Server) recordsAPI() (*api.RecordsConfig, error) {
	store, ok := s.records.(api.Records)
	if s.cfg.Gateway == nil || !ok {
		return nil, nil
	}
	seal, err := gateway.Sealer(s.cfg.Gateway)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &api.RecordsConfig{
		Store: store, Counts: s.recordCounts,
		Scoped: s.cfg.Gateway.Scope != nil, ReadKey: oncehttp.ReadKey,
		Read: func(id once.Identity, o once.Outcome) (*wire.RecordAnswer, error) {
			return shownAnswer(id, o, seal)
		},
		Make: func(id once.Identity, status int, header http.Header, body []byte) (
			once.Outcome, error) {
			return oncehttp.Answer{Status: status, Header: header, Body: body}.Outcome(id, seal)
		},
	}, nil
}

// shownAnswer is a kept answer as people see it.
func shownAnswer(id once.Identity, o once.Outcome, seal *oncehttp.Sealer) (*wire.RecordAnswer,
	error,
) {
	a, kept, err := oncehttp.ReadAnswer(id, o, seal)
	if err != nil || a.Status == 0 {
		return nil, err
	}
	out := &wire.RecordAnswer{Status: a.Status, Header: []wire.HeaderField{}, Kept: kept}
	for name, values := range a.Header {
		for _, v := range values {
			out.Header = append(out.Header, wire.HeaderField{Name: name,
				Value: strings.ToValidUTF8(v, "\uFFFD")})
		}
	}
	slices.SortStableFunc(out.Header, func(a, b wire.HeaderField) int {
		return strings.Compare(a.Name, b.Name)
	})
	if kept {
		if a.Body == nil {
			a.Body = []byte{}
		}
		out.Payload = wire.PayloadOf(a.Body)
	}
	return out, nil
}
