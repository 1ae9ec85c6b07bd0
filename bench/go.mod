module github.com/oncekit/once/bench

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/oncekit/once v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
)

replace github.com/oncekit/once => ../
