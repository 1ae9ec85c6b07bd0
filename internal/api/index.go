package api

// index is what the listener has, for a person who looks at it without having read anything.
type index struct {
	Version string      `json:"version" doc:"Of the program."`
	Routes  []indexLine `json:"routes" doc:"What this listener answers."`
}

type indexLine struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Summary string `json:"summary"`
}

func (a *API) index(*call) (any, error) {
	out := index{Version: a.cfg.Version}
	for _, rt := range a.routes {
		out.Routes = append(out.Routes, indexLine{rt.method, rt.pattern, rt.summary})
	}
	return out, nil
}
