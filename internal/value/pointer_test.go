package value

import "testing"

func TestPointersNameWhatIsLeftOutOfTheDigest(t *testing.T) {
	const whole = `{"a":{"b/c":1,"~":2,"3":4},"l":[5,{"t":6}],"k":7}`
	for _, tt := range []struct{ pointer, same string }{
		{"/a/b~1c", `{"a":{"b/c":9,"~":2,"3":4},"l":[5,{"t":6}],"k":7}`},
		{"/a/~0", `{"a":{"b/c":1,"3":4},"l":[5,{"t":6}],"k":7}`},
		{"/a/3", `{"a":{"b/c":1,"~":2,"3":0},"l":[5,{"t":6}],"k":7}`},
		{"/l/1/t", `{"a":{"b/c":1,"~":2,"3":4},"l":[5,{"t":null}],"k":7}`},
		{"/k", `{"a":{"b/c":1,"~":2,"3":4},"l":[5,{"t":6}]}`},
	} {
		paths, err := ParsePointer(tt.pointer)
		if err != nil {
			t.Errorf("%s: %v", tt.pointer, err)
			continue
		}
		digest := func(text string, ignore []Path) any {
			v, err := Decode([]byte(text), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := Digest(v, ignore)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if digest(whole, paths) != digest(tt.same, paths) {
			t.Errorf("%s: what it names is in the digest", tt.pointer)
		}
		if digest(whole, nil) == digest(tt.same, nil) {
			t.Errorf("%s: the texts don't differ without it", tt.pointer)
		}
	}
}

func TestBadPointersAreRefused(t *testing.T) {
	for _, text := range []string{"", "a", "/", "/a//b", "/~2", "/a~", "/1/2/3/4/5/6/7"} {
		if _, err := ParsePointer(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
