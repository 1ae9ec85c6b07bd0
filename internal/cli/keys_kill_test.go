package cli_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// pay sends a charge to the example's gateway and returns the answer; 0: there was none.
func pay(t *testing.T, at, key, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+at+"/payments", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer token-of-acct-1")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

func TestK08_K11_AGatewayThatIsKilledWhileTheServiceWorksRunsNothingAgain(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("the example of a gateway needs node: %v", err)
	}
	dir, at := t.TempDir(), addresses(t, 2)
	for _, name := range []string{"service.js", "gateway.yaml"} {
		write(t, dir, name, source(t, "examples", "gateway", name))
	}
	service, url := start(t, node, dir, "service.js", "0", "charges.txt"), ""
	testserver.Until(t, patience, "the service listens", func() bool {
		if m := listens.FindStringSubmatch(service.out.String()); m != nil {
			url = m[1]
		}
		return url != ""
	})
	write(t, dir, "gateway.yaml", strings.ReplaceAll(source(t, "examples", "gateway",
		"gateway.yaml"), "http://127.0.0.1:3000", url))
	gateway := func() *process {
		p := start(t, program(t, "./cmd/once"), dir, "serve", "--config", "gateway.yaml",
			"--listen", at[0], "--admin", at[1])
		testserver.Until(t, patience, "the gateway is ready", func() bool {
			res, err := http.Get("http://" + at[1] + "/readyz")
			if err != nil {
				return false
			}
			_ = res.Body.Close() // only its status counts
			return res.StatusCode == http.StatusOK
		})
		return p
	}
	charges := func() int {
		b, err := os.ReadFile(filepath.Join(dir, "charges.txt"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	const charge = `{"card":"card-late","cents":1250}`
	first := gateway()
	answered := make(chan int)
	go func() {
		status, _ := pay(t, at[0], "order-1", charge)
		answered <- status
	}()
	testserver.Until(t, patience, "the card is charged", func() bool { return charges() == 1 })
	first.kill()
	if status := <-answered; status != 0 {
		t.Errorf("the client was answered %d by a gateway that was killed", status)
	}

	gateway()
	for range 2 {
		status, text := pay(t, at[0], "order-1", charge)
		if status != http.StatusConflict || !strings.Contains(text, "urn:once:problem:held") {
			t.Errorf("a repeat got %d %s", status, text)
		}
	}
	if status, text := pay(t, at[0], "order-1", `{"card":"card-late","cents":9900}`); status !=
		http.StatusUnprocessableEntity {
		t.Errorf("another charge under the key got %d %s", status, text)
	}
	if status, text := pay(t, at[0], "order-2", `{"card":"card-1","cents":5}`); status !=
		http.StatusCreated {
		t.Errorf("another key got %d %s", status, text)
	}
	if n := charges(); n != 2 {
		t.Errorf("%d charges, want one of each key", n)
	}
}
