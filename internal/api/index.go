package api

import "github.com/oncekit/once/internal/wire"

func (a *API) index(*call) (any, error) {
	out := wire.Index{Version: a.cfg.Version}
	for _, rt := range a.routes {
		out.Routes = append(out.Routes,
			wire.IndexLine{Method: rt.method, Path: rt.pattern, Summary: rt.summary})
	}
	return out, nil
}
