// Module peers runs package oncehttp inside routers and upgrade libraries that people use it with,
// apart from what a user of once depends on.
module github.com/oncekit/once/oncehttp/peers

go 1.26.0

require (
	github.com/go-chi/chi/v5 v5.3.2
	github.com/gorilla/websocket v1.5.3
	github.com/oncekit/once v0.0.0
)

require github.com/go-json-experiment/json v1.27.2 // indirect

replace github.com/oncekit/once => ../../
